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
from former_nb.base import exercises
from former_nb.base.core import eval_mode
from former_nb.checks.exercises import check
from former_nb.data.subwords import merge
from former_nb.data.text import BOS, IGNORE, PAD
from former_nb.inspection.translation import count_runs
from former_nb.training.losses import token_loss

FILE = Path(__file__).with_suffix(".txt")
NAMES = dict(torch=torch, F=torch.nn.functional, math=math, np=np, Counter=Counter)
NAMES |= dict(attention=attention, causal_mask=causal_mask, padding_mask=padding_mask)
NAMES |= dict(BOS=BOS, IGNORE=IGNORE, PAD=PAD, cross_entropy=cross_entropy, pairwise=pairwise)
NAMES |= dict(merge=merge, count_runs=count_runs, token_loss=token_loss, eval_mode=eval_mode)


PLACES = [  # words of a sentence that names a line or a piece of it
    "makes it right",
    "one small change",
    "would be right",
    "with one more it is right",
    "in the wrong order",
    "look there",
    "a step of the right answer",
    "a part of the right result",
]


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
    """Whether an answer is right, whether its mistake is named, and what was said.

    Named are a sentence of the judge, a line where an edit makes it right or where the values leave
    those of the right answer, and the usual mistake behind an error. The numbers' difference, a
    shape or an error alone name nothing.
    """
    with contextlib.redirect_stdout(io.StringIO()) as out:
        right = check(answer.number, typed(answer.source))
    said = out.getvalue().partition("\nhint(")[0].strip()
    vague = [sentence for sentence in exercises.UNNAMED if sentence in said]
    usual = "; your code raised" in said
    place = any(words in said for words in PLACES)
    return right, right or not vague or usual or place, said
