"""The encoder–decoder: the model is the paper's, a batch equals its rows, what is kept equals what
is computed again, and bad input costs one sentence.

150 random configurations, always the same ones, run with the other tests. More of them, new ones
each time:

  FORMER_NB_CASES=1000 OMP_NUM_THREADS=1 pytest tests/test_encoder_decoder.py
"""

import itertools
import json
import math
import os
import random
import time

import pytest
import torch
import torch.nn.functional as F
from bad_input_table import cases, judge, public_names
from fit_tools import fit
from torch import nn
from torch.testing import assert_close

from former_nb import encoder_decoder as module
from former_nb import number_words, two_stacks
from former_nb.batches import make_batches
from former_nb.beam_search import beam_search, length_score
from former_nb.config import ACTIVATIONS, TransformerConfig
from former_nb.encoder_decoder import EncoderDecoder, collate_pairs, make_model
from former_nb.leaks import LeakError, assert_no_leak
from former_nb.losses import exact_match, token_loss
from former_nb.masks import causal_mask, padding_mask
from former_nb.multi_head import MultiHeadAttention
from former_nb.number_words import greedy_decode
from former_nb.optimization import make_optimizers
from former_nb.text import BOS, EOS, IGNORE, PAD, UNK, pad_rows
from former_nb.training import TrainingConfig
from former_nb.two_stacks import CrossAttentionCache, transformer_from_torch

CASES = int(os.environ.get("FORMER_NB_CASES", 150))
FIRST = int(time.time()) if "FORMER_NB_CASES" in os.environ else 0  # of the seeds
SCHEMES = ["learned", "sinusoidal", "rotary", "alibi", "relative"]
NEAR = dict(rtol=1e-5, atol=1e-5)


def new_model(seed=0, V=19, max_len=16, tied=True, loud=0.3, dtype=torch.float64, **kwargs):
    "A model whose weights are large enough for its answers to differ from place to place."
    kwargs = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24, dropout=0.3) | kwargs
    torch.manual_seed(seed)
    model = EncoderDecoder(TransformerConfig(V, max_len, **kwargs), tied)
    for weight in model.parameters():
        nn.init.normal_(weight, std=loud)
    return model.to(dtype).eval()


def random_case(seed):
    "A model and ragged sources, all from one number."
    draw = random.Random(seed)
    how = dict(
        positions=draw.choice(SCHEMES),
        n_kv_heads=draw.choice([None, 2, 1]),
        n_layers=draw.choice([1, 2]),
        norm=draw.choice(["layer", "rms"]),
        activation=draw.choice(list(ACTIVATIONS)),
        norm_first=draw.random() < 0.6,
        tied=draw.random() < 0.7,
    )
    sources = [
        [draw.randint(4, 18) for _ in range(draw.randint(1, 9))] for _ in range(draw.randint(1, 4))
    ]
    return new_model(seed % 2**31, **how), pad_rows(sources), sources, draw


SEEDS = range(FIRST, FIRST + CASES)


# ---- the model is the paper's


