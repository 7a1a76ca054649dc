"""The deep dive on masked language models: a question hides what it asks for, as much as was said
and nothing else; a batch is told what its rows are told; noise stays noise."""

import math
import random

import pytest
import torch
import torch.nn.functional as F
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.base.core import set_seed
from former_nb.data.batches import make_batches
from former_nb.data.text import BOS, EOS, IGNORE, PAD, UNK
from former_nb.inspection.leaks import edit_influence
from former_nb.models.bert import BertClassifier, BertMaskedLanguageModel
from former_nb.models.bigrams import BigramClassifier
from former_nb.models.config import TransformerConfig
from former_nb.models.masked_language import MaskedLanguageModel, mask_tokens
from former_nb.models.savable import Classifier
from former_nb.training.fitting import fit
from former_nb.training.training_config import TrainingConfig

V = 40
SIZES = dict(dropout=0.0, positions="rotary")
CONFIG = TransformerConfig(V, 16, d_model=12, n_heads=3, n_layers=2, d_ff=20, **SIZES)


def reader(seed=0, config=CONFIG, kind=Classifier, **kwargs):
    "Untrained, with weights large enough for its answers to differ, in eval mode."
    set_seed(seed)
    asked = BertMaskedLanguageModel if kind is BertClassifier else MaskedLanguageModel
    made = asked(kind.from_config(config, 3, **kwargs))
    for weight in made.parameters():
        nn.init.normal_(weight, std=0.5)
    return made.eval()


def texts(lengths, seed=0):
    "Rows from BOS to EOS with so many tokens between."
    g = torch.Generator().manual_seed(seed)
    return [[BOS, *torch.randint(4, V, (n,), generator=g).tolist(), EOS] for n in lengths]


def put_back(tokens, positions, answers):
    "The texts, from questions and answers."
    right = torch.where(answers == IGNORE, tokens.gather(1, positions), answers)
    return tokens.scatter(1, positions, right)


@pytest.mark.parametrize("seed", range(8))
def test_questions_and_answers_make_up_the_text(seed):
    draw = random.Random(seed)
    rows = texts([draw.randint(0, 30) for _ in range(draw.randint(1, 8))], seed)
    share = [0.07, 0.15, 0.5, 0.9][seed % 4]
    (tokens, positions), answers = mask_tokens(rows, 64, share)
    assert tokens.dtype == positions.dtype == answers.dtype == torch.int64
    whole = put_back(tokens, positions, answers)
    for row, own, asked, at in zip(rows, whole.tolist(), answers != IGNORE, positions):
        assert own == row + [PAD] * (len(own) - len(row))
        assert asked.sum() == math.ceil(share * (len(row) - 2) - 1e-9)
        assert len(set(at.tolist())) == len(at)  # no place twice
    assert ((tokens == UNK).sum(-1) == (answers != IGNORE).sum(-1)).all()


@pytest.mark.parametrize(
    "n, share, many",
    [(20, 0.15, 3), (100, 0.07, 7), (10, 0.7, 7), (7, 0.15, 2), (0, 0.5, 0), (9, 0.999, 9)],
)
def test_the_share_is_rounded_up_and_not_by_rounding_errors(n, share, many):
    _, answers = mask_tokens(texts([n]), 2000, share)
    assert (answers != IGNORE).sum() == answers.numel() == many


def test_each_token_is_hidden_equally_often():
    [row] = texts([12])
    set_seed(0)
    (tokens, _), _ = mask_tokens([row] * 4000, 14, 0.25)
    often = (tokens == UNK).double().mean(0)  # (T,)
    assert often[0] == often[-1] == 0
    assert (often[1:-1] - 0.25).abs().max() < 0.03  # four standard errors
    # positions are drawn without regard to each other but for their number
    together = (tokens == UNK)[:, 1:-1].double().T.cov()
    assert together.fill_diagonal_(together[0, 1]).std() < 0.01


def test_special_tokens_are_never_hidden():
    rows = [[BOS, 5, UNK, 6, EOS, PAD, 7]] * 200
    (tokens, _), answers = mask_tokens(rows, 7, 0.9)
    assert (tokens[:, [0, 4, 5]] == torch.tensor([BOS, EOS, PAD])).all()
    assert set(answers.flatten().tolist()) == {5, 6, 7}
    assert (tokens[:, 2] == UNK).all()  # an unknown character is no question


def test_rows_of_special_tokens_only_ask_nothing():
    for rows in ([[BOS, EOS]], [[BOS, EOS], []], [[]]):
        (tokens, positions), answers = mask_tokens(rows, 8)
        assert positions.shape == answers.shape == (len(rows), 0) and not (tokens == UNK).any()
        assert reader()(tokens, positions).shape == (len(rows), 0, V)
    (tokens, positions), answers = mask_tokens([[BOS, EOS], *texts([9])], 16)
    assert (answers[0] == IGNORE).all() and (answers[1] != IGNORE).all()
    assert reader()(tokens, positions).isfinite().all()


