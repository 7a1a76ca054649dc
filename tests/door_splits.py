"""Data sets that come split: what comes, and the right answer. See `test_door`."""

from cli_tools import former  # noqa: F401
from door_tools import Refused

from former_nb.tasks.labels import Classify
from former_nb.tasks.long_text import Text


def _split(test, classes="", part="test"):
    "What a classifier of two labels learns from, given the rows of another file."

    def call(folder):
        for name, rows in {"train": ["good,1", "bad,0"] * 9, "other": test}.items():
            rows = [f"{i} {row}" if name == "train" else row for i, row in enumerate(rows)]
            (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        files = {part: str(folder / "other.csv")}
        task = Classify(csv=str(folder / "train.csv"), classes=classes, **files)
        parts, source = task.read_parts()
        return [label for _, label in parts[-1]], source.partition("csv, ")[2]

    return call


def _text(test):
    "What a model of characters learns from, given another text to be judged on."

    def call(folder):
        for name, text in {"a.txt": STORY, "b.txt": test}.items():
            (folder / name).write_text(text, encoding="utf-8")
        task = Text(file=str(folder / "a.txt"), test=str(folder / "b.txt"), length=16)
        return task.load_data().source.partition("held out: ")[2]

    return call


STORY = "the cat sat on the mat and the dog ran. " * 40


SPLITS = [  # a test file beside the one that is learned from
    (
        "a test file that was in no way learned from",
        _split(["new,1"]),
        (["1"], "those held out from other.csv"),
    ),
    (
        "a test file with a text that was learned from",
        _split(["new,1", "0 GOOD,1"]),
        (["1", "1"], "those held out from other.csv, 1 of them also in the training data"),
    ),
    (
        "a test file of one label",
        _split(["new,0", "other,0"]),
        (["0", "0"], "those held out from other.csv"),
    ),
    (
        "a test file with a label that nobody learned",
        _split(["new,1", "newer,2"]),
        Refused("test", ("'2' in row 2 of other.csv",)),
    ),
    (
        "a validation file with a label that nobody learned",
        _split(["new,yes"], part="valid"),
        Refused("valid", ("'yes' in row 1 of other.csv",)),
    ),
    (
        "a test file that has the labels by their names",
        _split(["new,up", "newer,0"], "0=down, 1=up"),
        (["up", "down"], "those held out from other.csv"),
    ),
    ("a name for one label of two", _split(["new,1"], "1=up"), Refused("classes", ("'1=up'",))),
    ("one name for two labels", _split(["new,1"], "0=a, 1=a"), Refused("classes", ("'0=a, 1=a'",))),
    (
        "a test text that is another one",
        _text("the dog sat on the cat."),
        "b.txt, 23 characters",
    ),
    (
        "a test text that was learned from",
        _text(STORY),
        "b.txt, 1,600 characters, its beginning also in the training data",
    ),
    (
        "a test text in another alphabet",
        _text("кот сидел на коврике"),
        Refused("test", ("85% are characters",)),
    ),
    ("a test text of three characters", _text("the"), Refused("test", ("3",))),
    ("names without labels", _split(["new,1"], "down, up"), Refused("classes", ("'down, up'",))),
]
