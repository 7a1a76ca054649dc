"""What holds for generators: no logit looks ahead, a batch costs what its rows cost, and what bad
input gets."""

import math

import pytest
import torch
from attention_tools import NEAR
from model_tools import small
from refusals import refuses
from torch.testing import assert_close

from former_nb.data.batches import make_batches
from former_nb.data.text import BOS, EOS
from former_nb.data.tokenization import CharTokenizer
from former_nb.inspection.leaks import assert_no_leak, noise_leak
from former_nb.inspection.viewer import plot_heads, view
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model, save_model
from former_nb.training.losses import token_loss, total_loss


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "kind", [{}, {"norm": "rms", "n_kv_heads": 1, "norm_first": False}], ids=["plain", "mixed"]
)
def test_no_logit_looks_ahead(positions, kind):
    model = small(positions=positions, n_layers=1, **kind)
    tokens = torch.randint(10, (2, 6), generator=torch.Generator().manual_seed(0))
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    assert_no_leak(model, tokens, past, vocab_size=10, draws=2)
    whole = model(tokens)
    for i in range(6):
        assert_close(model(tokens[:, : i + 1])[:, i], whole[:, i])
    assert_close(model(tokens.int()), whole, rtol=0, atol=0)


def test_the_table_is_used_both_ways_and_stored_once():
    model = small()
    assert sum(p.numel() for p in model.parameters() if p.shape[0] == 10) == 10 * 16
    tokens = torch.tensor([[1, 2, 3]])
    model(tokens)[..., 7].sum().backward()  # token 7 is not read, only scored
    grads = model.embed.tokens.weight.grad.abs().sum(-1)
    assert grads[7] > 0 and (grads[1:4] > 0).all() and not grads[[0, 4, 5, 6, 8, 9]].any()
    start = token_loss(model(tokens), tokens + 4).item()
    assert start == pytest.approx(math.log(10), abs=0.1)  # knows nothing at the start


def test_noise_stays_noise():
    loss = lambda m, t: token_loss(m(t[:, :-1]), t[:, 1:])
    how = dict(length=9, first_id=4, steps=100)
    assert not noise_leak(small(14, 9, n_layers=1), loss, 10, **how).leaks


def test_a_batch_costs_what_its_rows_cost():
    model, rows = small(), [[BOS, 4, 5, 6, EOS], [BOS, 7, EOS], [BOS, 8, 9, 4, 5, 6, 7, EOS]]
    alone = [total_loss(model, make_batches([row], 1)).tolist() for row in rows]
    nats, count = total_loss(model, make_batches(rows, 3)).tolist()
    assert count == sum(n for _, n in alone) == sum(len(row) - 1 for row in rows)
    assert nats == pytest.approx(sum(nats for nats, _ in alone), rel=1e-5)


def test_vmap_over_the_weights_of_a_language_model_equals_a_loop():
    config = TransformerConfig(vocab_size=13, max_len=9, d_model=12, n_heads=3)
    torch.manual_seed(0)
    models = [LanguageModel.from_config(config).eval() for _ in range(3)]
    tokens = torch.randint(13, (2, 7), generator=torch.Generator().manual_seed(0))
    params, buffers = torch.func.stack_module_state(models)
    call = lambda p, b: torch.func.functional_call(models[0], (p, b), (tokens,))
    together = torch.func.vmap(call)(params, buffers)
    assert_close(together, torch.stack([model(tokens) for model in models]), **NEAR)
    each = torch.func.vmap(lambda row: models[0](row[None])[0])(tokens)
    assert_close(each, models[0](tokens), **NEAR)


def test_models_say_what_is_wrong(tmp_path):
    model, tokenizer = small(7), CharTokenizer("abc")
    for call, *refusal in [
        (lambda: LanguageModel.from_config({"vocab_size": 7}), TypeError, "config", "dict"),
        (lambda: model(torch.tensor([1, 2])), ValueError, "tokens", "(2,)"),
        (lambda: model(torch.tensor([[1, 7]])), ValueError, "tokens", "7"),
        (lambda: model(torch.zeros(1, 9, dtype=torch.long)), ValueError, "max_len"),
        (lambda: save_model(tmp_path, model, CharTokenizer("ab")), ValueError, "tokenizer"),
        (lambda: save_model(tmp_path, model, "abc"), TypeError, "tokenizer", "str"),
        (lambda: save_model(tmp_path, torch.nn.Linear(2, 2), tokenizer), ValueError, "model"),
        (lambda: load_model(tmp_path / "no"), ValueError, "model", "no"),
    ]:
        refuses(call, *refusal)
    assert not list(tmp_path.iterdir())  # nothing was written
    save_model(tmp_path, model, tokenizer)
    again, letters, _ = load_model(tmp_path)
    assert letters.to_dict() == tokenizer.to_dict()
    assert torch.equal(again(torch.tensor([[1, 4]])), model(torch.tensor([[1, 4]])))
    assert len(plot_heads(view(model, "cab", tokenizer)).axes) == 4
