"""The block and the stack: PyTorch's layers number by number, gradients by finite differences,
compiled and exported graphs, bad input.

At the end, two training steps each of random models. 30 of them run with the other tests. A longer
run, with new models each time and every variant of the block:

  FORMER_NB_CASES=10000 OMP_NUM_THREADS=1 pytest tests/test_layers.py
"""

import os
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_tools import CONFIG, block_from_torch, configs
from refusals import every_row, n, nan_only_at, shape, spoilt, words, yes
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from former_nb.attention.fused import attention
from former_nb.attention.mask_patterns import masked_attention
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.inspection.leaks import assert_no_leak
from former_nb.models.build import (
    build_block,
    build_decoder,
    build_decoder_block,
    build_embedding,
    build_stack,
)
from former_nb.models.choices import ACTIVATIONS, MODEL, POSITIONS
from former_nb.models.encoder_decoder import DecoderBlock
from former_nb.models.layers import Block, FeedForward, Stack, make_block
from former_nb.models.post_norm import PostNormBlock, PostNormDecoderBlock

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 30))
NEAR = dict(atol=1e-5, rtol=1e-5)
KINDS = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}


# ---- PyTorch's layers


def keep_all_weights(theirs):
    "Their attention drops weights, too; ours drops what a part writes and no more."
    for part in theirs.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0


def their_layer(kind, dropout=0.0, **kwargs):
    "A layer with biases, gains and shifts that show."
    torch.manual_seed(0)
    theirs = KINDS[kind](12, 3, 20, dropout=dropout, batch_first=True, **kwargs)
    for name, p in theirs.named_parameters():
        if p.ndim == 1:
            nn.init.normal_(p, float("norm" in name and "weight" in name), 0.3)
    return theirs


def masks_for(names, B, T, S):
    "What ours and theirs are given: the same masks, in the convention of each."
    ours, theirs = [], {}
    if "causal" in names:
        ours.append(causal_mask(T))
        theirs["mask"] = ~causal_mask(T)[0, 0]
    if "padding" in names:
        real = torch.arange(T) < torch.tensor([T, T - 2, 1][:B])[:, None]  # (B, T)
        ours.append(real[:, None, None])
        theirs["key_padding_mask"] = ~real
    padded = "memory padding" in names
    memory = torch.arange(S) < torch.tensor([S - 3, S, 1][:B])[:, None] if padded else None
    return combine_masks(*ours), theirs, memory


def our_run(ours, x, memory, mask, real):
    if not isinstance(ours, DecoderBlock):
        return ours(x, mask=mask)
    attend = attention if mask is None else masked_attention(mask)
    return ours(x, memory, None if real is None else real[:, None, None], attend)


def their_run(theirs, x, memory, masks, real):
    if isinstance(theirs, nn.TransformerEncoderLayer):
        return theirs(x, **{f"src_{name}": mask for name, mask in masks.items()})
    masks = {f"tgt_{name}": mask for name, mask in masks.items()}
    return theirs(x, memory, **masks, memory_key_padding_mask=None if real is None else ~real)


def under_our_names(theirs):
    "Their gradients, in the order of our parameters: what copies weights copies gradients too."
    moved = deepcopy(theirs)
    for p, q in zip(moved.parameters(), theirs.parameters(), strict=True):
        p.data = q.grad
    return list(block_from_torch(moved).parameters())


MASKS = {  # least and most; a decoder of ours is always causal
    "encoder": [(), ("causal", "padding")],
    "decoder": [("causal",), ("causal", "padding", "memory padding")],
}
WALL = [
    (kind, first, activation, mode, masks)
    for kind in KINDS
    for first, activation in ((True, "gelu"), (False, "relu"))
    for mode in ("train", "train with dropout", "eval")
    for masks in (MASKS[kind] if mode == "train" else MASKS[kind][-1:])
]


