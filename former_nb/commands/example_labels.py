"""A task of your own in one file: is a text praise or blame?"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from former_nb.data.data_sets import split
from former_nb.data.tokenization import SubwordTokenizer
from former_nb.decoding.classification import label_batches, label_rows, predict
from former_nb.models.savable import Classifier
from former_nb.tasks import Data, Say, Task

LABELS = ["blame", "praise"]
LONGEST = 32  # tokens of a text that are read
THINGS = ["film", "book", "song", "play", "story"]
BEFORE = ["", "so ", "very ", "not ", "not so "]
GOOD = ["fine", "clever", "warm", "moving", "funny", "fresh", "great", "lovely"]
BAD = ["dull", "silly", "cold", "boring", "sad", "stale", "poor", "ugly"]


def all_rows() -> list[tuple[str, str]]:
    "Each text with its label, in which *not* turns a word round. Put your own rows here."
    rows = []
    for thing, before, word in product(THINGS, BEFORE, GOOD + BAD):
        praise = (word in GOOD) != ("not" in before)
        rows.append((f"The {thing} was {before}{word}.", LABELS[praise]))
    return rows


@dataclass(frozen=True)
class Example(Task):
    "Tell praise from blame."

    batch_size: int = 16  # texts per step
    epochs: int | None = 8
    d_model: int = 32
    n_layers: int = 1

    def load_data(self) -> Data:
        parts = split(all_rows(), (0.8, 0.1, 0.1), self.seed, stratify=lambda row: row[1])
        texts = [[text for text, _ in part] for part in parts]
        labels = [[label for _, label in part] for part in parts]
        tokenizer = SubwordTokenizer.train(texts[0], 400)
        rows = [label_rows(texts[i], labels[i], tokenizer, LABELS) for i in range(2)]
        train = label_batches(rows[0], self.batch_size, LONGEST, True, self.seed)
        valid = label_batches(rows[1], 500, LONGEST)
        return Data("made-up reviews", parts, train, valid, tokenizer, LONGEST, LABELS)

    def make_model(self, data: Data) -> Classifier:
        return Classifier.from_config(self.model_config(data), len(LABELS))

    def report(self, model: Classifier, data: Data, folder: Path, say: Say) -> dict[str, float]:
        texts = [text for text, _ in data.parts[2]]
        answers = predict(model, data.tokenizer, texts, LABELS)["label"]
        right = sum(answer == label for answer, (_, label) in zip(answers, data.parts[2]))
        say(f"Right: {right} of {len(texts)} texts that were held out")
        say(f"Try: former-nb classify --model {folder} {texts[0]!r}")
        return {"right": right / len(texts)}
