"""The encoder–decoder: the model is the paper's, a batch equals its rows, what is kept equals what
is computed again, and bad input costs one sentence.

24 random configurations, always the same ones, run with the other tests. More of them, new ones
each time:

  FORMER_NB_CASES=1000 OMP_NUM_THREADS=1 pytest tests/test_encoder_decoder.py
"""

import itertools
import math
import os
import random
import time

import pytest
import torch
import torch.nn.functional as F
from fit_tools import fit
from model_tools import block_from_torch
from refusals import every_row, refuses
from torch import nn
from torch.testing import assert_close

from former_nb.attention.fused import attention
from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.data.batches import make_batches
from former_nb.data.text import BOS, EOS, IGNORE, PAD, UNK, pad_rows
from former_nb.decoding.beam_search import beam_search, length_score
from former_nb.decoding.caches import KVCache
from former_nb.decoding.number_words import greedy_decode
from former_nb.decoding.translation import beam_decode
from former_nb.inspection.leaks import LeakError, assert_no_leak
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.choices import ACTIVATIONS, NORMS, POSITIONS, find_part
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import collate_pairs
from former_nb.models.layers import Stack
from former_nb.models.parts import Decoder, ReadMemory, attend_beams
from former_nb.models.savable import EncoderDecoder, make_model
from former_nb.training.losses import exact_match, token_loss
from former_nb.training.optimization import make_optimizers
from former_nb.training.training_config import TrainingConfig

CASES = int(os.environ.get("FORMER_NB_CASES", 24))
FIRST = int(time.time()) if "FORMER_NB_CASES" in os.environ else 0  # of the seeds
SCHEMES = list(POSITIONS)
NEAR = dict(rtol=1e-5, atol=1e-5)


def build(config, tied=True):
    "One matrix for source, target and logits, or three."
    return EncoderDecoder.from_config(config) if tied else BartEncoderDecoder(config, tied=False)


def new_model(seed=0, V=19, max_len=16, tied=True, loud=0.3, dtype=torch.float64, **kwargs):
    "A model whose weights are large enough for its answers to differ from place to place."
    kwargs = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24, dropout=0.3) | kwargs
    torch.manual_seed(seed)
    model = build(TransformerConfig(V, max_len, **kwargs), tied)
    for weight in model.parameters():
        nn.init.normal_(weight, std=loud)
    return model.to(dtype).eval()


def random_case(seed):
    "A model and ragged sources, all from one number."
    draw = random.Random(seed)
    how = dict(positions=SCHEMES, n_kv_heads=[None, 2, 1], n_layers=[1, 2], norm=list(NORMS))
    how |= dict(activation=list(ACTIVATIONS), norm_first=[True, False], tied=[True, False])
    how = {name: draw.choice(some) for name, some in how.items()}
    row = lambda: [draw.randint(4, 18) for _ in range(draw.randint(1, 9))]
    sources = [row() for _ in range(draw.randint(1, 4))]
    return new_model(seed % 2**31, **how), pad_rows(sources), sources, draw


SEEDS = range(FIRST, FIRST + CASES)


# ---- the model is the paper's


