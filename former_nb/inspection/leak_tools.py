"""What the leak meters share: edits, a model at rest, and a wrong table said in words.

A leak meter changes inputs and watches outputs. Here is what it does before and after that: read
the output of any model, put the model back as it was, choose what an input is replaced by, and say
what a table of dependences looks like.
"""

from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..base.core import eval_mode
from ..base.guards import check_int, check_tensor, check_that, check_type

__all__ = [
    "check_inputs",
    "outputs_of",
    "check_finite",
    "at_rest",
    "Edits",
    "say_wrong_pair",
    "say_joint_leak",
]


def check_inputs(
    inputs: torch.Tensor,  # (B, S, ...) floating point, or (B, S) token ids
) -> None:
    "Raise `TypeError` or `ValueError` unless a model could be measured at `inputs`."
    numbers = isinstance(inputs, torch.Tensor) and inputs.is_floating_point()
    check_tensor("inputs", inputs, None if numbers else "B S", None if numbers else int)
    full = inputs.ndim >= 2 and inputs.numel() > 0
    check_that(full, "inputs", "shape (B, S, ...), not empty", tuple(inputs.shape))
    check_that(inputs.isfinite().all(), "inputs", "finite numbers", "NaN or infinity")


def outputs_of(
    model,  # called with a copy of `inputs`
    inputs: torch.Tensor,  # (B, S, ...)
) -> torch.Tensor:  # (B, T, features)
    "What `model` returns, or the first of the tuple or mapping that it returns."
    out = model(inputs.clone())  # a model that works in place changes the copy
    while isinstance(out, (tuple, list, Mapping)) and out:
        out = next(iter(out.values() if isinstance(out, Mapping) else out))
    check_type("what model returns", out, torch.Tensor)
    fits = out.ndim >= 2 and out.shape[0] == inputs.shape[0] and out.numel() > 0
    expected = f"outputs of shape (B = {inputs.shape[0]}, T, ...)"
    check_that(fits, "model", expected, tuple(out.shape))
    return out.reshape(*out.shape[:2], -1)


def check_finite(
    out: torch.Tensor,  # (B, T, features)
) -> None:
    "Raise `ValueError` for outputs that cannot be compared."
    bad = (~out.isfinite()).any(dim=-1).nonzero().tolist()  # pairs (b, i)
    expected = "finite outputs, not NaN or infinity at (sample, position)"
    check_that(not bad, "model", expected, [tuple(pair) for pair in bad[:5]])


@contextmanager
def at_rest(
    model,  # a module, a `functools.partial` of one, or a function
    inputs: torch.Tensor,  # on the device where it runs
):
    "Within `with`, a module is in eval mode; afterwards random numbers go on as before."
    module = model.func if isinstance(model, partial) else model
    devices = [inputs.device] if inputs.is_cuda else []
    with torch.inference_mode(False), torch.random.fork_rng(devices):
        with eval_mode(module) if isinstance(module, nn.Module) else nullcontext():
            yield


class Edits:
    "What inputs are replaced by: numbers of three sizes, or token ids."

    def __init__(
        self,
        inputs: torch.Tensor,  # (B, S, ...) floating point, or (B, S) token ids
        vocab_size: int | None,  # ids to try, all below it; those in `inputs` if left out
    ):
        self.rng = torch.Generator("cpu").manual_seed(0)
        self.inputs = inputs
        self.ids = None
        if inputs.is_floating_point():
            self.spread = inputs.detach().float().std(correction=0).item() or 1.0
            far = torch.finfo(inputs.dtype).max > 1e9  # float16 could not hold the squares
            self.sizes = [1.0, 100.0, 1e4] if far else [1.0, 100.0]
            return
        self.sizes = [1.0]
        if vocab_size is None:
            self.ids = inputs.unique().cpu()
        else:
            check_int("vocab_size", vocab_size)
            self.ids = torch.arange(vocab_size, device="cpu")
        n = len(self.ids)
        check_that(n > 1, "vocab_size", "at least 2 different tokens to exchange", n)

    def others(
        self,
        now: torch.Tensor,  # an input, (...)
    ) -> list[tuple[torch.Tensor, float]]:
        "Pairs (value, size) to put in its place."
        if self.ids is not None:
            ids = self.ids[self.ids != now.cpu()]
            few = ids[torch.randperm(len(ids), generator=self.rng, device="cpu")[:32]]
            return [(value, 1.0) for value in few.to(now)]
        step = self.spread * torch.randn(now.shape, generator=self.rng, device="cpu").to(now)
        edits = [(torch.zeros_like(now), 1.0)]
        for size in self.sizes:
            edits.append((now + size * step, size))
            edits.append((now - size * step, size))
        return edits

    def redraw(
        self,
        size: float = 1.0,
    ) -> torch.Tensor:  # as `inputs`
        "Other inputs altogether, as large as these times `size`."
        shape = self.inputs.shape
        if self.ids is not None:
            places = torch.randint(len(self.ids), shape, generator=self.rng, device="cpu")
            return self.ids[places].to(self.inputs)
        noise = torch.randn(shape, generator=self.rng, device="cpu")
        return (size * self.spread * noise).to(self.inputs)


