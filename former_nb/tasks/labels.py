"""Classify texts: film reviews, or two columns of a table, beside a linear rival."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from ..base.ranges import ONE_OR_MORE, SHARE, ZERO_OR_MORE, at_least, check_that
from .base import PART_WORDS, Data, FileName, Say, Task, progress, say_losses

JUDGED = 100  # texts; with fewer, an accuracy of .9 is known to six points or worse


@dataclass(frozen=True)
class Labels(Task):
    "A classifier of texts."

    max_tokens: int = 400  # tokens of a text that are read in training
    vocabulary: int = 16_000  # subwords
    pairs: int = 50_000  # vectors for pairs of neighbouring subwords
    features: int = 2_000_000  # rows for subwords and pairs in a linear part; 0 does without
    embed_dropout: float = 0.5  # probability that a feature of an embedding is dropped
    word_dropout: float = 0.5  # probability that a subword is left out
    batch_size: int = 64  # texts per step, all processes together
    d_model: int = 128
    n_layers: int = 1
    d_ff: int | None = 256
    dropout: float = 0.0
    epochs: int | None = 3
    lr: float = 1.5e-3
    label_smoothing: float = 0.1
    pad: int | None = None
    eval_every: int | None = 175

    rules = Task.rules | {
        "max_tokens": at_least(4),
        "vocabulary": at_least(260),  # a token for each byte, and the special ones
        "pairs": ZERO_OR_MORE,
        "features": ZERO_OR_MORE,
        "embed_dropout": SHARE,
        "word_dropout": SHARE,
        "batch_size": ONE_OR_MORE,
    }

    @abstractmethod
    def read_parts(self) -> tuple[list[list[tuple[str, str]]], str]:
        "Training, validation and test part as (text, label), and where they come from."

    def load_data(self) -> Data:
        from ..data.data_sets import compare_parts
        from ..data.tokenization import SubwordTokenizer
        from ..decoding.labels import label_batches, label_names, label_rows, oversample

        self.check_own()
        parts, source = self.read_parts()
        names = label_names([label for _, label in parts[0]])
        for words, part in zip(PART_WORDS[1:], parts[1:]):
            others = sorted({label for _, label in part} - set(names))
            known = f"no label that the rows to learn from haven't, {names}"
            check_that(not others, f"label: the rows {words}", known, others)
        compare_parts("text", [[text for text, _ in part] for part in parts], refuse=False)
        texts = [text for text, _ in parts[0]]
        tokenizer = SubwordTokenizer.train(texts, self.vocabulary, lowercase=True, strip_html=True)
        train = label_rows(*zip(*parts[0]), tokenizer, names)
        valid = label_rows(*zip(*parts[1]), tokenizer, names)
        return Data(
            source,
            parts,
            label_batches(
                oversample(train, self.seed),
                self.batch_size,
                self.max_tokens,
                shuffle=True,
                seed=self.seed,
                word_dropout=self.word_dropout,
            ),
            label_batches(valid, 256, self.max_tokens),
            tokenizer,
            max_len=self.max_tokens,
            labels=names,
            remark=f"; labels {', '.join(names):.200}",
        )

    def make_model(self, data: Data):
        from ..models.bigrams import BigramClassifier, WideClassifier

        sizes = [self.model_config(data), len(data.labels), self.embed_dropout, self.pairs]
        if not self.features:
            return BigramClassifier(*sizes)
        model = WideClassifier(*sizes, self.features)
        model.count_features(data.train.dataset)
        return model

    def report(self, model, data: Data, folder: Path, say: Say) -> dict:
        "Accuracy beside the commonest label and a linear model, and how good each label is."
        from ..decoding.labels import classification_report

        texts = [text for text, _ in data.parts[2]]
        right = [label for _, label in data.parts[2]]
        answers = predict_all(model, data, texts)
        correct = sum(answer == label for answer, label in zip(answers, right))
        commonest = max(right.count(label) for label in data.labels)
        accuracy = {
            "transformer": correct / len(right),
            "commonest label": commonest / len(right),
        }
        try:
            accuracy["NB-SVM, words and pairs"] = linear_accuracy(data)
        except ImportError:
            say("Without scikit-learn there is no linear rival: pip install scikit-learn")
        say_losses(say, f"Accuracy on {len(right):,} held-out texts, read once:", accuracy)
        table = classification_report(right, answers)
        say(table.round(3).to_string())
        note = few_texts(len(right))
        if note:
            say(f"Note: {note}")
        say(f"The model is in {folder}. Try: {try_classify(folder, texts[0])}")
        by_label = table.astype(object).where(table.notna(), None)  # JSON has no NaN
        return {"held_out_accuracy": accuracy, "by_label": by_label.to_dict("index")}


@dataclass(frozen=True)
class Imdb(Labels):
    "Classify film reviews."

    def read_parts(self):
        from ..data.data_sets import load_reviews, split

        reviews, source = load_reviews()
        words = ("negative", "positive")
        rows = [(text, words[label]) for text, label in reviews["train"]]
        test = [(text, words[label]) for text, label in reviews["test"]]
        # the file goes by film: a part in its order has films of its own
        train, valid = split(rows, seed=None, stratify=lambda row: row[1])
        return [train, valid, test], source


@dataclass(frozen=True)
class Classify(Labels):
    "Classify texts of your own."

    csv: FileName = ""  # your own table, UTF-8, with a heading
    text: str = "text"  # the column that holds the texts
    label: str = "label"  # the column that holds the labels
    vocabulary: int = 4000
    pairs: int = 0
    features: int = 0
    word_dropout: float = 0.3
    epochs: int | None = 10
    lr: float = 5e-3
    label_smoothing: float = 0.0
    eval_every: int | None = None

    def read_parts(self):
        from ..base.guards import check_that
        from ..data.data_sets import split
        from ..decoding.labels import label_names, read_labeled_csv

        check_that(bool(self.csv), "csv", "a file", self.csv)
        texts, labels = read_labeled_csv(self.csv, self.text, self.label)
        label_names(labels)
        empty = sum(not text.strip() for text in texts)
        source = f"{len(texts):,} texts from {Path(self.csv).name}"
        if empty:
            source += f", {empty:,} of them empty"
        parts = split(
            list(zip(texts, labels)),
            (0.8, 0.1, 0.1),
            self.seed,
            group=lambda row: row[0],
            stratify=lambda row: row[1],
        )
        return parts, source


def predict_all(model, data: Data, texts: list[str]) -> list[str]:
    "The label that the model gives to each text."
    from ..decoding.labels import predict

    answers = []
    for start in progress(range(0, len(texts), 500), "500 texts"):
        part = predict(model, data.tokenizer, texts[start : start + 500], data.labels)
        answers.extend(part["label"])
    return answers


def linear_accuracy(data: Data) -> float:
    "The accuracy of NB-SVM, which learns from all that was not held out."
    from ..models.baselines import nb_svm

    parts = []
    for part in data.parts:
        parts.append([(data.tokenizer.normalise(text), label) for text, label in part])
    return nb_svm(parts[0] + parts[1], parts[2])


def few_texts(n: float) -> str:
    "What to beware of in a classifier that was judged on `n` texts; empty for enough."
    if n >= JUDGED:
        return ""
    what = "how right or how sure it is cannot be known from so few"
    return f"this classifier was judged on {n} texts; {what}"


def try_classify(folder: Path, text: str) -> str:
    "A command that classifies the beginning of a text."
    beginning = " ".join(text.split()[:8])
    safe = "".join(c for c in beginning if c not in '"$`!\\')  # in a shell
    return f'former-nb classify --model {folder} "{safe}"'