def spelt_out(model, src, tgt):
    """The logits of one pair without padding, by formulas: no fused kernel, no masks of the
    library, no cache."""
    c, w = model.config, dict(model.named_parameters()) | dict(model.named_buffers())
    d, h = c.d_model, c.n_heads

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        if c.norm == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"]
        return x + w[f"{name}.bias"] if c.norm == "layer" else x

    def split(x, name):
        x = linear(x, name)
        return x.view(1, -1, x.shape[-1] // (d // h), d // h).transpose(1, 2)

    def heads(name, x, m, positions=None, causal=False):
        q, keys, values = (split(t, f"{name}.w_{n}") for t, n in zip((x, m, m), "qkv"))
        bias = 0.0
        if c.positions == "rotary" and positions is not None:
            first = torch.arange(q.shape[2])
            q, keys = positions.turn(q, first), positions.turn(keys, first)
        elif positions is not None:
            bias = positions.bias(q.shape[2], keys.shape[2])
        keys, values = (t.repeat_interleave(h // t.shape[1], 1) for t in (keys, values))
        scores = q @ keys.mT / (d // h) ** 0.5 + bias
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        return linear((scores.softmax(-1) @ values).transpose(1, 2).flatten(2), f"{name}.w_o")

    def feed(name, x):
        units = linear(x, f"{name}.w_in")
        if c.activation == "swiglu":
            units = F.silu(linear(x, f"{name}.w_gate")) * units
        else:
            units = find_part(ACTIVATIONS[c.activation].part)(units)
        return linear(units, f"{name}.w_out")

    def run(stack, name, x, memory=None):
        for i in range(len(stack.blocks)):
            here, past = f"{name}.blocks.{i}.", memory is not None
            own, at = f"{here}attention", stack.rotary
            parts = {"attention": lambda t: heads(own, t, t, at, past)}
            if past:  # no positions: places of two texts
                parts["cross"] = lambda t: heads(f"{here}cross", t, memory)
            parts["ff"] = lambda t: feed(here + "ff", t)
            for n, part in parts.items():
                n = f"{here}norm_{n}"
                x = x + part(norm(x, n)) if c.norm_first else norm(x + part(x), n)
        return norm(x, f"{name}.norm") if c.norm_first else x

    def embed(side, tokens):
        x = getattr(model, f"{side}_embed").tokens.weight[tokens] * d**0.5
        if POSITIONS[c.positions].where == "input":
            x = x + w[f"{side}_embed.position_embedding.table"][: tokens.shape[1]]
        return x

    memory = run(model.encoder, "encoder", embed("src", src))
    return run(model.decoder, "decoder", embed("tgt", tgt), memory) @ model.head.weight.T


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_what_the_formulas_say(seed):
    model, src, sources, draw = random_case(seed)
    rows = [[BOS, *draw.choices(range(4, 19), k=draw.randint(0, 8))] for _ in sources]
    # pads change nothing for a row: not those of the source, which a mask hides, and not those on
    # the right of the target, which causality hides from every token that a loss counts
    for row, own, source in zip(rows, model(src, pad_rows(rows)), sources):
        wanted = spelt_out(model, torch.tensor([source]), torch.tensor([row]))[0]
        assert_close(own[: len(row)], wanted, **NEAR)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_parity_with_torchs_transformer(norm_first, activation, padded):
    torch.manual_seed(0)
    how = dict(batch_first=True, norm_first=norm_first)
    theirs = nn.Transformer(12, 3, 2, 3, 20, 0.0, activation, **how)
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.3)
    encoder = Stack(map(block_from_torch, theirs.encoder.layers), theirs.encoder.norm)
    decoder = Decoder(map(block_from_torch, theirs.decoder.layers), theirs.decoder.norm)
    assert len(encoder.blocks) == 2 and len(decoder.blocks) == 3
    src, tgt = torch.randn(3, 7, 12), torch.randn(3, 5, 12)
    real = torch.ones(3, 7, dtype=torch.bool)
    real[1, 4:], real[2, 1:] = not padded, not padded
    masks = dict(src_key_padding_mask=~real, memory_key_padding_mask=~real)
    masks |= dict(tgt_mask=theirs.generate_square_subsequent_mask(5))
    for train in (False, True):
        wanted, mask = theirs.train(train)(src, tgt, **masks), real[:, None, None]
        got = decoder(tgt, encoder(src, mask=mask), mask)
        assert_close(got, wanted, **NEAR)
        assert_close(decoder(tgt, decoder.project(encoder(src, mask=mask)), mask), got)
    ours = [*encoder.parameters(), *decoder.parameters()]
    runs = (got, ours), (wanted, list(theirs.parameters()))
    grads = [torch.autograd.grad(out.square().sum(), weights) for out, weights in runs]
    norms = [sum(g.square().sum() for g in some) for some in grads]
    assert_close(*norms, rtol=1e-4, atol=1e-4)


def test_the_start_is_what_a_unit_stream_says():
    """Logits of variance one cost half a nat more than ln V; with one matrix the token just read,
    still in the stream, gets the logit √d besides."""
    apart, shared = math.log(1000) + 0.5, math.log(math.exp(16) + 1000 * math.exp(0.5))
    for tied, wanted in ((False, apart), (True, shared)):
        torch.manual_seed(0)
        sizes = dict(d_model=256, n_heads=4, n_layers=2, d_ff=64)
        model = build(TransformerConfig(1000, 12, **sizes), tied).eval()
        src, tgt = torch.randint(4, 1000, (16, 9)), torch.randint(4, 1000, (16, 12))
        assert abs(token_loss(model(src, tgt), torch.randint(4, 1000, (16, 12))) - wanted) < 0.15
        assert abs(model.tgt_embed(tgt, torch.arange(12)).var() - 1) < 0.05


def test_it_can_be_exported_with_open_sizes():
    model = new_model(positions="rotary", n_layers=1, dtype=torch.float32)
    B, S, T = (torch.export.Dim(name, min=2, max=16) for name in "BST")
    given, sizes = tuple(torch.randint(4, 19, (3, n)) for n in (7, 5)), ({0: B, 1: S}, {0: B, 1: T})
    program = torch.export.export(model, given, dynamic_shapes=sizes).module()
    for b, s, t in ((2, 9, 4), (5, 3, 8)):
        src, tgt = torch.randint(4, 19, (b, s)), torch.randint(4, 19, (b, t))
        src[-1, 2:] = PAD
        assert_close(program(src, tgt), model(src, tgt))


# ---- one matrix, or three


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
@pytest.mark.parametrize("tied", [True, False])
def test_saved_and_loaded_it_says_the_same(tmp_path, tied, positions):
    model = new_model(tied=tied, positions=positions, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    again, src = type(model).from_pretrained(tmp_path), torch.randint(4, 19, (2, 7))
    assert torch.equal(again(src, src[:, :5]), model(src, src[:, :5])) and not again.training
    assert again.config == model.config
    tables = again.src_embed.tokens.weight, again.tgt_embed.tokens.weight, again.head.weight
    assert len({id(table) for table in tables}) == (1 if tied else 3)


def test_a_shared_matrix_is_one_parameter_and_learns_from_three_sides():
    model, other = new_model(), new_model(tied=False)
    groups = [g for o in make_optimizers(model, 1e-3, 0.02, 0.1) for g in o.param_groups]
    held = [id(p) for group in groups for p in group["params"]]
    assert len(held) == len(set(held)) == len(list(model.parameters()))
    other.load_state_dict(model.state_dict())  # one matrix under three names
    sides = "src_embed.tokens.weight", "tgt_embed.tokens.weight", "head.weight"
    src, tgt, targets = (torch.randint(4, 19, (2, n)) for n in (7, 5, 5))
    [whole] = torch.autograd.grad(token_loss(model(src, tgt), targets), [model.head.weight])
    tables = [other.get_parameter(name) for name in sides]
    parts = torch.autograd.grad(token_loss(other(src, tgt), targets), tables)
    assert all(part.any() for part in parts)
    assert_close(whole, sum(parts))


def test_every_weight_learns():
    mixed = dict(positions="relative", n_kv_heads=2, norm="rms", activation="swiglu", tied=False)
    for how in (dict(positions="learned"), mixed, dict(norm_first=False)):
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
    "how", [dict(positions="alibi", norm_first=False), dict(positions="relative", n_kv_heads=1)]
)
def test_no_mask_leaks(how):
    model, real = new_model(**how), padding_mask(SRC)
    quick = dict(vocab_size=19, draws=4)
    assert_no_leak(read(model), SRC, real | torch.eye(5, dtype=torch.bool), **quick)
    assert_no_leak(lambda tgt: model(SRC, tgt), TGT, causal_mask(4), **quick)
    both = lambda src: model.decode(TGT, read(model)(src), real)
    assert_no_leak(both, SRC, real.expand(2, 1, 4, 5), **quick)


def read(model):
    "The encoder, with the pads of `SRC` hidden whatever stands there."
    at = torch.arange(SRC.shape[1])
    embed = lambda src: model.src_embed(src, at)
    return lambda src: model.encoder(embed(src), mask=padding_mask(SRC), positions=at)


class NoMask(EncoderDecoder):  # cross-attention without the mask
    def decode(self, tgt, memory, memory_mask=None):
        return super().decode(tgt, memory, None)


class WrongSide(EncoderDecoder):  # the pads of the target where those of the source belong
    def decode(self, tgt, memory, memory_mask=None):
        return super().decode(tgt, memory, padding_mask(tgt))


class ReadsAhead(EncoderDecoder):  # a decoder that is not causal
    def decode(self, tgt, memory, memory_mask=None):
        see_all = lambda q, k, v, mask, is_causal: attention(q, k, v, mask)
        return super().decode(tgt, memory, memory_mask, see_all)


@pytest.mark.parametrize("mutant", [NoMask, WrongSide, ReadsAhead])
def test_the_meter_is_red_on_mutants(mutant):
    model = mutant.from_config(TransformerConfig(19, 16, d_model=16, n_layers=2, d_ff=24)).eval()
    tgt = torch.cat([TGT, torch.full((2, 1), 9)], 1)  # S = T, or one would be an error
    real = padding_mask(SRC)
    with pytest.raises(LeakError):
        if mutant is ReadsAhead:
            assert_no_leak(lambda t: model(SRC, t), tgt, causal_mask(5), vocab_size=19)
        else:
            both = lambda src: model.decode(tgt, read(model)(src), real)
            assert_no_leak(both, SRC, real.expand(2, 1, 5, 5), vocab_size=19)


# ---- two vocabularies, two depths


def test_source_and_target_may_differ(tmp_path):
    torch.manual_seed(0)
    sizes = dict(d_model=16, n_heads=4, d_ff=24, dropout=0.0)
    src_config = TransformerConfig(23, 12, n_layers=3, positions="sinusoidal", **sizes)
    tgt_config = TransformerConfig(11, 7, n_layers=1, positions="rotary", **sizes)
    model = EncoderDecoder.from_config(src_config, tgt_config).double().eval()
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (3, 1)
    src = torch.tensor([[22, 20, 21, 5, 4, 9, 8, 7, 6], [22, 6, 5, PAD, PAD, PAD, PAD, PAD, PAD]])
    tgt = torch.tensor([[BOS, 5, 6, 7], [BOS, 10, 9, PAD]])
    assert model(src, tgt).shape == (2, 4, 11)
    assert max(map(len, greedy_decode(model, src, 7))) <= 1 + 7
    model.save_pretrained(tmp_path)
    again = EncoderDecoder.from_pretrained(tmp_path).double()
    assert (again.config, again.tgt_config) == (src_config, tgt_config)
    assert again.head.weight is again.tgt_embed.tokens.weight
    assert torch.equal(again(src, tgt), model(src, tgt))
    refuses(lambda: model(src, src), ValueError, "tgt")


def test_the_model_of_the_paper():
    with torch.device("meta"):
        model = make_model(8000, 6000)
        small = make_model(8, 9, d_model=16, n_heads=2, n_layers=1, positions="rotary")
        shared = make_model(8, d_model=16)
    c = model.tgt_config
    assert (c.d_model, c.n_heads, c.n_layers, c.d_ff, c.norm_first) == (512, 8, 6, 2048, False)
    assert (model.config.vocab_size, c.vocab_size, c.activation) == (8000, 6000, "relu")
    assert (small.config.vocab_size, small.tgt_config.n_layers) == (8, 1)
    assert shared.src_embed.tokens is shared.tgt_embed.tokens


# ---- decoding


def decoder_of(model, src):
    "The decoder with its memory bound, as `beam_search` wants it, whatever the number of rows."
    memory, mask = model.encode(src), padding_mask(src)
    kept = model.decoder.project(memory, attend_beams)

    def decode(tokens, cache=None, positions=None):
        if cache is not None:
            return model.decode(tokens, kept, mask, cache, positions)
        times = len(tokens) // len(src)
        return model.decode(tokens, *(t.repeat_interleave(times, 0) for t in (memory, mask)))

    return decode


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_is_computed_again_and_a_batch_is_its_rows(seed):
    model, src, sources, draw = random_case(seed)
    n = draw.choice([1, 5, 16])
    kept = greedy_decode(model, src, n)
    assert kept == [greedy_decode(model, torch.tensor([source]), n)[0] for source in sources]
    for row in kept:
        assert row[0] == BOS and not set(row[1:]) & {PAD, BOS, UNK} and EOS not in row[1:-1]
        assert len(row) == 1 + n or row[-1] == EOS


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_loops_of_lessons_14_and_16_agree(seed):
    model, src, sources, draw = random_case(seed)
    n = draw.choice([1, 5, 16])

    class OfTheReader(nn.Module):  # nothing but what lesson 13 has
        encode, decode, decoder = model.encode, model.decode, model.decoder

    rows = greedy_decode(OfTheReader(), src, n)
    assert rows == greedy_decode(model, src, n)
    for row, source in zip(rows, sources):
        found = beam_decode(model, torch.tensor([source]), n, 1)
        if found != row:  # it goes on behind the end with its second choice, for a better mean
            assert row[-1] == EOS and found[: len(row) - 1] == row[:-1] and len(found) > len(row)
            assert mean_of(model, source, found) > mean_of(model, source, row)


def mean_of(model, source, row):
    "The mean log-probability of the new tokens of a row."
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([row[:-1]]))[0]
    logits[:, [PAD, BOS, UNK]] = -math.inf
    return logits.log_softmax(dim=-1)[range(len(row) - 1), row[1:]].mean().item()


def test_beams_of_lesson_16_find_what_trying_everything_finds():
    n, own = 4, [EOS, 4, 5, 6]
    texts = [t for k in range(1, n + 1) for t in itertools.product(own, repeat=k)]
    texts = [[BOS, *t] for t in texts if t[-1] == EOS and EOS not in t[:-1]]
    for seed in range(3):
        model = new_model(seed, V=7, loud=0.5)
        for source in ([4, 6, 5, 4], [5, 5]):
            best = max(texts, key=lambda row: mean_of(model, source, row))
            assert beam_decode(model, torch.tensor([source]), n, 64) == best


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_beam_search_works_on_it(seed):
    model, src, sources, draw = random_case(seed)
    start, n = torch.full((len(sources), 1), BOS), draw.randint(1, 9)
    how = dict(num_beams=draw.randint(2, 6), length_penalty=draw.choice([0, 0.6, 1.0]))
    how |= dict(convention=draw.choice(["mean", "gnmt"]), num_return_sequences=2, max_new_tokens=n)
    cached = lambda: dict(cache=KVCache(model.config.n_layers))
    with torch.no_grad():
        decode = decoder_of(model, src)
        greedy = [best[0][0] for best in beam_search(decode, start, 1, n, **cached())]
        assert greedy == greedy_decode(model, src, n)
        kept = beam_search(decode, start, **how, **cached())
        again = beam_search(decode, start, **how)
        each = [decoder_of(model, torch.tensor([source])) for source in sources]
        alone = [beam_search(decode, start[:1], **how, **cached())[0] for decode in each]
    texts = lambda found: [[text for text, _ in best] for best in found]
    scores = lambda found: [[score for _, score in best] for best in found]
    for other in (again, alone):
        assert texts(kept) == texts(other)
        assert_close(scores(kept), scores(other), **NEAR)


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
def test_beams_enough_find_what_trying_everything_finds(convention):
    model, sources = new_model(V=7, loud=0.5), [[4, 6, 5, 4], [5, 5]]
    n, penalty, own = 4, 0.7, [EOS, 4, 5, 6]
    texts = [t for k in range(1, n + 1) for t in itertools.product(own, repeat=k)]
    texts = [t for t in texts if EOS not in t[:-1] and (t[-1] == EOS or len(t) == n)]
    how = dict(length_penalty=penalty, convention=convention, num_return_sequences=3)
    decode = decoder_of(model, pad_rows(sources))

    def score(source, text):
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *text[:-1]]]))[0]
        logits[:, [PAD, BOS, UNK]] = -math.inf
        total = logits.log_softmax(-1)[range(len(text)), list(text)].sum().item()
        return length_score(total, len(text), penalty, convention)

    with torch.no_grad():
        cache = KVCache(2)
        found = beam_search(decode, torch.full((2, 1), BOS), 64, n, **how, cache=cache)
        for source, best in zip(sources, found):
            everything = sorted(([score(source, t), [BOS, *t]] for t in texts), reverse=True)[:3]
            assert [t for t, _ in best] == [t for _, t in everything]
            assert_close([s for _, s in best], [s for s, _ in everything], **NEAR)


