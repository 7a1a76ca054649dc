"""`former-nb evaluate` and `bleu`: a model, or translations, measured once more."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..base.core import keep_memory
from ..base.files import read_text
from ..data.data_sets import SOURCES, fetch, split
from ..data.long_texts import text_windows
from ..data.toy_data import number_pairs
from ..decoding.translating import read_pairs, translate
from ..inspection.scores import compare_translations, score_translations
from ..models.classifier import Classifier
from ..models.encoder_decoder import EncoderDecoder
from ..models.language_model import LanguageModel
from ..tasks import TASKS, Data, Task, find_task, say_losses
from ..tasks.base import say_known
from ..tasks.labels import Classify
from ..tasks.long_text import Shakespeare, Text
from ..tasks.names import TITLE, Names, name_losses
from ..tasks.pairs import Pairs, Translate
from ..training.losses import evaluate
from .folders import RUN, read_note, read_report, restore
from .terminal import echo, find_texts, is_utf8, remark


def read_later(
    task: Task,
    given: dict[str, Any],  # options that name the files
    read_known: Callable[[], Data | None],  # what the model learned from, if that can be read
    model,
    tokenizer,
    labels: list[str] | None = None,
) -> Data:  # of which the last part is to be judged on
    "What other files hold. Raises `ValueError` for what the task doesn't read."
    rows, source = task.read_other(given, model, tokenizer, labels)
    known = read_known()
    parts = [*known.parts[:2], rows] if known else [[], [], rows]
    if known and task.row_key:
        source += say_known(parts, task.row_key)
    return Data(source, parts, (), (), tokenizer, model.config.max_len, labels)


def check_given(
    kind: str,  # of the model or its task, in words
    options: tuple[str, ...],  # that this kind takes
    given: dict[str, Any],
) -> None:
    "Raise `ValueError` for an option that names data of another kind."
    needed = [name for name in options if name not in ("text", "label")]
    expected = " and ".join(f"--{name}" for name in needed) or "no other data"
    got = " and ".join(f"--{name}" for name in given)
    odd = [name for name in given if name not in options]
    if given:
        odd += [name for name in needed if name not in given]
    if odd:
        raise ValueError(f"{odd[0]}: expected {expected} for {kind}, got {got}")


def evaluate_names(
    model,
    tokenizer,
    given: dict[str, Any],  # other names to judge on, or none
) -> None:
    "Losses of the model of names that ships, on names that it has not learned from."
    task = Names()
    check_given("a model of names", task.other_data, given)
    if given:
        data = read_later(task, given, task.load_data, model, tokenizer)
        echo(data.source)
    else:
        data = task.load_data()
        echo(f"{data.source}: {data.sizes}")
    say_losses(echo, TITLE, name_losses(model, tokenizer, data.parts))


def evaluate_numbers(
    model,
    tokenizer,
    given: dict[str, Any],  # other pairs to judge on, or none
) -> None:
    "How often the translator that ships is right, on numbers that it has not learned from."
    check_given("a translator", Pairs.other_data, given)
    pairs = number_pairs()["valid"] + number_pairs()["test"]
    what = "held-out numbers"
    if given:
        pairs = read_pairs(given["src"], given["tgt"])
        what = f"lines of {given['src'].name}"
    lines = translate(model, tokenizer, [german for german, _ in pairs], num_beams=1)
    right = sum(line.text == english for line, (_, english) in zip(lines, pairs))
    echo(f"Right from end to end, greedy: {right:,} of {len(pairs):,} {what}")


def read_plays() -> list[str]:  # to learn from, to choose by, held out
    "The parts of Shakespeare's plays. Raises `ValueError` where they cannot be had."
    try:
        text = read_text(fetch(SOURCES["tinyshakespeare"]))
    except OSError as error:
        expected = "tinyshakespeare, from a network or from the folder FORMER_NB_DATA"
        raise ValueError(f"data: expected {expected}: {error}") from None
    return split(text, (0.9, 0.05, 0.05), seed=None)


def play_loss(
    model,
    tokenizer,
    text: str,
) -> float:  # nats per character; each token has half a window before it, where there is so much
    "The loss of a model of plays."
    row = tokenizer.encode(text)
    windows = text_windows(row, model.config.max_len, 32, context=model.config.max_len // 2)
    return evaluate(model, windows) * len(row) / len(text)


def evaluate_shakespeare(
    model,
    tokenizer,
    given: dict[str, Any],  # another text to judge on, or none
) -> None:
    "Loss of the model of plays that ships, on speeches that it has not learned from."
    check_given("a model of plays", Shakespeare.other_data, given)
    if given:
        text = read_text(given["file"])
        task = Shakespeare(length=model.config.max_len)
        _, what = task.as_row(given["file"], text, tokenizer)  # refuses a text that is too short
    else:
        *_, text = read_plays()
        what = f"{len(text):,} held-out ones"
    echo(f"Nats per character, {what}: {play_loss(model, tokenizer, text):.3f}")


def evaluate_run(
    folder: Path,
    model,
    tokenizer,
    labels: list[str] | None,  # of a classifier
    file: Path | None,  # of a task that is none of ours
    given: dict[str, Any],  # options that name other data, or none
) -> None:
    "Repeat the report of a run, on what it held out or on other data."
    keep_memory()
    if given and not (folder / RUN).is_file():
        name, task = guess_task(model)
    else:
        name, _ = read_note(folder, "model")
        if file:
            task = restore(folder, "model", file.name, find_task(str(file)))
        elif name in TASKS:
            task = restore(folder, "model", name, TASKS[name])
        else:  # a folder may come from anywhere: it makes us run no file
            use = f"the file {name!r}, of which {str(folder)!r} holds a run"
            raise ValueError(f"task: expected {use}")
    check_given(f"a run of {name!r}", task.other_data, given)
    device = next(model.parameters()).device
    if given:
        known = partial(read_if_same, folder, task, tokenizer)
        data = read_later(task, given, known, model, tokenizer, labels)
        echo(f"{data.source}, on {device.type}")
    else:
        data = read_again(folder, task, tokenizer)
        echo(f"{data.source}: {data.sizes}, on {device.type}")
    task.report(model, data, folder, echo)


def guess_task(model) -> tuple[str, Task]:
    "The name and the settings of a task for a model that no run made. `ValueError` if none fits."
    if isinstance(model, Classifier):
        return "classify", Classify()
    if isinstance(model, EncoderDecoder):
        return "translate", Translate()
    if isinstance(model, LanguageModel):
        return "text", Text(length=model.config.max_len)
    kinds = "a classifier, a translator or a model that writes"
    raise ValueError(f"model: expected {kinds}, got a {type(model).__name__}")


def read_if_same(folder: Path, task: Task, tokenizer) -> Data | None:
    "The data of a run, or nothing and a note if they have changed."
    try:
        read_note(folder, "data")
        return read_again(folder, task, tokenizer)
    except (OSError, ValueError) as error:
        remark(f"Note: without the data of the training there is no rival: {error}")
        return None


def read_again(folder: Path, task: Task, tokenizer) -> Data:
    "The data of a run. Raises `ValueError` if they have changed since its end."
    data = task.load_data()
    known = read_report(folder)
    for name, found in {"data": data.source, "parts": data.sizes}.items():
        if known.get(name) not in (None, found):
            raise ValueError(f"data: expected {known[name]}, as in training, got {found}")
    if data.tokenizer.to_dict() != tokenizer.to_dict():
        raise ValueError("data: expected those of the training; these give another tokenizer")
    return data


def score(
    ref: Path,
    hyp: Path | None,  # standard input if left out
    than: Path | None,  # another system's
) -> None:
    "Print BLEU and chrF, and by how much one system is better than another."
    files = {"ref": ref, "hyp": hyp}
    if than:
        files["than"] = than
    texts = {name: list(find_texts(None, file)) for name, file in files.items()}
    check_lines(texts, ref)
    for metric, (value, signature) in score_translations(texts["hyp"], texts["ref"]).iterrows():
        echo(f"{value:.2f}\t{metric}\t{signature}")
    if than:
        test = compare_translations(texts["than"], texts["hyp"], texts["ref"])
        spread = f"95 of 100 samples from {test['low']:+.2f} to {test['high']:+.2f}"
        sign = f"other sign in {test['chance']:.1%}"
        echo(f"{test['difference']:+.2f}\tBLEU against {than}, {spread}; {sign}")


def check_lines(texts: dict[str, list[str]], ref: Path) -> None:
    "Raise `ValueError` unless all texts have the same number of lines, all UTF-8."
    n = len(texts["ref"])
    if not n:
        raise ValueError(f"ref: expected at least one line in {str(ref)!r}, got none")
    for name, lines in texts.items():
        if len(lines) != n:
            expected = f"as many lines as in {str(ref)!r}, {n:,}"
            raise ValueError(f"{name}: expected {expected}, got {len(lines):,}")
        for i, line in enumerate(lines, start=1):
            if not is_utf8(line):
                raise ValueError(f"{name}: line {i} is not UTF-8")
