"""Copy, reverse or sort letters: questions with their answers, such as cab=bac."""

from dataclasses import dataclass
from pathlib import Path

from ..base.ranges import ONE_OR_MORE, from_to
from .base import Data, Say, Task, in_shell, progress, text_data

VALID = 500  # questions to choose by
TEST = 1000  # questions held out


@dataclass(frozen=True)
class Copy(Task):
    "Repeat letters."

    symbols: int = 11  # different letters
    length: int = 10  # letters per question
    rows: int = 25_600  # questions to learn from
    batch_size: int = 64  # questions per step, all processes together
    d_model: int = 32
    n_heads: int = 2
    n_layers: int = 1
    dropout: float = 0.0
    epochs: int | None = 1
    lr: float = 1e-2
    muon_lr: float | None = 0.05
    eval_every: int | None = 100

    rules = Task.rules | {
        "symbols": from_to(1, 26),
        "length": from_to(1, 1000),
        "rows": from_to(1, 1_000_000),
        "batch_size": ONE_OR_MORE,
    }

    kind = "copy"  # as for `toy_texts`

    def load_data(self) -> Data:
        from ..data.tokenization import CharTokenizer
        from ..data.toy_data import SEPARATOR, toy_texts

        self.check_own()
        n = VALID + TEST + self.rows
        texts = toy_texts(self.kind, n, self.symbols, self.length, seed=self.seed)
        train = texts[VALID + TEST :]
        parts = [train, texts[:VALID], texts[VALID : VALID + TEST]]
        tokenizer = CharTokenizer.train([*train, SEPARATOR])
        source = f"{self.kind}, {self.length} letters of {self.symbols}"
        collate = answers_of(tokenizer)
        return text_data(source, parts, tokenizer, self.batch_size, self.seed, collate)

    def make_model(self, data: Data):
        from ..models.savable import LanguageModel

        return LanguageModel.from_config(self.model_config(data))

    def report(self, model, data: Data, folder: Path, say: Say) -> dict:
        "The share of held-out questions that are answered right from end to end."
        from ..data.batches import make_batches
        from ..data.tokenization import encode_texts
        from ..data.toy_data import SEPARATOR
        from ..training.losses import exact_match

        test = encode_texts(data.parts[2], data.tokenizer)
        batches = make_batches(test, 500, collate=answers_of(data.tokenizer))
        share = exact_match(model, progress(batches, "batch"))
        say(f"Right from end to end: {share:.1%} of {TEST:,} held-out questions")
        question = data.parts[2][0].split(SEPARATOR)[0] + SEPARATOR
        use = f"former-nb generate --model {in_shell(folder)} {question} --temperature 0 --n 1"
        say(f"The model is in {folder}. Try: {use}")
        return {"held_out_exact_match": share}


@dataclass(frozen=True)
class Reverse(Copy):
    "Reverse letters."

    kind = "reverse"


@dataclass(frozen=True)
class Sort(Copy):
    "Sort letters."

    rows: int = 64_000

    kind = "sort"


def answers_of(tokenizer):
    "What makes batches in which only the answers are judged."
    from ..data.toy_data import SEPARATOR, collate_answers

    return collate_answers(tokenizer.encode(SEPARATOR)[0])