@pytest.mark.parametrize(("kind", "norm_first", "activation", "mode", "masks"), WALL)
def test_the_block_is_pytorchs_layer(kind, norm_first, activation, mode, masks):
    dropout = 0.0 if mode == "train" else 0.3
    theirs = their_layer(kind, dropout, activation=activation, norm_first=norm_first)
    keep_all_weights(theirs)
    ours = block_from_torch(theirs.train(mode != "eval"))
    assert ours.training == theirs.training
    assert isinstance(ours, (PostNormBlock, PostNormDecoderBlock)) != norm_first
    # with dropout, for more sentences their layer draws in the order T, B, d_model
    B, T, S = 1 if mode == "train with dropout" else 3, 5, 7
    mask, their_masks, real = masks_for(masks, B, T, S)
    results = []
    for layer, run, given_masks in ((ours, our_run, mask), (theirs, their_run, their_masks)):
        inputs = [n(B, T, 12).requires_grad_(), n(B, S, 12, seed=1).requires_grad_()]
        torch.manual_seed(3)
        out = run(layer, *inputs, given_masks, real)
        (out * n(B, T, 12, seed=2)).sum().backward()
        results.append((out, [t.grad for t in inputs if t.grad is not None]))
    assert_close(*results, **NEAR)
    assert_close([p.grad for p in ours.parameters()], under_our_names(theirs), **NEAR)
    if mode == "train with dropout":
        again = our_run(ours, n(B, T, 12), n(B, S, 12, seed=1), mask, real)
        assert not torch.allclose(results[0][0], again)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_block_is_the_fast_path_of_pytorchs_encoder(norm_first, activation):
    theirs = their_layer("encoder", 0.3, activation=activation, norm_first=norm_first).eval()
    ours, x = block_from_torch(theirs), n(3, 5, 12)
    mask, their_masks, _ = masks_for(("padding",), 3, 5, 7)
    real = mask[:, 0, 0]
    with torch.inference_mode():
        mine = ours(x, mask=mask)
        yours = theirs(x, src_key_padding_mask=their_masks["key_padding_mask"])
    assert_close(mine[real], yours[real], **NEAR)  # what stands at padding is left open


def attend_to_all(q, k, v, mask, is_causal):
    "Attention that is deaf to the flag."
    return attention(q, k, v, mask)


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_flag_is_the_causal_mask_and_weights_keep_their_type(kind):
    ours = block_from_torch(their_layer(kind, norm_first=True).double())
    assert {p.dtype for p in ours.parameters()} == {torch.float64}
    x, memory = n(2, 5, 12).double(), n(2, 7, 12).double()
    if kind == "encoder":
        flagged = ours(x, is_causal=True)
        masked = ours(x, mask=causal_mask(5))
        open_to_all = ours(x)
    else:  # a decoder's block sets the flag by itself
        flagged = ours(x, memory)
        masked = ours(x, memory, attend=masked_attention(causal_mask(5), attend_to_all))
        open_to_all = ours(x, memory, attend=attend_to_all)
    assert_close(flagged, masked)
    assert not torch.allclose(flagged, open_to_all)


def test_a_stack_is_pytorchs_decoder_with_a_last_norm_only_after_pre_norm():
    for first in (True, False):
        layer = their_layer("decoder", norm_first=first)
        theirs = nn.TransformerDecoder(layer, 3, norm=nn.LayerNorm(12) if first else None)
        for p in theirs.parameters():
            nn.init.normal_(p, std=0.5)  # no two layers alike: a wrong order would show
        ours = build_decoder(replace(CONFIG, norm_first=first, activation="relu"))
        ours.blocks = nn.ModuleList(map(block_from_torch, theirs.layers))
        assert isinstance(ours.norm, nn.LayerNorm if first else nn.Identity)
        ours.norm = theirs.norm or ours.norm
        x, memory = n(2, 5, 12), n(2, 7, 12)
        wanted = theirs(x, memory, tgt_mask=~causal_mask(5)[0, 0])
        assert_close(ours(x, memory), wanted, rtol=1e-4, atol=1e-4)


# ---- parts that are handed in


class Doubles(nn.Module):
    "In the place of attention: notes what it is called with."

    def forward(self, x, mask, is_causal, attend):
        self.given = mask, is_causal, attend
        return 2 * x


