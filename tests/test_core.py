"""What every lesson shares: seeds, devices, memory, drawings."""

import platform
from base64 import b64decode

import numpy as np
import pytest
import torch
from process_tools import succeeds
from refusals import refuses

from former_nb.base.core import (
    eval_mode,
    pick_device,
    plot_weights,
    set_seed,
    use_altair,
)


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
        refuses(lambda: pick_device(name), ValueError, "device", name)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc takes the advice")
def test_memory_that_is_kept_is_not_cleared_again():
    "In a process of its own: what other tests have asked for changes what the C library does."
    code = """
import resource
import torch
from former_nb.base.core import keep_memory

def fresh_pages(n):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n):
        torch.zeros(16 * 2**20).add_(1)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = fresh_pages(5)
assert keep_memory()
fresh_pages(10)  # the first still come from the system
print(without, fresh_pages(20))
"""
    without, kept = map(int, succeeds(code).split())
    pages = 64 * 2**20 / 4096
    assert without > 5 * pages / 4 and kept < 20 * pages / 4


def test_eval_mode_restores_every_part_also_after_an_error():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Dropout(0.1).eval())
    with pytest.raises(RuntimeError), eval_mode(model):
        assert not any(part.training for part in model.modules())
        raise RuntimeError
    assert [part.training for part in model.modules()] == [True, True, False]


def test_weights_are_drawn_with_their_words_and_numbers():
    weights = torch.tensor([[0.7, 0.1, 0.2], [0.1, 0.8, 0.1]])
    refuses(lambda: plot_weights(weights, ["the", "cat"]), ValueError, "weights", "(2, 3)")
    ax = plot_weights(weights, ["the", "cat"], ["the", "cat", "sat"], title="made by hand")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["the", "cat"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["the", "cat", "sat"]
    assert [text.get_text() for text in ax.texts] == [
        "0.70",
        "0.10",
        "0.20",
        "0.10",
        "0.80",
        "0.10",
    ]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("made by hand", "key", "query")
    assert not plot_weights(weights, ["the", "cat"], ["a", "b", "c"], numbers=False).texts


def test_a_chart_carries_its_picture(monkeypatch):
    altair = pytest.importorskip("altair")
    monkeypatch.setattr(altair.renderers, "_active", altair.renderers._active)
    monkeypatch.setattr(altair.renderers, "_active_name", altair.renderers._active_name)
    pytest.importorskip("vl_convert")
    use_altair()
    chart = altair.Chart(altair.Data(values=[{"step": 0, "loss": 3.4}])).mark_point()
    bundle = chart.encode(x="step:Q", y="loss:Q")._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v5+json"]["mark"]["type"] == "point"
    assert b64decode(bundle["image/png"]).startswith(b"\x89PNG")


X = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
