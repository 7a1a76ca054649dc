"""Functions that take turns, limits, bytes that are counted."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import former_nb.training.speed as speed
from former_nb.attention.fused import attention
from former_nb.base.flops import Traffic
from former_nb.training.speed import Limits, interleave, measure_limits

CPU = torch.device("cpu")


def test_functions_take_turns_and_each_begins_a_round(monkeypatch):
    order = []

    def once(run, device, calls=1):
        run()
        return 1.0

    monkeypatch.setattr(speed, "seconds", once)
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    found = interleave(runs, CPU, budget=0, rounds=3)
    assert found == {name: [1.0] * 3 for name in "abc"}
    assert order[-9:] == [*"abc", *"bca", *"cab"]


def test_the_larger_of_two_times_is_the_least():
    limits = Limits(flops=100.0, bandwidth=20.0)
    assert limits.ridge == 5.0
    assert limits.least_seconds(200, 20) == 2.0  # 10 operations per byte: arithmetic
    assert limits.least_seconds(20, 20) == 1.0  # 1 operation per byte: memory
    assert limits.least_seconds(100, 20) == limits.least_seconds(100, 0) == 1.0  # the ridge


def test_limits_are_operations_and_bytes_by_the_clock(monkeypatch):
    monkeypatch.setattr(speed, "seconds", lambda run, device: run() is None or 0.5)
    found = measure_limits(CPU)
    assert found == Limits(2 * 512**3 / 0.5, 2 * 4 * 2**26 / 0.5)


@pytest.mark.parametrize(
    "run, floats",
    {
        "product": (lambda a, b: a @ b, 6 * 7 + 7 * 5 + 6 * 5),
        "sum of two": (lambda a, b: a + a, 3 * 42),
        "in place": (lambda a, b: a.mul_(2), 2 * 42),
        "copy": (lambda a, b: a.clone(), 2 * 42),
        "an expanded axis": (lambda a, b: a + a[:1].expand(6, 7), 42 + 7 + 42),
        "views": (lambda a, b: a.T[1:].unsqueeze(0).expand(3, -1, -1), 0),
    }.values(),
)
def test_traffic_is_what_goes_in_and_comes_out(run, floats):
    a, b = torch.randn(6, 7), torch.randn(7, 5)
    with Traffic() as traffic:
        run(a, b)
    assert traffic.n_bytes == 4 * floats


def test_written_out_attention_moves_24_bytes_per_score_and_a_fused_kernel_none():
    h, T, d = 3, 512, 64
    q, k, v = (torch.randn(1, h, T, d) for _ in "qkv")
    with torch.no_grad(), FlopCounterMode(display=False) as flops, Traffic() as traffic:
        ((q @ k.mT) / d**0.5).softmax(-1) @ v
    assert flops.get_total_flops() == 4 * h * T * T * d
    assert traffic.n_bytes == h * (24 * T * T + 16 * T * d)
    with torch.no_grad(), Traffic() as traffic:
        attention(q, k, v)
    assert 16 * h * T * d <= traffic.n_bytes <= 16 * h * T * d + 8 * h * T  # and a sum per row