def tensors_of(memory):
    return [t for read in memory for t in read.memory]


def test_texts_about_one_source_share_its_keys_and_values():
    model, mask = new_model(), padding_mask(SRC)
    cache = KVCache(2)
    with torch.no_grad():
        memory = model.decoder.project(model.encode(SRC), attend_beams)
        before = [t.clone() for t in tensors_of(memory)]

        def decode(tokens, kept, real):
            return model.decode(tokens, kept, real, cache, cache.positions(1))

        decode(TGT[:, :1], memory, mask)
        cache.reorder([0, 0, 0, 1, 1, 1])  # further queries of the same two memories
        cache.reorder(torch.tensor([2, 0, 0, 5, 5, 3]))  # beams trade places within a source
        six = torch.tensor([[8], [5], [6], [8], [5], [6]])
        step = decode(six, memory, mask)
        texts = torch.cat([TGT[[0, 0, 0, 1, 1, 1], :1], six], dim=1)
        assert_close(step, model(SRC[[0, 0, 0, 1, 1, 1]], texts)[:, 1:], **NEAR)
        assert all(map(torch.equal, before, tensors_of(memory)))
        cache.reorder(torch.tensor([3, 0]))  # one text of each source, in the other order
        turned = [ReadMemory((k[[1, 0]], v[[1, 0]]), attend_beams) for (k, v), _ in memory]
        step = decode(torch.tensor([[8], [5]]), turned, mask[[1, 0]])
        texts = torch.tensor([[BOS, 8, 8], [BOS, 8, 5]])
        whole = model(SRC[[1, 0]], texts)[:, 2:]
    assert_close(step, whole, **NEAR)