def spelt_out(model, src, tgt):
    """The logits of one pair without padding, by formulas: no fused kernel, no masks of the
    library, no cache."""
    c, w = model.config, dict(model.named_parameters()) | dict(model.named_buffers())

    def norm(x, name):
        if c.norm == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"]
        return x + w[f"{name}.bias"] if c.norm == "layer" else x

    def heads(layer, name, x, m, causal):
        d, h = c.d_model, c.n_heads
        g, k = layer.n_kv_heads, c.d_model // h
        W, b = w[f"{name}.qkv.weight"], w[f"{name}.qkv.bias"]
        q = (x @ W[:d].T + b[:d]).view(1, -1, h, k).transpose(1, 2)
        keys, values = (
            (m @ W[i : i + g * k].T + b[i : i + g * k]).view(1, -1, g, k).transpose(1, 2)
            for i in (d, d + g * k)
        )
        bias = 0.0
        if layer.positions is not None:
            q, keys, bias = layer.positions(q, keys, 0)
            bias = 0.0 if bias is None else bias
        keys, values = (t.repeat_interleave(h // g, 1) for t in (keys, values))
        scores = q @ keys.mT / k**0.5 + bias
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        return (scores.softmax(-1) @ values).transpose(1, 2).flatten(2) @ w[
            f"{name}.out.weight"
        ].T + w[f"{name}.out.bias"]

    def feed(name, x):
        x = x @ w[f"{name}.w_in.weight"].T + w[f"{name}.w_in.bias"]
        x = {
            "relu": F.relu,
            "gelu": F.gelu,
            "swiglu": lambda t: F.silu(t[..., : c.d_ff]) * t[..., c.d_ff :],
        }[c.activation](x)
        return x @ w[f"{name}.w_out.weight"].T + w[f"{name}.w_out.bias"]

    def run(stack, name, x, memory=None):
        for i, block in enumerate(stack.blocks):
            here = f"{name}.blocks.{i}."
            parts = [
                (
                    "norm_attention",
                    lambda t: heads(block.attention, here + "attention", t, t, memory is not None),
                )
            ]
            if memory is not None:
                parts.append(
                    ("norm_cross", lambda t: heads(block.cross, here + "cross", t, memory, False))
                )
            parts.append(("norm_ff", lambda t: feed(here + "ff", t)))
            for n, part in parts:
                x = x + part(norm(x, here + n)) if c.norm_first else norm(x + part(x), here + n)
        return norm(x, f"{name}.norm") if c.norm_first else x

    def embed_tokens(table, side, tokens):
        x = w[table][tokens] * c.d_model**0.5
        return (
            x + w[f"{side}_positions.table"][: tokens.shape[1]]
            if c.positions in ("learned", "sinusoidal")
            else x
        )

    memory = run(
        model.encoder,
        "encoder",
        embed_tokens("embed.weight" if model.tied else "src_embed.weight", "src", src),
    )
    y = run(model.decoder, "decoder", embed_tokens("embed.weight", "tgt", tgt), memory)
    return y @ w["embed.weight" if model.tied else "out.weight"].T


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_what_the_formulas_say(seed):
    model, src, sources, draw = random_case(seed)
    T = draw.randint(0, 8)
    tgt = torch.tensor([[BOS, *draw.choices(range(4, 19), k=T)] for _ in sources])
    logits = model(src, tgt)
    for i, source in enumerate(sources):  # padding of the batch changes nothing for its rows
        assert_close(
            logits[i : i + 1], spelt_out(model, torch.tensor([source]), tgt[i : i + 1]), **NEAR
        )


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_parity_with_torchs_transformer(norm_first, activation, padded):
    torch.manual_seed(0)
    theirs = nn.Transformer(
        12, 3, 2, 3, 20, 0.0, activation, batch_first=True, norm_first=norm_first
    )
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.3)
    encoder, decoder = transformer_from_torch(theirs)
    assert len(encoder.blocks) == 2 and len(decoder.blocks) == 3 and encoder.training
    src, tgt = torch.randn(3, 7, 12), torch.randn(3, 5, 12)
    real = torch.ones(3, 7, dtype=torch.bool)
    real[1, 4:], real[2, 1:] = not padded, not padded
    for train in (True, False):
        theirs.train(train)
        past = theirs.generate_square_subsequent_mask(5)
        wanted = theirs(
            src, tgt, tgt_mask=past, src_key_padding_mask=~real, memory_key_padding_mask=~real
        )
        mask = real[:, None, None]
        got = decoder(tgt, is_causal=True, memory=encoder(src, mask), memory_mask=mask)
        assert_close(got, wanted, **NEAR)
    theirs.train()
    pairs = [
        (got, [*encoder.parameters(), *decoder.parameters()]),
        (
            theirs(
                src, tgt, tgt_mask=past, src_key_padding_mask=~real, memory_key_padding_mask=~real
            ),
            list(theirs.parameters()),
        ),
    ]
    norms = [
        sum(g.square().sum() for g in torch.autograd.grad(out.square().sum(), weights))
        for out, weights in pairs
    ]
    assert_close(*norms, rtol=1e-4, atol=1e-4)


def test_the_start_is_what_a_unit_stream_says():
    """Logits of variance one cost half a nat more than ln V; with one matrix the token just read,
    still in the stream, gets the logit √d besides."""
    for tied, wanted in (
        (False, math.log(1000) + 0.5),
        (True, math.log(math.exp(16) + 1000 * math.exp(0.5))),
    ):
        torch.manual_seed(0)
        model = EncoderDecoder(
            TransformerConfig(1000, 12, d_model=256, n_heads=4, n_layers=2, d_ff=64), tied
        ).eval()
        src, tgt = torch.randint(4, 1000, (16, 9)), torch.randint(4, 1000, (16, 12))
        assert abs(token_loss(model(src, tgt), torch.randint(4, 1000, (16, 12))) - wanted) < 0.15
        assert abs(model.embed_tokens(model.embed, None, tgt).var() - 1) < 0.05


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_it_can_be_exported_with_open_sizes(positions):
    model, (B, S, T) = (
        new_model(positions=positions, dtype=torch.float32),
        (torch.export.Dim(name, min=2, max=15) for name in "BST"),
    )
    src, tgt = torch.randint(4, 19, (3, 7)), torch.randint(4, 19, (3, 5))
    program = torch.export.export(
        model, (src, tgt), dynamic_shapes=({0: B, 1: S}, {0: B, 1: T})
    ).module()
    for b, s, t in ((2, 9, 4), (5, 3, 8)):
        src, tgt = torch.randint(4, 19, (b, s)), torch.randint(4, 19, (b, t))
        src[-1, 2:] = PAD
        assert_close(program(src, tgt), model(src, tgt))


# ---- one matrix, or three


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("tied", [True, False])
def test_saved_and_loaded_it_says_the_same(tmp_path, tied, positions):
    model = new_model(tied=tied, positions=positions, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    again, src = EncoderDecoder.from_pretrained(tmp_path), torch.randint(4, 19, (2, 7))
    assert torch.equal(again(src, src[:, :5]), model(src, src[:, :5])) and not again.training
    assert (
        again.config == model.config
        and again.tied is tied
        and json.loads((tmp_path / "config.json").read_text())["tied"] is tied
    )
    assert again.state_dict().keys() == model.state_dict().keys()
    names = {
        name
        for name in model.state_dict()
        if name.endswith(("embed.weight", "out.weight")) and "blocks" not in name
    }
    assert names == (
        {"embed.weight"} if tied else {"embed.weight", "src_embed.weight", "out.weight"}
    )


def test_a_shared_matrix_is_one_parameter_and_learns_from_three_sides():
    model, other = new_model(), new_model(tied=False)
    size = 19 * 16
    count = lambda m: sum(p.numel() for p in m.parameters())
    assert count(other) - count(model) == 2 * size
    held = [
        p
        for optimizer in make_optimizers(model, 1e-3, 0.02, 0.1)
        for group in optimizer.param_groups
        for p in group["params"]
    ]
    assert len(held) == len({id(p) for p in held}) == len(list(model.parameters()))
    with torch.no_grad():
        state = {name: t for name, t in model.state_dict().items()}
        other.load_state_dict(
            state | {"src_embed.weight": state["embed.weight"], "out.weight": state["embed.weight"]}
        )
    src, tgt, targets = (
        torch.randint(4, 19, (2, 7)),
        torch.randint(4, 19, (2, 5)),
        torch.randint(4, 19, (2, 5)),
    )
    [whole] = torch.autograd.grad(token_loss(model(src, tgt), targets), [model.embed.weight])
    parts = torch.autograd.grad(
        token_loss(other(src, tgt), targets),
        [other.embed.weight, other.src_embed.weight, other.out.weight],
    )
    assert_close(whole, sum(parts)) and all(part.any() for part in parts)


def test_every_weight_learns():
    for how in (
        dict(positions="learned"),
        dict(positions="relative", n_kv_heads=2, norm="rms", activation="swiglu", tied=False),
        dict(norm_first=False),
    ):
        model = new_model(**how).train()
        src = pad_rows([[5, 6, 7, 8, 9, 4, 8, 11, 12, 13, 14, 15, 3, 17, 18, 10], [4]])
        tgt = torch.cat([src[:1], src[:1].flip(1)])
        token_loss(model(src, tgt), tgt).backward()
        for name, p in model.named_parameters():
            assert p.grad is not None and p.grad.isfinite().all() and p.grad.any(), name


# ---- masks

SRC = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, PAD, PAD]])
TGT = torch.tensor([[BOS, 5, 6, 7], [BOS, 8, 9, PAD]])


