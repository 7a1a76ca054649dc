"""Every entry proves itself: applied, it is refused, and named by its own sentence.

    python -m former_nb.grading.prove 03 MultiHeadAttention

of lessons or definitions, or of all.
"""

import sys
import time

import torch

from . import known
from .ask import STEPS
from .content import definitions, edited, load_questions


def said_of(name, mistake):
    "What a step says of the right definition with a mistake in it; nothing if it is accepted."
    try:
        edited(STEPS[name].definition, (mistake,))
    except Exception as error:  # noqa: BLE001, whatever it is, the entry has to be mended
        return f"does not fit: {error!r}"
    given = [known.mistake_seen(name, (mistake,), i) for i in range(len(known.calls(name)))]
    wrong = known.wrong_calls(name, given)
    return (known.named(name, given, wrong) or "not named") if wrong else ""


def faults_of(key):
    "Sentences about entries of a definition that don't prove themselves, and about its questions."
    steps = [step.name for step in STEPS.values() if step.definition == key]
    for name in steps:
        for call, seen in zip(known.calls(name), known.right_seen(name)):
            error = seen.error or next(
                (s for s in seen.slopes.values() if isinstance(s, Exception)), None
            )
            if error:
                yield f"{name}: {call.what}: the right one raises {error!r}"
    for mistake in definitions()[key].mistakes:
        said = [said_of(name, mistake) for name in steps]
        if mistake.sentence not in said:
            others = " | ".join(one for one in said if one) or "accepted"
            yield f"{key}: {mistake.sentence!r}: {others}"


def chosen(words):
    "The definitions that the words of a command line mean."
    for key, one in definitions().items():
        asked = {step.lesson for step in STEPS.values() if step.definition == key}
        if not words or key in words or one.lesson in words or asked & set(words):
            yield key


def main(words):
    torch.set_num_threads(1)
    load_questions()
    start, entries, faults = time.process_time(), 0, 0
    for key in chosen(words):
        entries += len(definitions()[key].mistakes)
        for fault in faults_of(key):
            faults += 1
            print(fault)
    print(f"{entries} entries, {faults} faults, {time.process_time() - start:.1f} s")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