def test_an_all_padding_source_gives_a_defined_result():
    for how in (dict(), dict(norm_first=False), dict(positions="relative", n_kv_heads=1)):
        model, tgt = new_model(**how), torch.tensor([[BOS, 4], [BOS, 4]])
        src = torch.tensor([[5, 6, 7], [PAD, PAD, PAD]])
        logits = model(src, tgt)
        assert logits.isfinite().all()
        for n in (8, 0):  # however many pads, and without any
            none = torch.full((1, n), PAD)
            assert_close(logits[1:], model(none, tgt[:1]))
        alone = greedy_decode(model, src[1:], 5)
        assert greedy_decode(model, src, 5)[1:] == alone
        token_loss(model(src, src), src).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_decoding_leaves_the_model_as_it_was():
    model = new_model().train()
    model.decoder.eval()
    modes = [part.training for part in model.modules()]
    greedy_decode(model, SRC, 6)
    assert [part.training for part in model.modules()] == modes and torch.is_grad_enabled()


# ---- batches and training


def test_targets_stand_one_place_before_what_is_read():
    (src, tgt), targets = collate_pairs(
        [([BOS, 5, EOS], [BOS, 6, 7, EOS]), ([BOS, 8, 9, 10, EOS], [BOS, 11, EOS])]
    )
    assert src.tolist() == [[BOS, 5, EOS, PAD, PAD], [BOS, 8, 9, 10, EOS]]
    assert tgt.tolist() == [[BOS, 6, 7], [BOS, 11, PAD]]
    assert targets.tolist() == [[6, 7, EOS], [11, EOS, IGNORE]]


