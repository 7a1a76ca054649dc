"""Muon: what PyTorch's does, in a precision that the device has units for."""

import copy
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from former_nb.training import muon
from former_nb.training.muon import Muon, fast_precision, newton_schulz
from former_nb.training.optimization import with_precision

SHAPES = [(6, 4), (4, 6), (5, 5), (6, 4), (1, 3)]


@pytest.fixture
def float32(monkeypatch):
    monkeypatch.setattr(muon, "cpu_has_bf16", lambda: False)


@pytest.fixture
def bf16(monkeypatch):
    monkeypatch.setattr(muon, "cpu_has_bf16", lambda: True)


def matrices(seed=0):
    torch.manual_seed(seed)
    return [nn.Parameter(torch.randn(shape)) for shape in SHAPES]


def with_gradients(weights, step):
    torch.manual_seed(100 + step)
    for i, p in enumerate(weights):
        p.grad = torch.randn(p.shape)
        if i == 2 and step == 1:
            p.grad = None  # a weight that a step did not use


def moved(kind, steps=4):
    weights = matrices()
    optimizer = kind(weights, lr=0.02)
    for step in range(steps):
        with_gradients(weights, step)
        optimizer.step()
    return [p.detach() for p in weights]


def test_it_moves_as_pytorchs_does(bf16):
    for theirs, ours in zip(moved(torch.optim.Muon), moved(Muon)):
        assert_close(ours, theirs, atol=2e-3, rtol=0)


def test_float32_differs_by_what_bf16_rounds(float32, monkeypatch):
    ours = moved(Muon)
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())  # PyTorch's, unrounded
    for theirs, mine in zip(moved(torch.optim.Muon), ours):
        assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


def test_singular_values_come_near_one_and_vectors_stay():
    torch.manual_seed(0)
    for shape in [(8, 5), (5, 8), (6, 6)]:
        x = torch.randn(3, *shape, dtype=torch.float64)
        y = newton_schulz(x, (3.4445, -4.7750, 2.0315), 5, 1e-7)
        u, _, v = torch.linalg.svd(x, full_matrices=False)
        sizes = (u.mT @ y @ v.mT).diagonal(dim1=1, dim2=2)
        assert 0.3 < sizes.min() and sizes.max() < 1.3
        assert_close(u @ torch.diag_embed(sizes) @ v, y)


def test_a_matrix_does_not_depend_on_those_beside_it(float32):
    torch.manual_seed(0)
    x = torch.randn(4, 6, 3)
    together = newton_schulz(x, (3.4445, -4.7750, 2.0315), 5, 1e-7)
    alone = [newton_schulz(each[None], (3.4445, -4.7750, 2.0315), 5, 1e-7)[0] for each in x]
    assert_close(together, torch.stack(alone), atol=1e-5, rtol=1e-5)


def test_memory_is_pytorchs_in_both_directions(float32):
    first, second = matrices(), matrices()
    theirs, ours = torch.optim.Muon(first, lr=0.02), Muon(second, lr=0.02)
    for optimizer, weights in ((theirs, first), (ours, second)):
        with_gradients(weights, 0)
        optimizer.step()
    assert theirs.state_dict().keys() == ours.state_dict().keys()
    for number, memory in theirs.state_dict()["state"].items():
        assert_close(memory, ours.state_dict()["state"][number])
    saved = copy.deepcopy(theirs.state_dict()), copy.deepcopy(ours.state_dict())
    ours.load_state_dict(saved[0])
    theirs.load_state_dict(saved[1])
    for optimizer, weights in ((theirs, first), (ours, second)):
        with_gradients(weights, 2)
        optimizer.step()
    for a, b in zip(first, second):
        assert_close(a, b, atol=2e-3, rtol=0)


def test_the_precision_is_one_that_the_device_has_units_for(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    for has_units, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(muon, "cpu_has_bf16", lambda: has_units)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_units)
        assert fast_precision(cpu) == fast_precision(cuda) == expected
    assert fast_precision(torch.device("mps")) == torch.float32


def test_auto_is_float32_on_a_gpu_that_imitates_bf16(monkeypatch):
    class Layer(nn.Module):  # says that its weights are on a GPU
        def parameters(self, recurse=True):
            yield SimpleNamespace(device=torch.device("cuda"))

    asked = []

    def autocast(*_, enabled):
        asked.append(enabled)
        return nullcontext()

    monkeypatch.setattr(torch, "autocast", autocast)
    imitates = lambda including_emulation=True: including_emulation
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", imitates)
    with_precision(lambda model, batch: 0.0, "auto")(Layer(), None)
    assert asked == [False]


def test_without_units_no_product_is_in_bf16(float32):
    seen = set()

    class See(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.update(a.dtype for a in args if isinstance(a, torch.Tensor))
            return function(*args, **kwargs or {})

    weights = matrices()
    optimizer = Muon(weights, lr=0.02)
    with_gradients(weights, 0)
    with See():
        optimizer.step()
    assert seen == {torch.float32}