def test_of_a_long_row_every_stretch_is_read():
    row = [*range(4, 34)]
    set_seed(0)
    (tokens, positions), answers = mask_tokens([row] * 500, 10, 0.2)
    assert tokens.shape == (500, 10) and answers.shape == (500, 2)
    whole = put_back(tokens, positions, answers)
    assert (whole == whole[:, :1] + torch.arange(10)).all()  # neighbours stay neighbours
    assert set(whole[:, 0].tolist()) == {*range(4, 25)}
    assert {*answers.flatten().tolist()} == {*row}


def test_what_it_is_given_stays_as_it_was():
    rows = texts([5, 9])
    copies = [list(row) for row in rows]
    mask_tokens(rows, 6, 0.5)
    assert rows == copies
    tensors = [torch.tensor(row) for row in rows]
    mask_tokens(tensors, 20, 0.5)
    assert [t.tolist() for t in tensors] == copies


def test_a_seed_gives_the_same_questions_again_and_another_gives_others():
    def ask(seed, rows=texts([9, 30, 4])):
        set_seed(seed)
        (tokens, positions), answers = mask_tokens(rows, 20, 0.3)
        return torch.cat([tokens.flatten(), positions.flatten(), answers.flatten()])

    assert torch.equal(ask(1), ask(1)) and not torch.equal(ask(1), ask(2))
    set_seed(1)
    assert not torch.equal(*(mask_tokens(texts([30]), 40, 0.3)[0][0] for _ in range(2)))


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(Classifier, {}), (BigramClassifier, dict(n_bigrams=50)), (BertClassifier, {})],
)
def test_a_ragged_batch_is_told_what_its_rows_are_told(kind, sizes):
    model = reader(kind=kind, **sizes).double()
    (tokens, positions), answers = mask_tokens(texts([1, 5, 9, 11, 0]), 16, 0.4)
    logits = model(tokens, positions)
    for row, at, right, own in zip(tokens, positions, answers, logits):
        asked = right != IGNORE
        assert_close(model(row[row != PAD][None], at[asked][None])[0], own[asked])
    more = F.pad(tokens, (0, 3), value=PAD)
    assert_close(model(more, positions), logits)


def test_places_may_come_in_any_order_and_twice():
    model, (row,) = reader().double(), texts([8])
    tokens = torch.tensor([row])
    logits = model(tokens, torch.tensor([[3, 1, 3]]))
    assert_close(logits[0, [0, 2]], model(tokens, torch.tensor([[3, 3]]))[0])
    assert_close(logits[:, 1:2], model(tokens, torch.tensor([[1]], dtype=torch.int32)))


def test_logits_are_those_of_scores_everywhere():
    model = reader().double()
    (tokens, positions), answers = mask_tokens(texts([10, 4, 7]), 16, 0.3)
    everywhere = (
        model.encoder.encode(tokens) @ model.encoder.embed.tokens.weight.T + model.bias
    )  # (B,T,V)
    labels = torch.full_like(tokens, IGNORE).scatter(1, positions, answers)
    loss = lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=IGNORE)
    ours, theirs = loss(model(tokens, positions), answers), loss(everywhere, labels)
    assert_close(ours, theirs)
    weights = [weight for name, weight in model.named_parameters() if "head" not in name]
    assert_close(torch.autograd.grad(ours, weights), torch.autograd.grad(theirs, weights))


def test_the_answer_depends_on_all_tokens():
    model, (row,) = reader(), texts([5])
    tokens = torch.tensor([row])
    tokens[0, 4] = UNK
    places = torch.arange(len(row))[None]
    depends = edit_influence(lambda t: model(t, places), tokens, vocab_size=V)  # (b, i, c, j)
    assert (depends[0, :, 0, :] > 0).all()  # attention looks both ways


