"""What every lesson shares: seeds, devices, memory, settings; and how a judge names what is
wrong."""

import platform
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from former_nb.core import Settings, eval_mode, keep_memory, pick_device, set_seed
from former_nb.exercises import MistakeError, call_answer, check, diagnose, exercise


def test_a_seed_repeats_all_three_libraries():
    def draw():
        return torch.rand(2).tolist(), np.random.rand(2).tolist(), __import__("random").random()

    set_seed(3)
    first = draw()
    set_seed(3)
    assert draw() == first
    for seed, kind in ((-1, ValueError), (2**32, ValueError), (1.0, TypeError)):
        with pytest.raises(kind):
            set_seed(seed)


def test_under_test_the_device_is_the_cpu_or_what_the_environment_names(monkeypatch):
    monkeypatch.setenv("IN_TEST", "1")
    monkeypatch.delenv("FORMER_NB_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device() == torch.device("cpu")
    monkeypatch.setenv("FORMER_NB_DEVICE", "cuda")
    assert pick_device() == torch.device("cuda")
    assert pick_device("cpu") == torch.device("cpu")
    monkeypatch.delenv("IN_TEST")
    monkeypatch.delenv("FORMER_NB_DEVICE")
    assert pick_device() == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("cuda", "tpu"):
        with pytest.raises(ValueError, match=f"device: .*'{name}'"):
            pick_device(name)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc takes the advice")
def test_memory_that_is_kept_is_not_cleared_again():
    import resource

    def fresh_pages(n):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(n):
            torch.zeros(16 * 2**20).add_(1)  # 64 MiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert keep_memory()
    fresh_pages(10)  # the first still come from the system
    assert fresh_pages(20) < 20 * 64 * 2**20 / 4096 / 4


def test_eval_mode_restores_every_part_also_after_an_error():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Dropout(0.1).eval())
    with pytest.raises(RuntimeError), eval_mode(model):
        assert not any(part.training for part in model.modules())
        raise RuntimeError
    assert [part.training for part in model.modules()] == [True, True, False]


@dataclass(frozen=True)
class Cup(Settings):
    litres: float
    colour: str = "white"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"litres": 1, "weight": 2}', '{"colour": "red"}', "[" * 100_000, None]
)
def test_settings_that_are_none_are_refused(text):
    assert Cup.from_json(Cup(0.2, "blue").to_json()) == Cup(0.2, "blue")
    with pytest.raises(ValueError, match=r"text: expected"):
        Cup.from_json(text)


X = torch.tensor([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (X + 0.5, "plus 0.5"),
        (-X, "-1 times"),
        (X.flip(0), "another order"),
        (X * torch.tensor([1.0, 1.5]), "2 of 4 are right, the first wrong one is at [0, 1]"),
        (X * float("nan"), "NaN"),
        (X[0], "expected shape (2, 2), got (2,)"),
        (None, "returned nothing"),
        (..., "three dots"),
        ("two", "got str"),
    ],
)
def test_an_answer_that_no_judge_foresaw_is_still_described(answer, said):
    assert said in diagnose(answer, X)


def test_a_judge_names_the_line_and_what_was_changed_in_place(capsys):
    @exercise("99.1")
    def judge(answer):
        return diagnose(call_answer(answer, X), X.sum(1))

    def wrong_axis(x):
        x = x + 0
        return x.sum(7)  # this line

    def in_place(x):
        x *= 2
        return x.sum(1) / 2

    assert not check("99.1", wrong_axis)
    assert "`return x.sum(7)  # this line`" in capsys.readouterr().out
    assert not check("99.1", in_place)
    assert "in place" in capsys.readouterr().out
    with pytest.raises(MistakeError):
        call_answer(in_place, X)
    assert check("99.1", lambda x: x.sum(1)) and not check("99.1", 5)