def test_a_block_calls_whatever_parts_it_is_given():
    norms = nn.RMSNorm(12), nn.Tanh()
    x, mask = n(2, 5, 12), yes(5, 5)
    block = Block(Doubles(), nn.ReLU(), *norms)
    wanted = x + 2 * norms[0](x)
    assert_close(block(x, mask, True, attend_to_all), wanted + norms[1](wanted).relu())
    assert block.attention.given == (mask, True, attend_to_all)
    block = PostNormBlock(Doubles(), nn.ReLU(), *norms)
    wanted = norms[0](3 * x)
    assert_close(block(x, mask, True, attend_to_all), norms[1](wanted + wanted.relu()))
    assert block.attention.given == (mask, True, attend_to_all)


def test_make_block_makes_parts_of_its_own_each_time():
    one, other = (make_block(12, 3, 20, dropout=0.3) for _ in range(2))
    kinds = [MultiHeadAttention, FeedForward, nn.LayerNorm, nn.LayerNorm, nn.Dropout]
    assert [type(part) for part in one.children()] == kinds
    assert one.dropout.p == one.ff.dropout.p == 0.3
    assert not torch.equal(one.ff.w_in.weight, other.ff.w_in.weight)
    stack = Stack([one, other], nn.Identity()).eval()
    assert_close(stack(n(2, 5, 12)), other(one(n(2, 5, 12))))


# ---- gradients by finite differences

VARIANTS = [  # norm first, norm, activation, cross: a spread of the 24 that there are
    (True, "layer", "gelu", False),
    (False, "layer", "relu", True),
    (True, "rms", "swiglu", True),
    (False, "rms", "gelu", False),
    (False, "layer", "swiglu", False),
]
if LONG:
    VARIANTS = list(product((True, False), MODEL["norm"], ACTIVATIONS, (False, True)))


def variant(norm_first, norm, activation, **more):
    return replace(CONFIG, norm_first=norm_first, norm=norm, activation=activation, **more)


@pytest.mark.parametrize(("norm_first", "norm", "activation", "cross"), VARIANTS)
def test_gradients_are_those_of_finite_differences(norm_first, norm, activation, cross):
    torch.manual_seed(0)
    config = variant(norm_first, norm, activation, d_model=4, n_heads=2, d_ff=2)
    block = (build_decoder_block if cross else build_block)(config).double()
    weights = dict(block.named_parameters())
    lengths = (2, 3) if cross else (2,)
    inputs = [torch.randn(1, T, 4, dtype=torch.float64, requires_grad=True) for T in lengths]

    def run(*values):
        given_weights = dict(zip(weights, values[len(inputs) :], strict=True))
        more = {} if cross else {"is_causal": True}  # a decoder's block is causal by itself
        return functional_call(block, given_weights, values[: len(inputs)], more)

    assert torch.autograd.gradcheck(run, (*inputs, *weights.values()))


# ---- compiled and exported

MIX = dict(norm_first=False, norm="rms", activation="swiglu", positions="alibi", n_kv_heads=1)
GRAPHS = {
    "pre-layer-gelu-relative": (dict(positions="relative"), False),
    "post-rms-swiglu-alibi-grouped-cross": (MIX, True),
}


@pytest.mark.parametrize(("changes", "cross"), GRAPHS.values(), ids=list(GRAPHS))
def test_one_graph_when_compiled(changes, cross):
    torch._dynamo.reset()
    torch.manual_seed(0)
    stack = (build_decoder if cross else build_stack)(replace(CONFIG, n_layers=1, **changes))
    more = dict(is_causal=True, positions=torch.arange(5))
    if cross:
        real = padding_mask(torch.tensor([[1] * 7, [1] * 4 + [0] * 3]))
        more = dict(memory=n(2, 7, 12), memory_mask=real, positions=torch.arange(5))
    compiled, results = torch.compile(stack, fullgraph=True, backend="aot_eager"), []
    for run in (stack, compiled):
        out = run(n(2, 5, 12), **more)
        results.append((out, torch.autograd.grad(out.square().sum(), list(stack.parameters()))))
    assert_close(*results, **NEAR)


