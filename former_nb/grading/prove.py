"""Every entry proves itself: applied, it is refused, and named by its own sentence.

    python -m former_nb.grading.prove 03 MultiHeadAttention flash flash.2

of lessons, definitions, pages or exercises, or of all.
"""

import sys
import time
from importlib import import_module

import torch

from . import known
from .ask import ASKED, EXERCISES, STEPS, step
from .content import FOLDER, definition, definitions, edited, find_exercise


def said_of(name, mistake):
    "What a step says of the right definition with a mistake in it; nothing if it is accepted."
    try:
        edited(step(name).definition, (mistake,))
    except Exception as error:  # noqa: BLE001, whatever it is, the entry has to be mended
        return f"does not fit: {error!r}"
    given = [known.mistake_seen(name, (mistake,), i) for i in range(len(known.calls(name)))]
    wrong = known.wrong_calls(name, given)
    return (known.named(name, given, wrong) or "not named") if wrong else ""


def faults_of(key, which=slice(None)):
    """Sentences about entries of a definition that don't prove themselves, and about its questions.

    `which` of its entries are tried.
    """
    steps = [one.name for one in (ASKED if key in EXERCISES else STEPS).values()]
    steps = [name for name in steps if step(name).definition == key]
    if not steps:
        yield f"{key}: nothing is asked"
    for name in steps:
        for call, seen in zip(known.calls(name), known.right_seen(name)):
            error = seen.error or next(
                (s for s in seen.slopes.values() if isinstance(s, Exception)), None
            )
            if error:
                yield f"{name}: {call.what}: the right one raises {error!r}"
    for mistake in definition(key).mistakes[which]:
        said = [said_of(name, mistake) for name in steps]
        if mistake.sentence not in said:
            others = " | ".join(one for one in said if one) or "accepted"
            yield f"{key}: {mistake.sentence!r}: {others}"


def load():
    "Import all pages."
    for path in sorted(FOLDER.glob("*.py")):
        import_module(f"{__package__.rpartition('.')[0]}.exercises.{path.stem}")


def chosen(words):
    "The definitions and exercises that the words of a command line mean."
    for key, one in definitions().items():
        asked = {one.lesson for one in STEPS.values() if one.definition == key}
        if not words or key in words or one.lesson in words or asked & set(words):
            yield key
    for number in EXERCISES:
        if not words or number in words or number.partition(".")[0] in words:
            yield find_exercise(number).number


def main(words):
    torch.set_num_threads(1)
    load()
    start, entries, faults = time.process_time(), 0, 0
    for key in chosen(words):
        entries += len(definition(key).mistakes)
        for fault in faults_of(key):
            faults += 1
            print(fault)
    print(f"{entries} entries, {faults} faults, {time.process_time() - start:.1f} s")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
