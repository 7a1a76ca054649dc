"""`diagnose(model, batch, loss, optimizer)`: what is plainly wrong with anybody's Transformer."""

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..inspection.leak_tools import at_rest
from ..inspection.products import without_fast_path
from .case import Case
from .probes import PROBES, Finding, Seen, finite, registered
from .record import Record, first_line, line_of

__all__ = ["Finding", "Diagnosis", "diagnose"]

KINDS = {
    "causal": "says what comes next",
    "tokens": "says something of each token",
    "labels": "says something of each row",
}


@dataclass
class Diagnosis:
    "What the probes found. Printed, it is the report."

    findings: list[Finding] = field(default_factory=list)  # empty for a healthy model
    notes: list[str] = field(default_factory=list)  # what was seen or left out, without a verdict
    asked: str = ""  # the model and the batch, in words
    seconds: float = 0.0

    def __str__(self) -> str:
        n = len(self.findings)
        found = "nothing wrong found" if not n else f"{n} finding{'s' * (n > 1)}"
        lines = [f"{found}, in {self.seconds:.1f} s: {self.asked}"]
        for i, finding in enumerate(self.findings, start=1):
            lines += ["", f"{i}. {finding}"]
        if self.notes:
            lines += ["", *(f"Note: {note}." for note in self.notes)]
        return "\n".join(lines)

    def __bool__(self) -> bool:  # whether something was found
        return bool(self.findings)


def diagnose(
    model: nn.Module,  # a decoder, an encoder, or both; called as `model(inputs)`
    batch: Any,  # (inputs, targets), as for `fit`, or a mapping with 'labels'
    loss: Callable | None = None,  # (logits, targets) -> a number; None: cross-entropy, or its own
    optimizer: torch.optim.Optimizer | None = None,  # the one that it's trained with
) -> Diagnosis:
    """Ask a model what any Transformer owes, in seconds. It is left as it was: weights, gradients,
    random numbers, mode. Raises `TypeError` or `ValueError` for a batch that is none."""
    begin = time.perf_counter()
    case = Case.of(model, batch, loss, optimizer).small()
    found = Diagnosis(notes=case.notes)
    with at_rest(model, case.targets), without_fast_path(), buffers_kept(model):
        torch.manual_seed(0)
        ask(case, found)
    found.findings = without_followers(found.findings)
    found.seconds = time.perf_counter() - begin
    return found


@contextmanager
def buffers_kept(model):
    "Afterwards a model's buffers are as they were, also after an error."
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def ask(case, found):
    "Run the model, and let each probe add what it finds."
    try:
        seen = run(case)
    except Exception as error:  # of the model's own code
        found.findings.append(failed(error))
        return
    found.asked = in_words(case, seen)
    for probe in PROBES if seen.logits.isfinite().all() else (finite, registered):
        try:
            found.findings += probe(seen)
        except Exception as error:  # of the model, for what a probe gave it
            found.notes.append(f"`{probe.__name__}` couldn't be asked: {first_line(error)}")


def run(case):
    "Run the batch once, watched, in evaluation mode."
    with Record(case.model, keep=True) as record, torch.no_grad():
        logits = case.logits()
    case.classify(logits)
    finite_logits = logits[logits.isfinite()]
    scale = finite_logits.abs().max().item() if finite_logits.numel() else 1.0
    return Seen(case, logits, record, max(scale, 1e-6))


def failed(error):
    "A model that doesn't run at all."
    trace, line = error.__traceback__, ""
    while trace is not None:
        line = line_of(trace.tb_frame, trace.tb_lineno) or line
        trace = trace.tb_next
    said = first_line(error)
    return Finding("it doesn't run", said, line, "read the line, and print the shapes before it")


def in_words(case, seen):
    "What was asked."
    weights = sum(p.numel() for p in case.model.parameters())
    shape = " × ".join(map(str, case.ids.shape if case.ids is not None else case.targets.shape))
    name = type(case.model).__name__
    return f"{name}, {weights:,} parameters, {KINDS[case.kind]}; a batch of {shape}"


CHANCE = {"dropout in evaluation mode", "not the same twice"}
MIXED = CHANCE | {"rows of a batch mix"}
FOLLOWS = {  # what only follows where one of these was found
    "a row alone is another than in its batch": MIXED,
    "the first output changes with the length of the text": MIXED | {"the future leaks"},
    "the future leaks": MIXED | {"positions run along the batch"},
    "rows of a batch mix": CHANCE,
    "padding has an effect": MIXED,
}


def without_followers(findings):
    "Without what only follows from another finding."
    names = {finding.name for finding in findings}
    last = "not even one batch is learned"  # whatever is wrong may be the reason
    follows = FOLLOWS | {last: names - {last}}
    return [finding for finding in findings if not follows.get(finding.name, set()) & names]
