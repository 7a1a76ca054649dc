"""Seeds, devices and drawings that every lesson shares.

The lessons are about attention. This module keeps what is not.
"""

import ctypes
import json
import os
import platform
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from .guards import check_choice

__all__ = [
    "set_seed",
    "in_test",
    "pick_device",
    "keep_memory",
    "eval_mode",
    "in_eval_mode",
    "tied_names",
    "COLORS",
    "plot_weights",
    "from_extra",
    "use_altair",
]


def set_seed(
    seed: int,  # 0 to 2**32 - 1
) -> None:
    "Seed Python's, NumPy's and torch's random numbers. Raises `ValueError` outside the range."
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: expected 0 to {2**32 - 1}, got {seed}")
    np.random.seed(seed)  # the strictest of them about types
    random.seed(seed)
    torch.manual_seed(seed)


def in_test() -> bool:  # True under nbdev's test runner
    """Whether the notebook is being tested, so that a cell which trains for minutes can train for a
    moment."""
    return bool(os.environ.get("IN_TEST"))


def pick_device(
    name: str | torch.device = "auto",  # 'auto', 'cpu', 'cuda' or 'mps'
) -> torch.device:  # a device that is there
    """The device called `name`. Raises `ValueError` for one that is not there.

    `'auto'` is CUDA where torch sees it, then Apple's `mps`, then the CPU; under test the CPU, so
    that every machine tests the same. The environment variable `FORMER_NB_DEVICE` overrules both.
    """
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if isinstance(name, torch.device):
        name = str(name)
    if name == "auto":
        name = os.environ.get("FORMER_NB_DEVICE") or ("cpu" if in_test() else available[0])
    check_choice("device", name, available)
    return torch.device(name)


def keep_memory() -> bool:  # whether the C library took the advice; only glibc's does
    """Let the process keep freed memory for its next large tensor, up to 1 GiB a piece.

    On Linux the C library hands each large tensor back to the system when it is freed, and the next
    one comes as thousands of fresh pages, which the system clears one by one. A process that keeps
    them stays as large as it once was. The command line asks for this, an import never does.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    advise = ctypes.CDLL(None).mallopt
    mapped = advise(-3, 2**30)  # M_MMAP_THRESHOLD
    trimmed = advise(-1, 2**30)  # M_TRIM_THRESHOLD
    return bool(mapped and trimmed)


@contextmanager
def eval_mode(
    model: torch.nn.Module,
) -> Iterator[torch.nn.Module]:  # the model, dropout off
    "Within `with`, the model is in eval mode; afterwards every part is as it was, also on error."
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        for part, training in before:
            part.training = training


def in_eval_mode(
    model: torch.nn.Module,
    function,  # the model, or a method of it
):  # a function
    "Wrap a function: each call runs in eval mode, and the model's mode is restored after it."
    parts = list(model.modules())

    def read(*args):
        if not any(part.training for part in parts):
            return function(*args)
        with eval_mode(model):
            return function(*args)

    return read


def tied_names(
    model: torch.nn.Module,
) -> dict[str, str]:  # name of a weight that another name has, too -> that other, earlier name
    "Which names of a model share one tensor."
    first: dict[int, str] = {}
    tied: dict[str, str] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if id(weight) in first:
            tied[name] = first[id(weight)]
        else:
            first[id(weight)] = name
    return tied


# Queries, keys and values keep one colour each through the course, from a palette that colour-blind
# readers can tell apart (Okabe and Ito, 2008).
COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73"}


def plot_weights(
    weights: torch.Tensor,  # (T, S), one row per query
    queries: list[str],  # T labels
    keys: list[str] | None = None,  # S labels; the queries' if left out
    title: str = "",
    ax=None,  # a matplotlib axis; a new figure if left out
    numbers: bool = True,  # print each weight in its cell
):  # the axis drawn on
    "Draw attention weights as a heat map, queries down, keys across; dark means much weight."
    import matplotlib.pyplot as plt

    if keys is None:
        keys = queries
    shape = tuple(weights.shape)
    if shape != (len(queries), len(keys)):
        raise ValueError(f"weights: expected shape ({len(queries)}, {len(keys)}), got {shape}")
    if ax is None:
        width = 1.2 + 0.55 * len(keys)
        height = 0.9 + 0.45 * len(queries)
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    w = weights.detach().float().cpu().numpy()
    darkest = max(1.0, float(w.max())) if numbers else None
    ax.imshow(w, cmap="Blues", vmin=0, vmax=darkest)
    ax.set_xticks(range(len(keys)), keys, rotation=90)
    ax.set_yticks(range(len(queries)), queries)
    ax.set_xlabel("key", color=COLORS["key"])
    ax.set_ylabel("query", color=COLORS["query"])
    ax.set_title(title, fontsize=10)
    if numbers:
        for i, j in np.ndindex(*w.shape):
            color = "white" if w[i, j] > 0.5 else "black"
            ax.text(j, i, f"{w[i, j]:.2f}", ha="center", va="center", fontsize=7, color=color)
    return ax


@contextmanager
def from_extra(
    extra: str,  # of this package, as in former_nb[bleu]
    needed: str,  # the package that it brings
):
    "Within `with`, the error of an import names the extra that brings what is missing."
    try:
        yield
    except ModuleNotFoundError as error:
        install = f'pip install "former_nb[{extra}]"'
        missing = f"{extra}: expected {needed}, which is not installed: {install}"
        raise ImportError(missing) from error


def use_altair() -> None:
    "Make Altair charts show live where that is possible, and as a picture elsewhere."
    import base64

    with from_extra("charts", "altair"):
        import altair as alt

    def both(spec, **_):
        bundle = {"application/vnd.vegalite.v5+json": spec, "text/plain": "<Altair chart>"}
        try:
            import vl_convert
        except ImportError:  # without the converter the live chart remains
            return bundle
        version = ".".join(alt.SCHEMA_VERSION[1:].split(".")[:2])
        png = vl_convert.vegalite_to_png(json.dumps(spec), vl_version=version, scale=2)
        return bundle | {"image/png": base64.b64encode(png).decode()}

    alt.renderers.register("former_nb", both)
    alt.renderers.enable("former_nb")