@pytest.mark.parametrize(
    "how",
    [
        {},
        dict(positions="rotary"),
        dict(positions="alibi", norm_first=False),
        dict(positions="relative", n_kv_heads=1, norm="rms"),
    ],
)
def test_no_mask_leaks(how):
    model, real = new_model(**how), padding_mask(SRC)
    assert_no_leak(read(model), SRC, real | torch.eye(5, dtype=torch.bool), vocab_size=19)
    assert_no_leak(lambda tgt: model(SRC, tgt), TGT, causal_mask(4), vocab_size=19)
    both = lambda src: model.decode(TGT, read(model)(src), real)
    assert_no_leak(both, SRC, real.expand(2, 1, 4, 5), vocab_size=19)
    memory = model.encode(SRC)
    assert_no_leak(lambda m: model.decode(TGT, m, real), memory, real.expand(2, 1, 4, 5))


def read(model):
    "The encoder, with the pads of `SRC` hidden whatever stands there."
    embed = lambda src: model.embed_tokens(model.embed, model.src_positions, src)
    return lambda src: model.encoder(embed(src), padding_mask(SRC))


class NoMask(EncoderDecoder):  # cross-attention without the mask
    def decode(self, tgt, memory, src_mask=None, cache=None):
        return super().decode(tgt, memory, None, cache)