def test_an_exported_stack_takes_other_lengths():
    torch.manual_seed(0)
    config = replace(CONFIG, n_layers=1, norm="rms", activation="swiglu", positions="rotary")
    stack = build_decoder(config).eval()
    B, T, S = (torch.export.Dim(name, min=2, max=9) for name in "BTS")
    axes = dict(x={0: B, 1: T}, memory={0: B, 1: S}, positions={0: T})
    example = dict(x=n(2, 5, 12), memory=n(2, 7, 12), positions=torch.arange(5))
    program = torch.export.export(stack, (), example, dynamic_shapes=axes).module()
    for b, t, s in ((2, 5, 7), (3, 8, 4), (4, 2, 9)):
        x, memory = n(b, t, 12), n(b, s, 12)
        given = dict(x=x, memory=memory, positions=torch.arange(t))
        assert_close(program(**given), stack(**given), **NEAR)


# ---- which token may attend to which


@pytest.mark.parametrize(
    ("norm_first", "positions"), [(True, "learned"), (False, "rotary"), (True, "relative")]
)
def test_a_decoder_attends_to_no_word_to_come_and_no_padding_of_the_source(norm_first, positions):
    torch.manual_seed(0)
    stack = build_decoder(replace(CONFIG, norm_first=norm_first, positions=positions))
    real = padding_mask(torch.tensor([[1, 1, 1], [1, 1, 0]]))
    run = lambda x, memory: stack(x, memory, real, positions=torch.arange(4))
    assert_no_leak(lambda x: run(x, n(2, 3, 12)), n(2, 4, 12), causal_mask(4), draws=4)
    assert_no_leak(lambda memory: run(n(2, 4, 12), memory), n(2, 3, 12), real, draws=4)


def test_a_list_gives_each_block_its_own_attend_and_projected_memory_its_own_keys():
    def keep(i, q, k, v, mask, is_causal):
        seen[i] = k
        return attention(q, k, v, mask, is_causal)

    seen = {}
    decoder, x, memory = build_decoder(CONFIG), n(2, 5, 12), n(2, 7, 12)
    wanted = decoder(x, memory)
    attend = [partial(keep, i) for i in range(CONFIG.n_layers)]
    assert torch.equal(decoder(x, memory, attend=attend), wanted)
    assert len({k.sum().item() for k in seen.values()}) == CONFIG.n_layers
    projected = decoder.project(memory)
    assert len({read.memory[0].sum().item() for read in projected}) == CONFIG.n_layers
    assert_close(decoder(x, projected), wanted)


@pytest.mark.parametrize(
    "positions", [name for name, kind in POSITIONS.items() if kind.where == "attention"]
)
def test_positions_are_put_around_what_each_block_calls(positions):
    torch.manual_seed(0)
    stack = build_stack(replace(CONFIG, positions=positions))
    for p in stack.rotary.parameters():
        nn.init.normal_(p)
    x, by_hand, at = n(2, 5, 12), n(2, 5, 12), torch.arange(5)
    for block in stack.blocks:
        attend = stack.rotary(attention, at)
        by_hand = block(by_hand, attend=attend, is_causal=True)
    by_hand = stack.norm(by_hand)
    assert torch.equal(stack(x, is_causal=True, positions=at), by_hand)
    same_for_all = [attention] * CONFIG.n_layers
    assert torch.equal(stack(x, attend=same_for_all, is_causal=True, positions=at), by_hand)
    assert not torch.allclose(by_hand, stack(x.flip(1), is_causal=True, positions=at).flip(1))


# ---- bad input: each guard once, and what is empty or broken

BLOCK, DECODER = build_block(CONFIG), build_decoder_block(CONFIG)
X, MEMORY = n(2, 5, 12), n(2, 7, 12)
ROTARY = build_stack(replace(CONFIG, positions="rotary"))