def test_short_rows_are_filled_with_the_padding_of_the_model():
    rows = [([4, 2], [9, 5, 2]), ([0, 4, 2], [9, 6, 7, 2])]
    (src, tgt), targets = collate_pairs(rows, pad=9)
    assert src.tolist() == [[4, 2, 9], [0, 4, 2]]
    assert tgt.tolist() == [[9, 5, 9], [9, 6, 7]]
    assert targets.tolist() == [[5, 2, IGNORE], [6, 7, 2]]


@pytest.mark.parametrize("tied", [True, False])
def test_fit_learns_and_what_it_keeps_says_the_same(tmp_path, tied):
    rng = random.Random(0)
    texts = [rng.choices(range(4, 9), k=rng.randint(2, 4)) for _ in range(200)]
    rows = [([BOS, *t, EOS], [BOS, *t, EOS]) for t in texts]
    how = dict(collate=collate_pairs, length=lambda row: len(row[0]))
    train, held = make_batches(rows, 32, shuffle=True, **how), make_batches(rows[:40], 32, **how)
    torch.manual_seed(0)
    sizes = dict(d_model=32, n_heads=2, n_layers=1, d_ff=64, dropout=0.0)
    model = build(TransformerConfig(9, 8, **sizes), tied)
    keep = lambda best: best.save_pretrained(tmp_path)
    history = fit(model, train, held, TrainingConfig(epochs=4, lr=1e-2), on_best=keep)
    assert history["valid"].iloc[-1] < history["valid"].iloc[0]
    src = pad_rows([source for source, _ in rows[:40]])
    # double: two ways of computing take the same token
    said = greedy_decode(model.double(), src, 8)
    exact = sum(row == target for row, (_, target) in zip(said, rows)) / 40
    assert exact == exact_match(model, held)
    assert greedy_decode(type(model).from_pretrained(tmp_path).double(), src, 8) == said


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_types_pass_through(dtype):
    model = new_model(dtype=dtype)
    assert model(SRC.int(), TGT.int()).dtype == dtype and greedy_decode(model, SRC.int(), 3)