class WrongSide(EncoderDecoder):  # the pads of the target where those of the source belong
    def decode(self, tgt, memory, src_mask=None, cache=None):
        return super().decode(tgt, memory, padding_mask(tgt), cache)


class ReadsAhead(EncoderDecoder):  # a decoder that is not causal
    def decode(self, tgt, memory, src_mask=None, cache=None):
        x = self.embed_tokens(self.embed, self.tgt_positions, tgt)
        return self.decoder(x, memory=memory, memory_mask=src_mask) @ self.embed.weight.T


@pytest.mark.parametrize("mutant", [NoMask, WrongSide, ReadsAhead])
def test_the_meter_is_red_on_mutants(mutant):
    model = mutant(TransformerConfig(19, 16, d_model=16, n_layers=2, d_ff=24)).eval()
    tgt = torch.cat([TGT, torch.full((2, 1), 9)], 1)  # S = T, or one would be an error
    real = padding_mask(SRC)
    with pytest.raises(LeakError):
        if mutant is ReadsAhead:
            assert_no_leak(lambda t: model(SRC, t), tgt, causal_mask(5), vocab_size=19)
        else:
            both = lambda src: model.decode(tgt, read(model)(src), real)
            assert_no_leak(both, SRC, real.expand(2, 1, 5, 5), vocab_size=19)


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_pads_on_the_right_of_the_target_need_no_mask(seed):
    "Causality hides them from every token that a loss counts."
    model, src, sources, draw = random_case(seed)
    rows = [[BOS, *draw.choices(range(4, 19), k=draw.randint(0, 8))] for _ in sources]
    for row, own, source in zip(rows, model(src, pad_rows(rows)), sources):
        assert_close(own[: len(row)], model(torch.tensor([source]), torch.tensor([row]))[0], **NEAR)


# ---- two vocabularies, two depths


