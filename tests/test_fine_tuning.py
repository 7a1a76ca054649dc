"""A difference of low rank: what stays as it was, and what is merged."""

import pytest
import torch
from torch.testing import assert_close

from former_nb.classifier import Classifier
from former_nb.config import TransformerConfig
from former_nb.fine_tuning import add_low_rank, merge_low_rank
from former_nb.generator import LanguageModel
from former_nb.training import fit
from former_nb.training_config import TrainingConfig

SIZES = dict(vocab_size=37, max_len=20, d_model=24, n_heads=3, n_layers=2, d_ff=40)
TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5, 11], [6, 2, 7, 1, 0, 0, 0], [5, 8, 30, 36, 12, 0, 0]])


def small_model(kind="generator"):
    torch.manual_seed(0)
    c = TransformerConfig(**SIZES, dropout=0.1, positions="rotary", n_kv_heads=1)
    return LanguageModel(c) if kind == "generator" else Classifier(c, 2, n_segments=2)


@pytest.mark.parametrize("kind", ["generator", "classifier"])
def test_low_rank_training_leaves_the_rest_as_it_was_and_merges_exactly(kind, tmp_path):
    model = small_model(kind)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    first = model.eval()(TOKENS)
    add_low_rank(model, 3)
    assert_close(model(TOKENS), first, rtol=0, atol=0)  # B starts at 0
    small = {n for n, p in model.named_parameters() if p.requires_grad}
    assert len(small) == 2 * 4 * 2 and all(n.endswith((".0.a", ".0.b")) for n in small)
    if kind == "classifier":
        model.head.requires_grad_(True)
    targets = TOKENS.masked_fill(TOKENS == 0, -100) if kind == "generator" else TOKENS[:, 0] % 2
    batches, plan = [(TOKENS, targets)] * 5, TrainingConfig(epochs=2, lr=1e-2, pad=None)
    fit(model, batches, batches[:1], plan, progress=False, device="cpu")
    names = {n: n.replace("parametrizations.weight.original", "weight") for n in model.state_dict()}
    frozen = {names[n]: t for n, t in model.state_dict().items() if n not in small}
    changed = {n for n, t in frozen.items() if not torch.equal(t, before[n])}
    assert changed == ({"head.weight", "head.bias"} if kind == "classifier" else set())
    trained = model.eval()(TOKENS)
    assert not torch.equal(trained, first)
    merge_low_rank(model)
    assert_close(model(TOKENS), trained, rtol=0, atol=0)
    assert model.state_dict().keys() == before.keys()
    assert all(p.requires_grad for p in model.parameters())
    model.save_pretrained(tmp_path / "merged")
    assert_close(type(model).from_pretrained(tmp_path / "merged")(TOKENS), trained)


@pytest.mark.parametrize("rank", [0, 25, 1.5])
def test_a_rank_fits_the_narrowest_layer(rank):
    model = small_model()
    with pytest.raises((TypeError, ValueError), match="^rank: expected"):
        add_low_rank(model, rank)
    assert all(p.requires_grad for p in model.parameters())


def test_layers_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="^layers: expected.*attention.qkv"):
        add_low_rank(small_model(), 2, ("q_proj", "v_proj"))
