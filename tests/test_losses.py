"""The loss is its formula for any shape and type, and the loss of many batches is their mean."""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import every_row, refuses
from step_tools import EXACT, INF, NAN, by_definition, few, many, numbers, small, tokens
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close

from former_nb.data.text import IGNORE, PAD
from former_nb.training import losses
from former_nb.training.losses import evaluate, exact_match, token_loss, total_loss

# ---------------------------------------------------------------- the loss

shapes = st.sampled_from([(), (1,), (5,), (3, 4), (2, 3, 2)])
shares = st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.99])


@many
@given(shapes, shares, st.sampled_from([None, 0, 3, 6]), st.integers(0, 999))
def test_the_loss_is_its_formula(shape, label_smoothing, pad, seed):
    logits = numbers(*shape, 7, seed=seed).requires_grad_()
    targets = tokens(*shape, seed=seed, ignored=0.3)
    wanted = by_definition(logits, targets, label_smoothing, pad)
    total = token_loss(logits, targets, "sum", label_smoothing, pad)
    assert_close(total, wanted, **EXACT)
    count = max(1, int((targets != IGNORE).sum()))
    assert_close(token_loss(logits, targets, "mean", label_smoothing, pad), wanted / count, **EXACT)
    if wanted.requires_grad:
        slopes = [torch.autograd.grad(t, logits, retain_graph=True)[0] for t in (total, wanted)]
        assert_close(*slopes, **EXACT)


@many
@given(shapes, shares, st.integers(0, 999))
def test_without_a_pad_it_is_torchs_own(shape, label_smoothing, seed):
    logits, targets = numbers(*shape, 7, seed=seed).requires_grad_(), tokens(*shape, seed=seed)
    ours = token_loss(logits, targets, label_smoothing=label_smoothing, pad=None)
    how = dict(label_smoothing=label_smoothing)
    theirs = F.cross_entropy(logits.reshape(-1, 7), targets.flatten(), **how)
    assert_close(ours, theirs, **EXACT)
    assert_close(*(torch.autograd.grad(t, logits)[0] for t in (ours, theirs)), **EXACT)


@pytest.mark.parametrize(("pad", "reduction"), [(None, "mean"), (PAD, "sum"), (3, "mean")])
def test_gradcheck(pad, reduction):
    targets, z = tokens(2, 3, vocab=5, low=1, ignored=0.3), numbers(2, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: token_loss(z, targets, reduction, 0.1, pad), z)


def test_the_pad_gets_nothing_even_where_it_is_ruled_out():
    logits = numbers(3, 5)
    logits[:, PAD] = -INF
    logits.requires_grad_()
    loss = token_loss(logits, torch.tensor([1, 2, IGNORE]), label_smoothing=0.1)
    slope = torch.autograd.grad(loss, logits)[0]
    assert loss.isfinite() and slope.isfinite().all()
    assert slope[:, PAD].eq(0).all() and slope[2].eq(0).all()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3), (2, 0)])
def test_where_nothing_counts_loss_and_slope_are_zero(shape, reduction, label_smoothing):
    logits = numbers(*shape, 5).requires_grad_()
    loss = token_loss(logits, torch.full(shape, IGNORE), reduction, label_smoothing)
    assert loss == 0 and torch.autograd.grad(loss, logits)[0].eq(0).all()


def test_every_kind_of_integer_and_other_strides():
    logits, targets = numbers(7, 4, 3).permute(2, 1, 0), tokens(4, 3).T  # (3, 4, 7), (3, 4)
    wanted = token_loss(logits.contiguous(), targets.contiguous(), label_smoothing=0.1)
    for kind in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        found = token_loss(logits, targets.to(kind), label_smoothing=0.1)
        assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing, pad", [(0.0, 0), (0.1, 0), (0.1, 3), (0.1, None)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_few_rows_at_a_time_give_the_loss_and_gradient_of_all(
    reduction, label_smoothing, pad, dtype, monkeypatch
):
    "Also where the last part is shorter, and where one row is larger than a part."
    targets = tokens(3, 5, low=1, ignored=0.3)
    how = dict(reduction=reduction, label_smoothing=label_smoothing, pad=pad)
    results = []
    for at_once in (2**24, 4 * 7, 1):
        monkeypatch.setattr(losses, "AT_ONCE", at_once)
        logits = numbers(3, 5, 7, dtype=dtype).requires_grad_()
        loss = token_loss(logits, targets, **how)
        results.append((loss, torch.autograd.grad(loss, logits)[0]))
    (loss, gradient), *others = results
    for other_loss, other_gradient in others:
        assert_close(other_loss, loss)
        assert other_gradient.equal(gradient) and gradient.dtype == dtype