@pytest.mark.parametrize("tied", [True, False])
def test_source_and_target_may_differ(tmp_path, tied):
    torch.manual_seed(0)
    sizes = dict(d_model=16, n_heads=4, d_ff=24, dropout=0.0)
    src_config = TransformerConfig(23, 12, n_layers=3, positions="sinusoidal", **sizes)
    tgt_config = TransformerConfig(11, 7, n_layers=1, positions="rotary", **sizes)
    model = EncoderDecoder(src_config, tied, tgt_config).double().eval()
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (3, 1)
    src = torch.tensor([[22, 20, 21, 5, 4, 9, 8, 7, 6], [22, 6, 5, PAD, PAD, PAD, PAD, PAD, PAD]])
    tgt = torch.tensor([[BOS, 5, 6, 7], [BOS, 10, 9, PAD]])
    assert model(src, tgt).shape == (2, 4, 11)
    said = greedy_decode(model, src, 99)
    assert said == greedy_decode(model, src, 99, use_cache=False)
    assert max(map(len, said)) <= 1 + 7
    model.save_pretrained(tmp_path)
    again = EncoderDecoder.from_pretrained(tmp_path).double()
    assert (again.config, again.tgt_config, again.tied) == (src_config, tgt_config, tied)
    assert torch.equal(again(src, tgt), model(src, tgt))
    with pytest.raises(ValueError, match="tgt: expected numbers from 0 to 10, got 22"):
        model(src, src)


def test_the_model_of_the_paper():
    with torch.device("meta"):
        model = make_model(8000, 6000)
        small = make_model(8, 9, d_model=16, n_heads=2, n_layers=1, positions="rotary")
    c = model.tgt_config
    assert (c.d_model, c.n_heads, c.n_layers, c.d_ff, c.norm_first) == (512, 8, 6, 2048, False)
    assert (model.config.vocab_size, c.vocab_size, c.activation) == (8000, 6000, "relu")
    assert (small.config.vocab_size, small.tgt_config.n_layers) == (8, 1)


# ---- decoding


def decoder_of(model, src):
    "The decoder with its memory bound, as `beam_search` wants it, whatever the number of rows."
    memory, mask = model.encode(src), padding_mask(src)

    def decode(tokens, cache):
        if cache is not None:
            return model.decode(tokens, memory, mask, cache=cache)
        times = len(tokens) // len(src)
        return model.decode(tokens, *(t.repeat_interleave(times, 0) for t in (memory, mask)))

    return decode


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_is_computed_again_and_a_batch_is_its_rows(seed):
    model, src, sources, draw = random_case(seed)
    n = draw.choice([1, 5, 16, 99])
    kept = greedy_decode(model, src, n)
    assert kept == greedy_decode(model, src, n, use_cache=False)
    assert kept == [greedy_decode(model, torch.tensor([source]), n)[0] for source in sources]
    assert all(
        row[0] == BOS and not set(row[1:]) & {PAD, BOS, UNK} and EOS not in row[1:-1]
        for row in kept
    )
    assert all(len(row) == 1 + min(n, 16) or row[-1] == EOS for row in kept)


