"""`classifier` keeps its word: padding changes nothing, and the model is PyTorch's with our
pool."""

import math
import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.attention.torch_layers import mha_to_torch
from former_nb.base.core import set_seed
from former_nb.data.batches import make_batches
from former_nb.data.text import pad_rows
from former_nb.data.tokenization import CharTokenizer
from former_nb.data.tokens import PAD
from former_nb.decoding.classification import collate_labels, label_batches, label_rows
from former_nb.models.bigrams import BigramClassifier, WideClassifier
from former_nb.models.choices import POSITIONS
from former_nb.models.classifier import pool_tokens
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier
from former_nb.saving.saving import load_model, save_model
from former_nb.training.fitting import fit
from former_nb.training.losses import token_loss
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig

CONFIG = TransformerConfig(vocab_size=40, max_len=16, d_model=12, n_heads=3, n_layers=2, d_ff=20)
LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz .,!")  # 34 tokens
QUIET = dict(device="cpu", progress=False)


def model(n_classes=3, seed=0, config=CONFIG, **kwargs):
    "Untrained, with a head that is not zero, in eval mode."
    set_seed(seed)
    kind = BigramClassifier if "n_bigrams" in kwargs else Classifier
    kind = WideClassifier if "n_features" in kwargs else kind
    made = kind.from_config(config, n_classes, **kwargs)
    nn.init.normal_(made.head.weight)
    if getattr(made.embed, "bigrams", None) is not None:
        nn.init.normal_(made.embed.bigrams.weight)
    if "n_features" in kwargs:
        nn.init.normal_(made.ratio)
    return made.eval()


def tokens(lengths, T=0):
    g = torch.Generator().manual_seed(0)
    padded = pad_rows([torch.randint(4, 40, (n,), generator=g) for n in lengths])
    return nn.functional.pad(padded, (0, max(0, T - padded.shape[1])))


@pytest.mark.parametrize(
    "more", [{}, dict(n_bigrams=50), dict(n_features=70)], ids=["plain", "pairs", "wide"]
)
@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_changes_nothing(positions, more):
    "Alone or padded to any length: the same logits, and no gradient for the pad's vector."
    m = model(config=replace(CONFIG, positions=positions), **more)
    batch = tokens([3, 9, 1, 16])
    for row, n, logits in zip(batch, (3, 9, 1, 16), m(batch)):
        assert_close(m(row[None, :n])[0], logits, rtol=1e-4, atol=1e-5)
    assert_close(m(tokens([3, 9, 1], T=16)), m(tokens([3, 9, 1])), rtol=1e-4, atol=1e-5)
    m(tokens([3, 9])).square().sum().backward()
    gradient = m.embed.tokens.weight.grad
    assert not gradient[PAD].any() and gradient.any()


def test_rows_without_tokens_and_batches_without_rows():
    m = model()
    mixed = torch.cat([tokens([5]), torch.zeros(1, 5, dtype=torch.int64)])
    logits = m(mixed)
    assert_close(logits[1], m.head.bias)
    assert_close(logits[:1], m(mixed[:1]))
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in m.parameters() if p.grad is not None)
    assert_close(m(torch.zeros(2, 0, dtype=torch.int64)), m.head.bias.expand(2, 3))
    for T in (0, 4):
        assert m(torch.zeros(0, T, dtype=torch.int64)).shape == (0, 3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 5))
def test_the_pool_against_a_loop(lengths, more):
    T = max(lengths) + more
    x = torch.randn(len(lengths), T, 3, generator=torch.Generator().manual_seed(sum(lengths)))
    real = torch.arange(T) < torch.tensor(lengths)[:, None]
    x[~real] = math.nan  # what stands at a pad must not matter
    wanted = [row[:n].mean(0) if n else torch.zeros(3) for row, n in zip(x, lengths)]
    assert_close(pool_tokens(x, real), torch.stack(wanted))