# ---- bad input

MODEL = new_model()
MEMORY = MODEL.encode(SRC).detach()


KEPT = MODEL.decoder.project(MEMORY)
NARROW = TransformerConfig(19, 16, d_model=8, n_heads=2, n_layers=1, d_ff=8)
BART = BartEncoderDecoder(
    TransformerConfig(19, 16, d_model=8, n_heads=2, n_layers=1, pad_token_id=1)
)


NEXT = torch.tensor([1])


def filled():
    cache = KVCache(2)
    MODEL.decode(TGT[:, :1], MEMORY, attend=cache)
    return cache


TABLE = {
    "EncoderDecoder": [
        ("no configuration", lambda: EncoderDecoder.from_config({}), TypeError, "config", "dict"),
        (
            "two widths",
            lambda: EncoderDecoder.from_config(MODEL.config, NARROW),
            ValueError,
            "tgt_config",
            "8",
        ),
        ("one axis", lambda: MODEL.encode(SRC[0]), ValueError, "src", "(5,)"),
        ("too high", lambda: MODEL(SRC + 10, TGT), ValueError, "src"),
        ("below zero", lambda: MODEL(SRC, TGT - 1), ValueError, "tgt", "-1"),
        ("too long", lambda: MODEL.encode(SRC.repeat(1, 4)), ValueError, "max_len"),
        ("other rows", lambda: MODEL(SRC, TGT[:1]), ValueError, "memory", "(2, 5, 16)"),
        ("width", lambda: MODEL.decode(TGT, MEMORY[..., :8]), ValueError, "memory", "(2, 5, 8)"),
        (
            "the mask of the other side",
            lambda: MODEL.decode(TGT, MEMORY, padding_mask(TGT)),
            ValueError,
            "mask",
            "(2, 1, 1, 4)",
        ),
        ("an empty batch", lambda: MODEL(SRC[:0], TGT[:0]), lambda out: out.shape == (0, 4, 19)),
        ("no source", lambda: MODEL(SRC[:, :0], TGT), lambda out: out.isfinite().all()),
        ("no target", lambda: MODEL(SRC, TGT[:, :0]), lambda out: out.shape == (2, 0, 19)),
    ],
    "Decoder": [
        (
            "other rows after a cache",
            lambda: MODEL.decode(TGT[:1, :1], MEMORY[:1], attend=filled(), positions=NEXT),
            ValueError,
            "tokens",
            "1",
        ),
        (
            "keys and values of other rows",
            lambda: MODEL.decode(TGT[:1], KEPT),
            ValueError,
            "k",
            "(2, 4, 5, 4)",
        ),
        (
            "keys and values of one block of two",
            lambda: MODEL.decode(TGT, KEPT[:1]),
            ValueError,
            "memory",
            "1",
        ),
        (
            "a memory that is not the layer's",
            lambda: MODEL.decode(TGT, ReadMemory(MEMORY, lambda q, k, v, *_: v)),
            ValueError,
            "attend",
            "(2, 4, 5, 4)",
        ),
    ],
    "collate_pairs": [
        ("a word", lambda: collate_pairs([("ab", "cd")]), TypeError, "rows", "ab"),
        ("nothing", lambda: collate_pairs([([], [1, 2])]), lambda b: b[0][0].shape == (1, 0)),
    ],
    "greedy_decode": [
        (
            "a layer",
            lambda: greedy_decode(nn.Linear(2, 2), SRC, 3),
            TypeError,
            "model",
        ),
        (
            "other special tokens",
            lambda: greedy_decode(BART, SRC, 3),
            ValueError,
            "model",
        ),
        (
            "below zero",
            lambda: greedy_decode(MODEL, SRC, -1),
            ValueError,
            "max_new_tokens",
        ),
        ("too high", lambda: greedy_decode(MODEL, SRC + 10, 3), ValueError, "src"),
        (
            "more than the context",
            lambda: greedy_decode(MODEL, SRC, 17),
            ValueError,
            "max_new_tokens",
            "17",
        ),
        ("no sources", lambda: greedy_decode(MODEL, SRC[:0], 3), lambda r: r == []),
    ],
    "beam_decode": [
        ("two sources", lambda: beam_decode(MODEL, SRC, 3), ValueError, "src", "(2, 5)"),
        ("no beams", lambda: beam_decode(MODEL, SRC[:1], 3, 0), ValueError, "num_beams", "0"),
        ("nothing to write", lambda: beam_decode(MODEL, SRC[:1], 0), ValueError, "max_new_tokens"),
    ],
}


test_bad_input = every_row(TABLE)