@pytest.mark.parametrize("seed", SEEDS[:50])
def test_beam_search_works_on_it(seed):
    model, src, sources, draw = random_case(seed)
    start, n = torch.full((len(sources), 1), BOS), draw.randint(1, 9)
    with torch.no_grad():
        decode, fresh = decoder_of(model, src), lambda: CrossAttentionCache(model.config.n_layers)
        assert [
            best[0][0] for best in beam_search(decode, start, 1, n, cache=fresh())
        ] == greedy_decode(model, src, n)
        how = dict(
            num_beams=draw.randint(2, 6),
            max_new_tokens=n,
            length_penalty=draw.choice([0, 0.6, 1.0]),
            convention=draw.choice(["mean", "gnmt"]),
        )
        kept = beam_search(decode, start, **how, num_return_sequences=2, cache=fresh())
        again = beam_search(decode, start, **how, num_return_sequences=2, use_cache=False)
        alone = [
            beam_search(
                decoder_of(model, torch.tensor([s])),
                start[:1],
                **how,
                num_return_sequences=2,
                cache=fresh(),
            )[0]
            for s in sources
        ]
    for ours in (again, alone):
        assert [[text for text, _ in best] for best in kept] == [
            [text for text, _ in best] for best in ours
        ]
        assert_close(
            [[s for _, s in best] for best in kept], [[s for _, s in best] for best in ours], **NEAR
        )


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
@pytest.mark.parametrize("seed", range(3))
def test_beams_enough_find_what_trying_everything_finds(convention, seed):
    model = new_model(seed, V=7, loud=0.5)
    src = pad_rows([[4, 6, 5, 4], [5, 5]])
    n, penalty, own = 4, 0.7, [EOS, 4, 5, 6]
    with torch.no_grad():
        found = beam_search(
            decoder_of(model, src),
            torch.full((2, 1), BOS),
            64,
            n,
            length_penalty=penalty,
            convention=convention,
            num_return_sequences=3,
            cache=CrossAttentionCache(2),
        )
        for source, best in zip(([4, 6, 5, 4], [5, 5]), found):
            everything = []
            texts = [
                t
                for k in range(1, n + 1)
                for t in itertools.product(own, repeat=k)
                if EOS not in t[:-1] and (t[-1] == EOS or k == n)
            ]
            for text in texts:
                logits = model(torch.tensor([source]), torch.tensor([[BOS, *text[:-1]]]))[0]
                logits[:, [PAD, BOS, UNK]] = -math.inf
                total = logits.log_softmax(-1)[range(len(text)), list(text)].sum().item()
                everything.append(
                    ([BOS, *text], length_score(total, len(text), penalty, convention))
                )
            everything.sort(key=lambda text: -text[1])
            assert [t for t, _ in best] == [t for t, _ in everything[:3]]
            assert_close([s for _, s in best], [s for _, s in everything[:3]], **NEAR)


def test_the_memory_is_projected_once_and_moved_only_when_rows_change_source(monkeypatch):
    model, calls = new_model(), []
    plain = MultiHeadAttention.project_kv
    monkeypatch.setattr(
        MultiHeadAttention,
        "project_kv",
        lambda self, memory, **known: calls.append(len(memory)) or plain(self, memory, **known),
    )
    greedy_decode(model, SRC, 9)
    assert calls == [2, 2]  # once in each of two layers
    cache, memory = CrossAttentionCache(2), model.encode(SRC)
    with torch.no_grad():
        model.decode(TGT[:, :1], memory, padding_mask(SRC), cache=cache)
        kept = cache[0].memory_kv[0]
        cache.reorder(torch.tensor([0, 1]))
        assert cache[0].memory_kv[0] is kept
        cache.reorder([0, 0, 0, 1, 1, 1])  # further queries of the same two memories
        cache.reorder(torch.tensor([2, 0, 0, 5, 5, 3]))  # beams trade places within a source
        assert cache[0].memory_kv[0] is kept and len(cache.src_mask) == 2
        six = torch.tensor([[8], [5], [6], [8], [5], [6]])
        step = model.decode(six, memory, cache=cache)
        texts = torch.cat([TGT[[0, 0, 0, 1, 1, 1], :1], six], dim=1)
        assert_close(step, model(SRC[[0, 0, 0, 1, 1, 1]], texts)[:, 1:], **NEAR)
        cache.reorder(torch.tensor([3, 0]))
        assert torch.equal(cache[0].memory_kv[0], kept[[1, 0]]) and torch.equal(
            cache.src_mask, padding_mask(SRC)[[1, 0]]
        )
        step = model.decode(torch.tensor([[8], [5]]), memory, cache=cache)
        texts = torch.tensor([[BOS, 8, 8], [BOS, 8, 5]])
        whole = model(SRC[[1, 0]], texts)[:, 2:]
    assert_close(step, whole, **NEAR)