TABLE = {
    "Block": [
        *words(build_block(replace(CONFIG, norm_first=False))),
        *words(lambda memory: DECODER(X, memory), name="memory"),
        ("T = 0", lambda: BLOCK(n(2, 0, 12)), shape(2, 0, 12)),
        ("B = 0", lambda: BLOCK(n(0, 5, 12)), shape(0, 5, 12)),
        ("S = 0", lambda: DECODER(X, n(2, 0, 12)), shape(2, 5, 12)),
        ("NaN in one sentence", lambda: BLOCK(spoilt(X, 1, 2)), nan_only_at(1)),
        ("nothing allowed", lambda: BLOCK(X, mask=~yes(5, 5)), shape(2, 5, 12)),
        ("no memory", lambda: DECODER(X, MEMORY, ~yes(5, 7)), shape(2, 5, 12)),
        (
            "a function for a layer",
            lambda: Block(attention, nn.ReLU(), nn.Tanh(), nn.Tanh()),
            TypeError,
            "attention",
            "function",
        ),
        ("a bias for a mask", lambda: BLOCK(X, mask=n(5, 5)), shape(2, 5, 12)),
        (
            "a mask that does not fit",
            lambda: BLOCK(X, mask=yes(4, 5)),
            ValueError,
            "mask",
            "(4, 5)",
        ),
        ("memory for a block", lambda: BLOCK(X, memory=MEMORY), TypeError, "", "'memory'"),
        ("a decoder, and no memory", lambda: DECODER(X), TypeError, "", "'memory'"),
        ("nothing for a memory", lambda: DECODER(X, None), TypeError, "memory", "None"),
        ("another batch", lambda: DECODER(X, n(4, 7, 12)), ValueError, "memory", "(4, 7"),
        ("too few functions", lambda: ROTARY(X, attend=[attention]), ValueError, "attend", "1"),
        ("no positions", lambda: ROTARY(X), TypeError, "positions", "None"),
        (
            "positions of another text",
            lambda: ROTARY(X, positions=torch.arange(4)),
            ValueError,
            "positions",
            "(4,)",
        ),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)


# ---- random models, one training step each


class Model(nn.Module):
    "Embedding, stack, logits: as the lessons build it."

    def __init__(self, config, cross):
        super().__init__()
        self.embed = build_embedding(config)
        self.stack = (build_decoder if cross else build_stack)(config)
        self.logits = nn.Linear(config.d_model, config.vocab_size)

    def forward(self, tokens, source, mask, is_causal, memory_mask):
        at = torch.arange(tokens.shape[1])
        x = self.embed(tokens, at)
        if source is None:
            return self.logits(self.stack(x, mask=mask, is_causal=is_causal, positions=at))
        attend = attention if mask is None else masked_attention(mask)
        memory = self.embed(source, torch.arange(source.shape[1]))
        return self.logits(self.stack(x, memory, memory_mask, attend, at))


MASK_KINDS = ["none", "causal", "padding", "causal and padding", "nothing for some"]
SOME = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@settings(max_examples=CASES, derandomize=not LONG, **SOME)
@given(
    configs(),
    st.booleans(),
    st.sampled_from(MASK_KINDS),
    st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.integers(1, 3),
    st.integers(0, 2**40),
)
def test_a_training_step_of_random_models_is_finite(
    config, cross, kind, sizes, dtype, n_layers, seed
):
    torch.manual_seed(seed)
    (B, T, S), V = sizes, config.vocab_size + 1
    dropout = min(config.dropout, 0.5)
    config = replace(config, max_len=12, n_layers=n_layers, vocab_size=V, dropout=dropout)
    model = Model(config, cross).to(dtype)
    tokens, source = torch.randint(V, (B, T)), torch.randint(V, (B, S)) if cross else None
    mask = padding_mask(tokens) if "padding" in kind else None  # whole rows of padding as well
    if kind == "nothing for some":
        mask = (torch.rand(B, 1, T, T) > 0.3) & (torch.rand(B, 1, T, 1) > 0.3)
    memory_mask = padding_mask(source) if cross and kind != "none" else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(2):  # the second shows that the updated weights still work
        out = model(tokens, source, mask, "causal" in kind, memory_mask)
        assert out.shape == (B, T, V) and out.dtype == dtype
        loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        assert loss.isfinite()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in model.stack.parameters())
        optimizer.step()
        assert all(p.isfinite().all() for p in model.parameters())
