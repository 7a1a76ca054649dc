"""Answers that readers might hand in, from `wrong_answers.txt`, and what `check` says of them."""

import contextlib
import io
import linecache
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from former_nb.attention.fused import attention
from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.base.core import eval_mode
from former_nb.data.subwords import merge
from former_nb.data.text import BOS, IGNORE, PAD
from former_nb.grading.check import verdict_on
from former_nb.grading.content import find_exercise
from former_nb.grading.limits import one_thread
from former_nb.inspection.translation import count_runs
from former_nb.training.losses import token_loss

FILE = Path(__file__).with_suffix(".txt")
NAMES = dict(torch=torch, F=torch.nn.functional, math=math, np=np, Counter=Counter)
NAMES |= dict(attention=attention, causal_mask=causal_mask, padding_mask=padding_mask)
NAMES |= dict(BOS=BOS, IGNORE=IGNORE, PAD=PAD, cross_entropy=cross_entropy, pairwise=pairwise)
NAMES |= dict(merge=merge, count_runs=count_runs, token_loss=token_loss, eval_mode=eval_mode)


class Answer(NamedTuple):
    number: str  # of the exercise
    kind: str  # 'right' or 'wrong'
    what: str  # what it does
    source: str
    place: int  # among the exercise's wrong or right ones, from 1
    section: int  # of the file, from 0: each begins anew with the first lessons

    def __str__(self):
        return f"{self.number} {self.kind}: {self.what}"


def answers():
    "All answers of the file."
    found, section = [], 0
    for part in FILE.read_text(encoding="utf-8").split("\n== ")[1:]:
        head, _, source = part.partition("\n")
        number, kind, what = head.split(" ", 2)
        kind = kind.rstrip(":")
        section += bool(found) and number < found[-1].number
        place = 1 + sum(a.number == number and a.kind == kind for a in found)
        source = source.strip() + "\n"
        found.append(Answer(number, kind, what, source, place, section))
    return found


def typed(source, name="<typed>"):
    "The function that a cell defines, as a notebook knows it."
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = NAMES | {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    return names["answer"]


def verdict(answer):
    "What is said of an answer, and how that is known: a `Verdict` of the grader."
    with contextlib.redirect_stdout(io.StringIO()), torch.device("cpu"), one_thread():
        return verdict_on(find_exercise(answer.number), typed(answer.source))