def test_it_is_a_transformer_encoder_and_our_mean():
    "PyTorch's mask is the other way round, and its fast path writes zeros at the pads."
    ours = model(config=replace(CONFIG, dropout=0.0))
    layer = nn.TransformerEncoderLayer(12, 3, 20, 0.0, "gelu", batch_first=True, norm_first=True)
    theirs = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(12), enable_nested_tensor=False)
    theirs.norm.load_state_dict(ours.stack.norm.state_dict())
    for block, copy in zip(ours.stack.blocks, theirs.layers):
        copy.self_attn = mha_to_torch(block.attention)
        for mine, other in (
            (block.norm_attention, copy.norm1),
            (block.norm_ff, copy.norm2),
            (block.ff.w_in, copy.linear1),
            (block.ff.w_out, copy.linear2),
        ):
            other.load_state_dict(mine.state_dict())
    batch = tokens([5, 2])
    x = ours.embed(batch, torch.arange(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fast path is a prototype, it says
        for mode in (theirs.train(), theirs.eval()):
            hidden = mode(x, src_key_padding_mask=batch == PAD)  # (B, T, d_model)
            logits = ours.head(pool_tokens(hidden, batch != PAD))
            assert_close(logits, ours(batch), rtol=1e-4, atol=1e-5)


def test_a_new_model_finds_all_classes_equally_likely():
    set_seed(0)
    loss = token_loss(Classifier.from_config(CONFIG, 5)(tokens([4, 7])), torch.tensor([0, 3]))
    assert_close(loss, torch.tensor(math.log(5)))


def test_dropout_only_in_training():
    m, batch = model(config=replace(CONFIG, dropout=0.0), embed_dropout=0.5), tokens([5, 8])
    assert torch.equal(m(batch), m(batch))
    m.train()
    assert not torch.equal(m(batch), m(batch))


def test_a_resumed_run_ends_alike(tmp_path):
    "`fit` seeds what leaves tokens out: a run that was cut goes on byte for byte."
    texts = [f"{word} film " * (i % 3 + 1) for word in ("good", "bad") for i in range(30)]
    rows = label_rows(texts, ["yes"] * 30 + ["no"] * 30, LETTERS, ["no", "yes"])
    config = replace(CONFIG, vocab_size=LETTERS.vocab_size)
    valid, plan = label_batches(rows, 30, 16), TrainingConfig(epochs=3, lr=1e-2)
    runs, read = [], []

    def broken(some):
        read.append(len(some))
        if len(read) == 16:  # two epochs, of which the first is read for the checkpoint
            raise KeyboardInterrupt
        return collate_labels(some, 16, word_dropout=0.1)

    for name in ("whole", "cut"):
        keep = dict(callbacks=[Checkpoint(tmp_path / name, resume=True)], **QUIET)
        train = label_batches(rows, 10, 16, shuffle=True, word_dropout=0.1)
        if name == "cut":
            how = dict(shuffle=True, by_length=True, length=lambda row: min(16, len(row[0])))
            cut = make_batches(rows, 10, collate=broken, **how)
            with pytest.raises(KeyboardInterrupt):
                fit(model(2, config=config, embed_dropout=0.1), cut, valid, plan, **keep)
        runs.append(model(2, config=config, embed_dropout=0.1))
        fit(runs[-1], train, valid, plan, **keep)
    pairs = zip(runs[0].state_dict().values(), runs[1].state_dict().values())
    assert all(torch.equal(a, b) for a, b in pairs)


def test_saved_and_loaded_whole(tmp_path):
    m = model(2, config=replace(CONFIG, vocab_size=34), embed_dropout=0.25, n_bigrams=20)
    save_model(tmp_path / "mine", m, LETTERS, ["bad", "gut ü"])
    loaded, tokenizer, labels = load_model(tmp_path / "mine")
    assert labels == ["bad", "gut ü"] and tokenizer.to_dict() == LETTERS.to_dict()
    assert (loaded.config, loaded.init_args) == (m.config, m.init_args) and not loaded.training
    assert type(loaded) is BigramClassifier and loaded.embed.dropout.p == 0.25
    batch = tokens([4, 9]) % LETTERS.vocab_size
    assert torch.equal(loaded(batch), m(batch))
    Classifier.from_config(CONFIG, 4).save_pretrained(
        tmp_path / "bare"
    )  # a model without a tokenizer
    assert Classifier.from_pretrained(tmp_path / "bare").n_classes == 4


BAD = [
    ("one class", lambda: Classifier.from_config(CONFIG, 1), ValueError, "n_classes"),
    ("one row", lambda: model()(torch.tensor([5, 6])), ValueError, "tokens"),
    ("fractions", lambda: model()(torch.zeros(1, 2)), TypeError, "tokens"),
    ("a token", lambda: model()(torch.tensor([[40]])), ValueError, "tokens"),
]
test_bad_input_is_named = every_row(BAD)