def most_memory(loss, n=1024, V=32_000):
    "What forward and backward hold at most, in tables of all logits."
    logits = torch.randn(n, V, requires_grad=True)
    targets = torch.randint(1, V, (n,))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss(logits * 1, targets).backward()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most / logits.nbytes


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_of_a_large_vocabulary_keeps_a_table_less_than_torchs(label_smoothing):
    theirs = most_memory(partial(F.cross_entropy, label_smoothing=label_smoothing))
    ours = most_memory(partial(token_loss, label_smoothing=label_smoothing))
    assert 2.9 < theirs < 3.1 and 1.9 < ours < 2.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_half_precision_is_measured_in_float32(dtype, label_smoothing):
    logits, targets = numbers(40_000, 7, dtype=dtype).requires_grad_(), tokens(40_000)
    total = token_loss(logits, targets, "sum", label_smoothing)
    assert total.dtype == torch.float32 and total > 70_000  # float16 ends at 65,504
    wanted = token_loss(logits.detach().float(), targets, "sum", label_smoothing)
    assert_close(total, wanted, rtol=0, atol=0)
    slope = torch.autograd.grad(token_loss(logits, targets, "sum", label_smoothing), logits)[0]
    assert slope.dtype == dtype and slope.isfinite().all()


def test_shapes_without_numbers():
    "What a step costs is counted on tensors that have none."
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        for smoothing in (0.0, 0.1):
            logits = torch.empty(3, 4, 7, requires_grad=True)
            loss = token_loss(logits, torch.empty(3, 4).long(), label_smoothing=smoothing)
            assert loss.shape == () and torch.autograd.grad(loss, logits)[0].shape == (3, 4, 7)


def test_large_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    assert token_loss(logits, torch.tensor([0])) == 0
    assert token_loss(logits, torch.tensor([1])) == 2e4


# ---------------------------------------------------------------- one number for many batches


@few
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=5),
    st.integers(0, 999),
)
def test_the_mean_does_not_depend_on_the_cut(sizes, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Dropout(0.5), nn.Linear(6, 7)).double()
    pair = lambda i, size: (tokens(*size, seed=i), tokens(*size, seed=i + 50, ignored=0.4))
    batches = [pair(i, size) for i, size in enumerate(sizes)]
    flat = [torch.cat([t.flatten() for t in side])[None] for side in zip(*batches)]
    count = int((flat[1] != IGNORE).sum())
    assume(count)
    total, counted = total_loss(model, iter(batches)).tolist()
    assert counted == count and model.training and model[1].training
    assert evaluate(model, batches) == total / count
    assert evaluate(model, [tuple(flat)]) == pytest.approx(total / count, rel=1e-12)


def test_the_modes_come_back_after_an_error():
    model = nn.Sequential(nn.Embedding(7, 7), nn.Dropout(0.5).eval())
    with pytest.raises(TypeError):
        evaluate(model, [None])
    assert model.training and not model[1].training


def test_half_precision_models_are_summed_in_float32():
    torch.manual_seed(0)
    model = nn.Embedding(7, 7).to(torch.bfloat16)
    batch = tokens(300, 50), tokens(300, 50, seed=1)
    wanted = evaluate(deepcopy(model).float(), [batch])
    assert evaluate(model, [batch]) == pytest.approx(wanted, rel=1e-6)


def test_rows_without_a_target_do_not_count():
    fixed = nn.Linear(1, 1)  # a parameter that says where to compute
    fixed.forward = lambda x: nn.functional.one_hot(x, 4).float()  # says what it hears
    said, empty = torch.tensor([[1, 2], [3, 1], [2, 2]]), torch.full((1, 2), IGNORE)
    targets = torch.tensor([[1, 2], [3, 3], [IGNORE, 2]])
    assert exact_match(fixed, [(said, targets), (said[:1], empty)]) == 2 / 3
    assert exact_match(fixed, [(said[:, 0], targets[:, 1])]) == 2 / 3


# ---------------------------------------------------------------- bad input

L, Y = numbers(2, 3, 5), torch.tensor([[1, 2, 4], [3, IGNORE, IGNORE]])

BAD = [
    ("logits of another shape", lambda: token_loss(L.mT, Y), ValueError, "targets"),
    ("one-hot targets", lambda: token_loss(L, torch.zeros(2, 3, 5)), TypeError, "targets"),
    ("targets of floats", lambda: token_loss(L, Y.double()), TypeError, "targets"),
    ("reduction", lambda: token_loss(L, Y, "none"), ValueError, "reduction"),
    ("smoothing", lambda: token_loss(L, Y, label_smoothing=1.0), ValueError, "label_smoothing"),
    ("pad of V", lambda: token_loss(L, Y, label_smoothing=0.1, pad=5), ValueError, "pad"),
    (
        "the pad alone",
        lambda: token_loss(L[..., :1], Y * 0, label_smoothing=0.1),
        ValueError,
        "pad",
    ),
    ("nothing counts", lambda: exact_match(small(), []), ValueError, "batches"),
    ("nothing to evaluate", lambda: evaluate(small(), []), ValueError, "batches"),
]
test_bad_input_is_named = every_row(BAD)


@pytest.mark.parametrize("bad", [5, -1, -99, 10**9])
def test_a_target_that_is_no_token_is_refused(bad):
    wrong = torch.where(Y == 2, bad, Y)
    refuses(lambda: token_loss(L, wrong), ValueError, "targets", str(bad))


def test_what_is_defined_at_the_edge():
    assert token_loss(L, Y, pad=99).isfinite() and token_loss(L * NAN, Y).isnan()
    assert token_loss(L[:0], Y[:0]) == 0 and total_loss(small(), []).tolist() == [0, 0]
