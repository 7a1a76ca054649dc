"""Attention by tiles: the answer and the gradients of the written-out form, in linear memory."""

import shutil
import sysconfig
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from process_tools import succeeds
from refusals import refuses
from thorough import some
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from former_nb.attention.flash import block_attention
from former_nb.attention.fused import attention, attention_weights
from former_nb.attention.mask_patterns import document_mask
from former_nb.attention.masks import causal_mask
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel


def qkv(T, S, batch=(2, 3), d_k=5, d_v=6, dtype=torch.float64, seed=0, grad=True):
    rng = torch.Generator().manual_seed(seed)
    shapes = [(*batch, T, d_k), (*batch, S, d_k), (*batch, S, d_v)]
    made = [torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype) for shape in shapes]
    return [t.requires_grad_(grad) for t in made]


def with_gradients(f, inputs):
    y = f(*inputs)
    return y, *torch.autograd.grad(
        y, inputs, torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(y)
    )


def written_out(q, k, v, is_causal=False):
    return attention_weights(q, k, is_causal=is_causal) @ v


LENGTHS = [0, 1, 2, 5, 9]


@pytest.mark.parametrize("is_causal", [False, True])
def test_outputs_and_gradients_are_those_of_attention_at_every_length(is_causal):
    for T, S in product(LENGTHS, LENGTHS):
        inputs = qkv(T, S)
        expected = with_gradients(lambda *t: written_out(*t, is_causal), inputs)
        for size in (1, 3, 4, 16):
            found = with_gradients(
                lambda *t, n=size: block_attention(*t, is_causal=is_causal, block_size=n), inputs
            )
            assert_close(found, expected, msg=lambda m: f"{T}, {S}, {size}: {m}")