def test_an_all_padding_source_gives_a_defined_result():
    for how in (dict(), dict(norm_first=False), dict(positions="relative", n_kv_heads=1)):
        model = new_model(**how)
        src = torch.tensor([[5, 6, 7], [PAD, PAD, PAD]])
        logits = model(src, torch.tensor([[BOS, 4], [BOS, 4]]))
        assert logits.isfinite().all()
        assert_close(
            logits[1:], model(torch.full((1, 8), PAD), torch.tensor([[BOS, 4]]))
        )  # however many pads
        assert_close(
            logits[1:], model(torch.zeros(1, 0, dtype=torch.long), torch.tensor([[BOS, 4]]))
        )  # and without any
        assert (
            greedy_decode(model, src, 5)[1] == greedy_decode(model, src[1:], 5, use_cache=False)[0]
        )
        token_loss(model(src, src), src).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_decoding_leaves_the_model_as_it_was():
    model = new_model().train()
    model.decoder.eval()
    modes = [part.training for part in model.modules()]
    assert greedy_decode(model, SRC, 6) == greedy_decode(model, SRC, 6)  # dropout is off
    assert [part.training for part in model.modules()] == modes and torch.is_grad_enabled()


# ---- batches and training


def test_targets_stand_one_place_before_what_is_read():
    (src, tgt), targets = collate_pairs(
        [([BOS, 5, EOS], [BOS, 6, 7, EOS]), ([BOS, 8, 9, 10, EOS], [BOS, 11, EOS])]
    )
    assert src.tolist() == [[BOS, 5, EOS, PAD, PAD], [BOS, 8, 9, 10, EOS]]
    assert tgt.tolist() == [[BOS, 6, 7], [BOS, 11, PAD]]
    assert targets.tolist() == [[6, 7, EOS], [11, EOS, IGNORE]]


@pytest.mark.parametrize("tied", [True, False])
def test_it_learns_to_copy_and_fit_keeps_to_the_pad(tmp_path, tied):
    rng = random.Random(0)
    texts = {tuple(rng.choices(range(4, 9), k=rng.randint(2, 4))) for _ in range(1500)}
    rows = [([BOS, *t, EOS], [BOS, *t, EOS]) for t in sorted(texts)]
    rng.shuffle(rows)
    batches = lambda part, shuffle: make_batches(
        part, 32, shuffle=shuffle, collate=collate_pairs, length=lambda row: len(row[0])
    )
    torch.manual_seed(0)
    model = EncoderDecoder(
        TransformerConfig(9, 8, d_model=32, n_heads=2, n_layers=1, d_ff=64, dropout=0.0), tied
    )
    train, held = rows[100:], rows[:100]
    fit(
        model,
        batches(train, True),
        batches(held, False),
        TrainingConfig(epochs=25, lr=1e-2),
        device="cpu",
        progress=False,
        on_best=lambda best: best.save_pretrained(tmp_path),
    )
    again = EncoderDecoder.from_pretrained(tmp_path).double()
    said = greedy_decode(
        model.double(), pad_rows([source for source, _ in held]), 8
    )  # double: two ways of computing take the same token
    exact = sum(row == target for row, (_, target) in zip(said, held)) / len(held)
    assert exact > 0.5 and exact == exact_match(model, batches(held, False))
    assert greedy_decode(again, pad_rows([s for s, _ in held]), 8) == said


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_types_pass_through(dtype):
    model = new_model(dtype=dtype)
    assert model(SRC.int(), TGT.int()).dtype == dtype and greedy_decode(model, SRC.int(), 3)


# ---- bad input

MODEL = new_model()
MEMORY = MODEL.encode(SRC).detach()


def filled():
    cache = CrossAttentionCache(2)
    MODEL.decode(TGT[:, :1], MEMORY, cache=cache)
    return cache


def greedy(src=SRC, n=3, model=MODEL):
    return greedy_decode(model, src, n)