def test_noise_stays_noise():
    set_seed(0)
    config = TransformerConfig(30, 16, d_model=32, n_heads=2, n_layers=1, d_ff=64, **SIZES)
    model, losses = MaskedLanguageModel(BigramClassifier(config, 2, n_bigrams=997)), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        (tokens, positions), answers = mask_tokens(torch.randint(4, 30, (64, 16)).tolist(), 16, 0.3)
        loss = F.cross_entropy(model(tokens, positions).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # each on noise it has not seen: the mean of one batch may be below, that of 30 is not
    assert sum(losses[-30:]) / 30 > math.log(26) - 0.03


def test_another_vocabulary_has_its_own_mask_and_its_own_special_tokens():
    first, last, mask = 30, 31, 32
    rows = [[first, 4, 1, 3, 8, last], [first, 5, last]]
    special = {first: "[CLS]", last: "[SEP]", mask: "[MASK]"}  # as `names` of a tokenizer
    (tokens, positions), answers = mask_tokens(rows, 9, 0.9, mask, special)
    assert tokens.tolist() == [[first, *[mask] * 4, last], [first, mask, last, PAD, PAD, PAD]]
    whole = put_back(tokens, positions, answers)
    assert whole.tolist() == [rows[0], [*rows[1], PAD, PAD, PAD]]


def test_what_is_learned_stays_in_the_encoder_and_a_run_repeats_itself():
    rows = [[BOS, *range(start, start + 10), EOS] for start in range(4, 30)]
    hide = lambda some: mask_tokens(some, 12, 0.2)

    def run():
        set_seed(3)
        model = MaskedLanguageModel(Classifier.from_config(CONFIG, 2, embed_dropout=0.1))
        before = {name: t.clone() for name, t in model.encoder.state_dict().items()}
        learn, held = (
            make_batches(rows, 13, shuffle=mixed, collate=hide) for mixed in (True, False)
        )
        config = TrainingConfig(steps=12, eval_every=6, lr=1e-2)
        history = fit(model, learn, held, config, device="cpu", progress=False)
        return before, model.encoder.state_dict(), history["valid"].tolist()

    before, after, losses = run()
    assert losses[-1] < losses[0] and losses == run()[-1]
    assert all(torch.equal(before[name], after[name]) == name.startswith("head") for name in before)
    body = {name: t for name, t in after.items() if not name.startswith("head")}
    missing = Classifier.from_config(CONFIG, 2).load_state_dict(body, strict=False)
    assert sorted(missing.missing_keys) == ["head.bias", "head.weight"]
    assert not missing.unexpected_keys


def test_it_has_a_bias_for_each_token_beside_the_encoder_and_all_but_the_head_learns():
    model = reader(kind=BigramClassifier, n_bigrams=50)
    own, whole = (sum(p.numel() for p in thing.parameters()) for thing in (model, model.encoder))
    assert own == whole + V
    (tokens, positions), _ = mask_tokens(texts([9, 5]), 16, 0.3)
    model(tokens, positions).square().sum().backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert still == {"encoder.head.weight", "encoder.head.bias"}


def ask(tokens, positions):
    return reader()(torch.as_tensor(tokens), torch.as_tensor(positions))


nothing = torch.zeros(1, 0, dtype=torch.long)
share = lambda value: lambda: mask_tokens(texts([5]), 9, value)
shapes = lambda *wanted: lambda q: [tuple(t.shape) for t in (*q[0], q[1])] == list(wanted)
TABLE = {
    "mask_tokens": [
        ("a share of 0", share(0.0), ValueError, "share", "0.0"),
        ("a share of 1", share(1.0), ValueError, "share", "1.0"),
        ("no room", lambda: mask_tokens(texts([5]), 0), ValueError, "max_len", "0"),
        ("words", lambda: mask_tokens(["a film"], 9), TypeError, ""),
        ("no rows", lambda: mask_tokens([], 9), shapes((0, 0), (0, 0), (0, 0))),
        ("one token", lambda: mask_tokens([[5, 6, 7]], 1), shapes((1, 1), (1, 1), (1, 1))),
    ],
    "MaskedLanguageModel": [
        ("no encoder", lambda: MaskedLanguageModel(nn.Linear(2, 2)), TypeError, "encoder"),
        (
            "no BERT",
            lambda: BertMaskedLanguageModel(Classifier.from_config(CONFIG, 2)),
            TypeError,
            "encoder",
            "Classifier",
        ),
        ("one text", lambda: ask([5, 6], [[0]]), ValueError, "tokens", "(2,)"),
        ("one axis", lambda: ask([[5, 6]], [0]), ValueError, "positions", "(1,)"),
        ("few rows", lambda: ask([[5, 6], [7, 8]], [[0]]), ValueError, "positions", "(1, 1)"),
        ("behind the end", lambda: ask([[5, 6]], [[0, 2]]), ValueError, "positions", "2"),
        ("before the start", lambda: ask([[5, 6]], [[-1]]), ValueError, "positions", "-1"),
        ("no text", lambda: ask(nothing, nothing), lambda y: y.shape == (1, 0, V)),
        ("an empty batch", lambda: ask(nothing[:0], nothing[:0]), lambda y: y.shape == (0, 0, V)),
        ("pads only", lambda: ask([[PAD, PAD]], [[0, 1]]), lambda y: y.isfinite().all()),
    ],
}


test_bad_input = every_row(TABLE)