def test_the_fused_kernel_agrees_where_no_block_divides_the_lengths():
    for T, S, batch in [(70, 101, (2,)), (33, 33, (2, 3)), (1, 50, (1, 2))]:
        inputs = qkv(T, S, batch, dtype=torch.float32)
        bias = causal_lower_right(T, S)
        ours = with_gradients(lambda *t: block_attention(*t, is_causal=True, block_size=16), inputs)
        fused = with_gradients(lambda *t: F.scaled_dot_product_attention(*t, bias), inputs)
        assert_close(ours, fused, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("T, S", [(5, 7), (7, 4)])
def test_the_backward_pass_is_the_derivative(T, S):
    for is_causal in (False, True):
        inputs = qkv(T, S, (2,), 3, 2)
        assert torch.autograd.gradcheck(
            lambda *t: block_attention(*t, is_causal=is_causal, block_size=3), inputs
        )


def test_a_query_with_nothing_to_attend_to_gives_zeros_and_has_no_gradient():
    inputs = qkv(9, 4)
    y, dq, dk, dv = with_gradients(
        lambda *t: block_attention(*t, is_causal=True, block_size=3), inputs
    )
    assert (y[..., :5, :] == 0).all() and (dq[..., :5, :] == 0).all()
    assert all(t.isfinite().all() for t in (y, dq, dk, dv)) and (y[..., 5:, :] != 0).all()


def test_large_scores_do_not_overflow():
    q, k, v = qkv(40, 50, grad=False)
    for shift in (-1e5, 0, 1e5):  # all scores of a row far below zero or above
        far = 300 * q, k + shift * q.mean(dim=-2, keepdim=True), v
        assert (far[0] @ far[1].mT).abs().max() > 2000  # the exponential overflows from 710 on
        assert_close(block_attention(*far, block_size=7), written_out(*far))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32_and_returned_as_it_came(dtype):
    inputs = qkv(70, 70, dtype=dtype)
    found = with_gradients(lambda *t: block_attention(*t, is_causal=True, block_size=16), inputs)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    expected = with_gradients(lambda *t: written_out(*t, True), exact)
    for ours, theirs in zip(found, expected):
        assert ours.dtype == dtype
        assert_close(ours, theirs.to(dtype), atol=0.05, rtol=0.02)


def test_inputs_may_be_views_and_only_some_may_need_a_gradient():
    q, k, v = qkv(9, 9, grad=False)
    k = k[:, :1].expand(2, 3, 9, 5)  # heads that share their keys
    v = v.mT.contiguous().mT.requires_grad_()
    y = block_attention(q, k, v, is_causal=True, block_size=4)
    assert_close(y, written_out(q, k, v, True))
    (dv,) = torch.autograd.grad(y.sum(), v, retain_graph=True)
    assert_close(dv, torch.autograd.grad(written_out(q, k, v, True).sum(), v)[0])
    y.sum().backward()
    assert q.grad is None and v.grad is not None


def test_a_gradient_of_the_gradient_is_refused():
    inputs = qkv(5, 5)
    y = block_attention(*inputs, is_causal=True, block_size=2)
    (dq,) = torch.autograd.grad(y.square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


@pytest.mark.parametrize(
    "name, wrong, kind",
    [
        ("q", torch.ones(3, 4, dtype=torch.long), TypeError),
        ("k", torch.ones(2, 3, 5, 9), ValueError),
        ("v", torch.ones(2, 3, 7, 6), ValueError),
        ("block_size", 0, ValueError),
        ("block_size", 2.5, TypeError),
        ("mask", causal_mask(5), ValueError),  # what tiles cannot do
    ],
)
def test_bad_input_gets_one_sentence(name, wrong, kind):
    given = dict(zip("qkv", qkv(4, 5, dtype=torch.float32))) | {name: wrong}
    refuses(lambda: block_attention(**given), kind, name)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_model_attends_by_tiles_and_computes_what_it_did(positions):
    torch.manual_seed(0)
    sizes = dict(d_model=24, n_heads=4, n_kv_heads=2, n_layers=2, d_ff=16, dropout=0.0)
    model = LanguageModel.from_config(TransformerConfig(11, 50, positions=positions, **sizes))
    tokens = torch.randint(11, (3, 50))
    tiles = partial(block_attention, block_size=16)
    weights = list(model.parameters())
    found, expected = (
        with_gradients(lambda *_, a=a: model(tokens, attend=a), weights) for a in (tiles, attention)
    )
    assert_close(found, expected, atol=2e-5, rtol=1e-4)


# ---------------------------------------------------------------- memory and work


def test_what_is_kept_for_the_backward_pass_is_five_tensors():
    inputs, kept = qkv(50, 60, (2, 3)), []
    note = lambda t: kept.append(tuple(t.shape)) or t
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        block_attention(*inputs, is_causal=True, block_size=16)
    assert kept == [*[tuple(t.shape) for t in inputs], (2, 3, 50, 6), (2, 3, 50, 1)]


def test_tiles_above_the_diagonal_are_not_computed():
    inputs = qkv(64, 64, (1, 2), 32, 32, grad=False)
    flops = []
    for is_causal in (False, True):
        with FlopCounterMode(display=False) as counter:
            block_attention(*inputs, is_causal=is_causal, block_size=8)
        flops.append(counter.get_total_flops())
    assert abs(flops[1] / flops[0] - 36 / 64) < 0.02


PEAK = """
import re, sys, torch
from pathlib import Path
from former_nb.attention.fused import attention
from former_nb.models.config import TransformerConfig
from former_nb.attention.flash import block_attention
from former_nb.models.savable import LanguageModel

def most():
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def core(T):
    q, k, v = (torch.randn(1, 1, T, 64, requires_grad=True) for _ in range(3))
    f = block_attention if sys.argv[1] == "blocks" else attention
    return f(q, k, v, is_causal=True).square().sum()

def layer(T):
    sizes = {"d_model": 64, "n_heads": 1, "n_layers": 1, "d_ff": 128}
    config = TransformerConfig(65, T, **sizes)  # its dropout is not of weights: no table
    tokens = torch.randint(4, 65, (1, T))
    logits = LanguageModel.from_config(config)(tokens)
    return torch.nn.functional.cross_entropy(logits[0], tokens[0])

step = layer if sys.argv[1] == "layer" else core
step(64).backward()  # whatever is loaded on first use
before = most()
step(16_384).backward()
print(most() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak")
@pytest.mark.parametrize("which", some(["blocks", "layer", "fused"], 2))
def test_attention_over_16384_tokens_trains_without_a_table(which):
    assert int(succeeds(PEAK, which)) < 16_384**2 * 4 / 4  # one table of float32 takes 1 GiB


# ---------------------------------------------------------------- rules in place of masks

HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
COMPILER = HEADERS and (shutil.which("c++") or shutil.which("g++"))


@pytest.mark.skipif(not COMPILER, reason="compiling a rule needs a C++ compiler")
def test_a_compiled_rule_keeps_packed_documents_apart():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    documents = torch.arange(300)[None] // torch.tensor(70)  # lengths that no tile divides

    def own_past(b, h, i, j):
        return (documents[b, i] == documents[b, j]) & (j <= i)

    tiles = flex.create_block_mask(own_past, 1, None, 300, 300, device="cpu")
    q, k, v = qkv(300, 300, (1, 2), 16, 16, dtype=torch.float32, grad=False)
    y = torch.compile(flex.flex_attention)(q, k, v, block_mask=tiles)
    mask = document_mask(documents) & causal_mask(300)
    assert_close(y, attention(q, k, v, mask), atol=1e-5, rtol=1e-4)
    for start in range(0, 300, 70):
        own = slice(start, start + 70)
        alone = block_attention(*(t[..., own, :] for t in (q, k, v)), is_causal=True)
        assert_close(y[..., own, :], alone, atol=1e-5, rtol=1e-4)
