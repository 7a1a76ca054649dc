"""The ladder: what each lesson makes of one small job, in nats per character on held-out names.

A rung is a model at the end of a lesson. `rung` measures it, lets it write eight names, and keeps
both in `ladder.csv` beside your `mine.py`. `plot_ladder` and `former-nb ladder` draw the staircase
beside the course's own, three seeds of each rung, which `python tools/ladder.py` measures.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from ..base.checkpoints import write_file
from ..base.core import eval_mode, in_test
from ..base.guards import check_that
from ..base.source import mine_path
from ..data.text import collate
from .first_hour import WINDOW, contexts, cost, encode, names, valid_names, write

__all__ = [
    "Rung",
    "rows",
    "course_rungs",
    "your_rungs",
    "ladder_lines",
    "rung",
    "keep_rung",
    "plot_ladder",
]

COURSE = Path(__file__).with_name("course.csv")
HEAD = ["rung", "what", "nats", "spread", "seconds", "names"]


class Rung(NamedTuple):
    "What one model reached."

    key: str  # the lesson and, where it has several rungs, a letter: '03', '06b'
    what: str  # what is new
    nats: float  # per character, on the 618 validation names
    spread: float  # standard deviation over seeds; 0 for a single run
    seconds: float  # of training, on one core; 0 where it wasn't measured
    names: list[str]  # that it wrote


_made: dict[str, Rung] = {}  # in this process


def read_ladder(
    path: Path,  # a table as `keep_rung` writes it
) -> dict[str, Rung]:
    "The rungs of a table by their keys. `ValueError`, with the line, for one that isn't whole."
    found = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                found[row["rung"]] = Rung(
                    row["rung"],
                    row["what"],
                    float(row["nats"]),
                    float(row["spread"]),
                    float(row["seconds"]),
                    row["names"].split(", "),
                )
            except (KeyError, TypeError, ValueError, AttributeError):
                wanted = f"a table with the columns {', '.join(HEAD)}"
                said = f"{path.name}: expected {wanted}, got {list(row.values())!r:.80}"
                raise ValueError(f"{said}; delete the file and run the lessons again") from None
    return found


def write_ladder(
    rungs: dict[str, Rung],
    path: Path,
) -> None:
    "Write a table whole or not at all, in the order of the lessons."
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEAD)
    for key in sorted(rungs):
        one = rungs[key]
        numbers = f"{one.nats:.4f}", f"{one.spread:.4f}", f"{one.seconds:.1f}"
        table.writerow([key, one.what, *numbers, ", ".join(one.names)])
    write_file("ladder", path, text.getvalue())


def rows(
    part: list[str],  # names
) -> tuple[torch.Tensor, torch.Tensor]:  # (N, T), (N, T): whole names, and for each letter the next
    "Whole names, a letter at each place asked for the next one: a model's job from lesson 04 on."
    return collate([encode(name) for name in part])


def course_rungs() -> dict[str, Rung]:
    "The course's own rungs: the mean of three seeds, and what the first of them wrote."
    return read_ladder(COURSE) if COURSE.exists() else {}


def ladder_path() -> Path | None:
    "`ladder.csv` beside the reader's file; None where nothing of the reader's is used."
    file = mine_path()
    return None if in_test() or file is None else file.with_name("ladder.csv")


def your_rungs() -> dict[str, Rung]:
    "The rungs in your `ladder.csv`, and those that were made in this session."
    path = ladder_path()
    kept = read_ladder(path) if path is not None and path.exists() else {}
    return kept | _made


def keep_rung(
    key: str,
    what: str,
    nats: float,
    written: list[str],  # names
) -> None:
    "Keep a rung, and print it beside the one before."
    check_that(nats == nats, "nats", "a number", nats)
    written = [name or "(nothing)" for name in written]
    yours = your_rungs()
    before = [one for k, one in sorted((course_rungs() | yours).items()) if k < key]
    fell = f" ({before[-1].what}: {before[-1].nats:.3f})" if before else ""
    yours[key] = _made[key] = Rung(key, what, nats, 0.0, 0.0, written)
    print(f"{key}  {what}: {nats:.3f} nats per character{fell}")
    known = set(names)
    new = [name for name in written if name.lower() not in known]
    old = [name for name in written if name.lower() in known]
    print("    invents", ", ".join(new) or "nothing")
    if old:
        print("    from the list", ", ".join(old))
    path = ladder_path()
    if path is not None:
        write_ladder(yours, path)


@torch.no_grad()
def rung(
    key: str,  # '03', or '06b' where a lesson has several
    what: str,  # what is new, in a few words
    model: torch.nn.Module,  # tokens -> logits
    prepare: Callable = rows,  # names -> (inputs, targets): `rows`, or `contexts` until lesson 03
) -> None:
    "Measure a model on the validation names, let it write eight, keep both, and print them."
    with eval_mode(model):
        nats = cost(model, *prepare(valid_names)).item()
        window = WINDOW if prepare is contexts else 0
        keep_rung(key, what, nats, write(model, window))


def ladder_lines(
    until: str | None = None,  # the last lesson, such as '03'; None shows all
) -> list[str]:  # one for each rung
    "The ladder as a table: the rung, yours, the course's with its spread, and names."
    course = course_rungs()
    yours = your_rungs()
    shown = course | yours
    lines = [f"{'':5} {'nats per character on held-out names':42} yours  the course"]
    for key in shown_keys(shown, until):
        one = shown[key]
        left = f"{one.nats:.3f}" if key in yours else "    –"
        right = f"{course[key].nats:.3f} ±{course[key].spread:.3f}" if key in course else "–"
        lines.append(f"{key:5} {one.what:42} {left}  {right}  {', '.join(one.names[:3])}")
    if not yours:
        lines.append("There is no ladder.csv here yet. The page “The first hour” begins one.")
    return lines


def shown_keys(rungs, until):
    "The keys of rungs in their order, up to a lesson."
    keys = [key for key in sorted(rungs) if until is None or key[:2] <= until]
    check_that(bool(keys), "until", "a lesson that has a rung, such as '03'", until)
    return keys


def plot_ladder(
    until: str | None = None,  # the last lesson to draw, such as '03'; None draws all
    rungs: dict[str, Rung] | None = None,  # None: yours
):  # the axes
    "The staircase: the course's in grey, with its spread, and yours in blue."
    import matplotlib.pyplot as plt

    course = course_rungs()
    yours = your_rungs() if rungs is None else rungs
    shown = course | yours
    keys = shown_keys(shown, until)
    height = 0.27 * len(keys) + 1.1
    fig, ax = plt.subplots(figsize=(6.4, height), layout="constrained")
    for ladder, color, label in [(course, "0.6", "the course's"), (yours, "#0072B2", "yours")]:
        places = [i for i, key in enumerate(keys) if key in ladder]
        if not places:
            continue
        nats = [ladder[keys[i]].nats for i in places]
        spread = [ladder[keys[i]].spread for i in places]
        ax.step(nats, places, color=color, where="post", linewidth=1)
        ax.errorbar(nats, places, xerr=spread, color=color, fmt="o", markersize=4, label=label)
    for i, key in enumerate(keys):
        nats = shown[key].nats
        ax.annotate(f"{nats:.2f}", (nats, i), (7, 0), textcoords="offset points",
                    va="center", fontsize=8)  # fmt: skip
    ax.set_yticks(range(len(keys)), [f"{key}  {shown[key].what}" for key in keys])
    ax.set(ylim=(len(keys) - 0.5, -0.5), xlabel="nats per character on held-out names")
    ax.margins(x=0.12)
    ax.spines[["top", "right"]].set_visible(False)
    if course and any(key in yours for key in keys):
        ax.legend(frameon=False, loc="lower right", fontsize=8)
    return ax