TABLE = {
    "EncoderDecoder": [
        ("no configuration", lambda: EncoderDecoder({}), (TypeError, "config: expected", "dict")),
        ("a list", lambda: MODEL.encode([[1, 2]]), (TypeError, "src: expected", "list")),
        ("one axis", lambda: MODEL.encode(SRC[0]), (ValueError, "src: expected", "(5,)")),
        ("too high", lambda: MODEL(SRC + 10, TGT), (ValueError, "src: expected numbers", "got")),
        ("below zero", lambda: MODEL(SRC, TGT - 1), (ValueError, "tgt: expected numbers", "-1")),
        (
            "a source beyond max_len",
            lambda: MODEL.encode(SRC.repeat(1, 4)),
            (ValueError, "x: expected at most max_len = 16", "20"),
        ),
        ("other rows", lambda: MODEL(SRC, TGT[:1]), (ValueError, "memory: expected", "(2, 5, 16)")),
        (
            "memory of another width",
            lambda: MODEL.decode(TGT, MEMORY[..., :8]),
            (ValueError, "memory: expected", "(2, 5, 8)"),
        ),
        (
            "the mask of the other side",
            lambda: MODEL.decode(TGT, MEMORY, padding_mask(TGT)),
            (ValueError, "mask: expected", "(2, 1, 1, 4)"),
        ),
        ("an empty batch", lambda: MODEL(SRC[:0], TGT[:0]), lambda out: out.shape == (0, 4, 19)),
        ("no source", lambda: MODEL(SRC[:, :0], TGT), lambda out: out.isfinite().all()),
        ("no target", lambda: MODEL(SRC, TGT[:, :0]), lambda out: out.shape == (2, 0, 19)),
        ("padding", lambda: MODEL(SRC * 0, TGT), lambda out: out.isfinite().all()),
    ],
    "CrossAttentionCache": [
        ("no layers", lambda: CrossAttentionCache(0), (ValueError, "n_layers: expected", "0")),
        (
            "another memory",
            lambda: MODEL.decode(TGT[:, :1], MEMORY.clone(), cache=filled()),
            (ValueError, "memory: expected the tensor that this cache was filled from", "another"),
        ),
        (
            "other rows",
            lambda: MODEL.decode(TGT[:1, :1], MEMORY, cache=filled()),
            (ValueError, "tgt: expected 2 rows, as the cache holds", "1"),
        ),
        (
            "reordered before it is filled",
            lambda: CrossAttentionCache(2).reorder(torch.tensor([0])),
            lambda none: none is None,
        ),
    ],
    "collate_pairs": [
        ("a word", lambda: collate_pairs([("ab", "cd")]), (TypeError, "rows: expected", "")),
        (
            "a source of nothing",
            lambda: collate_pairs([([], [1, 2])]),
            lambda batch: batch[0][0].shape == (1, 0),
        ),
    ],
    "make_model": [
        ("no tokens", lambda: make_model(0, 9), (ValueError, "vocab_size: expected", "0"))
    ],
    "greedy_decode": [
        (
            "a layer",
            lambda: greedy(model=nn.Linear(2, 2)),
            (TypeError, "model: expected", "Linear"),
        ),
        ("below zero", lambda: greedy(n=-1), (ValueError, "max_new_tokens: expected", "-1")),
        ("a list", lambda: greedy([[5, 6]]), (TypeError, "src: expected", "list")),
        ("too high", lambda: greedy(SRC + 10), (ValueError, "src: expected numbers", "got")),
        ("nothing to write", lambda: greedy(n=0), lambda rows: rows == [[BOS], [BOS]]),
        ("no sources", lambda: greedy(SRC[:0]), lambda rows: rows == []),
        ("sources of padding", lambda: greedy(SRC * 0), lambda rows: rows[0] == rows[1]),
        ("more than max_len", lambda: greedy(n=10**9), lambda rows: max(map(len, rows)) <= 17),
    ],
    "transformer_from_torch": [
        (
            "an encoder alone",
            lambda: transformer_from_torch(nn.Linear(2, 2)),
            (TypeError, "theirs: expected Transformer", "Linear"),
        ),
        (
            "an encoder of one's own",
            lambda: transformer_from_torch(
                nn.Transformer(8, 2, 1, 1, 8, batch_first=True, custom_encoder=nn.Identity())
            ),
            (TypeError, "theirs: expected TransformerEncoder", "Identity"),
        ),
    ],
}


@pytest.mark.parametrize("call, wanted", cases(TABLE))
def test_bad_input(call, wanted):
    judge(call, wanted)


def test_every_public_name_is_in_the_table():
    assert public_names(module, number_words, two_stacks) == set(TABLE)