def _suspicion(found, may):
    """What a difference between (B, T, B, S) tables of what is and what may be looks like; may be
    empty."""
    B, T, _, S = found.shape
    within = found[range(B), :, range(B)]  # (B, T, S)
    if within.sum() < found.sum():
        axis = "is the time axis where the batch should be (batch_first)"
        return f"; samples mix: {axis}, or does a mean run over the batch?"
    found = within
    may = may[range(B), :, range(B)]  # (B, T, S)
    eye = torch.eye(T, S, dtype=torch.bool, device="cpu")
    leaks = found & ~may
    missing = may & ~found
    past_one = F.pad(may, (1, 0))[..., :S]
    inverted = torch.equal(found | eye, ~may | eye)
    transposed = T == S and torch.equal(found | eye, may.mT | eye)
    with_itself = torch.equal(found, may | eye)
    # the first that is so; the diagonal says little, a query carries a word to its output
    looks = {
        "no output depends on any input: does the model use it?": not found.any(),
        "every output depends on every input: is the mask passed on?": found.all(),
        "the mask may be inverted or transposed": inverted and transposed,
        "the mask may be inverted": inverted,
        "the mask may be transposed": transposed,
        "the diagonal may be excluded": not leaks.any() and not (missing & ~eye).any(),
        "each output depends on its own input: are the targets shifted?": with_itself,
        "each leak is one position past what is allowed: off by one?": leaks.any()
        and not (leaks & ~past_one).any(),
    }
    return next(("; " + words for words, so in looks.items() if so), "")


def say_wrong_pair(
    measured: dict[str, torch.Tensor],  # by meter, (B, T, B, S)
    found: torch.Tensor,  # (B, T, B, S), boolean, what depends
    may: torch.Tensor,  # (B, T, B, S), boolean, what may depend
    must_depend: bool,  # is a pair that may and does not also wrong?
) -> str | None:  # None if both tables agree
    "What is wrong, with the first wrong pair."
    leaks = (found & ~may).nonzero().tolist()
    missing = (may & ~found).nonzero().tolist() if must_depend else []
    wrong = leaks or missing
    if not wrong:
        return None
    b, i, c, j = wrong[0]
    moves = {name: table[b, i, c, j] for name, table in measured.items()}
    sizes = ", ".join(f"{name} {n:.2g}" for name, n in moves.items() if not n <= 0)
    pairs = "such pair" if len(wrong) == 1 else "such pairs"
    ending = f"{len(wrong)} {pairs}{_suspicion(found, may)}"
    start = f"output {i} of sample {b}"
    whose = f" of sample {c}" if b != c else ""
    if leaks:
        return f"{start} depends on input {j}{whose} ({sizes}), which `allowed` forbids; {ending}"
    faint = f" beyond what could be rounding ({sizes})" if sizes else ""
    return f"{start} does not depend on input {j}{faint}, which `allowed` allows; {ending}"


def say_joint_leak(
    leak: tuple,  # as `find_joint_leak` returns it
) -> str:
    "What several inputs do together, in words."
    b, i, needed, move = leak
    names = " and ".join(f"{j}" if c == b else f"{j} of sample {c}" for c, j in needed)
    if len(needed) > 1:
        inputs = f"inputs {names} together"
    else:
        inputs = f"input {names}, in a text other than the given one"
    return f"output {i} of sample {b} depends on {inputs} ({move:.2g}), which `allowed` forbids"
