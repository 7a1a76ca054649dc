"""A task of your own in one file: write on like a text."""

import random
from dataclasses import dataclass
from pathlib import Path

from former_nb.data.long_text_data import long_text_data
from former_nb.data.long_texts import text_windows
from former_nb.decoding.caches import generate
from former_nb.inspection.ngrams import NGram
from former_nb.models.savable import LanguageModel
from former_nb.tasks import Data, Say, Task
from former_nb.training.losses import evaluate

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
SKIES = ["sun", "rain", "snow", "fog", "wind", "hail"]


def whole_text() -> str:
    "A diary of the weather. Read your own text here: Path('my.txt').read_text('utf-8')."
    rng = random.Random(0)
    lines = []
    for i in range(2000):
        morning, evening = rng.sample(SKIES, 2)
        lines.append(f"{DAYS[i % 7]}: {morning} in the morning, {evening} in the evening.\n")
    return "".join(lines)


@dataclass(frozen=True)
class Example(Task):
    "Write a diary of the weather."

    length: int = 64  # characters that are read at a time
    batch_size: int = 16  # pieces of the text per step
    steps: int | None = 600
    d_model: int = 32
    n_layers: int = 2
    dropout: float = 0.0
    positions: str = "rotary"  # so that it can write on for longer than it reads

    def load_data(self) -> Data:
        shares = (0.8, 0.1, 0.1)  # to learn from, to choose by, held out
        cut = long_text_data(whole_text(), self.length, self.batch_size, self.seed, shares)
        return Data("a diary", cut.rows, cut.train, cut.valid, cut.tokenizer, self.length)

    def make_model(self, data: Data) -> LanguageModel:
        return LanguageModel.from_config(self.model_config(data))

    def report(self, model: LanguageModel, data: Data, folder: Path, say: Say) -> dict[str, float]:
        train, _, test = [part.tolist() for part in data.parts]
        loss = evaluate(model, text_windows(test, self.length))
        rival = NGram([train], 5, data.tokenizer.vocab_size).nats([test])
        say(f"Nats per character: {loss:.3f}, and by counting five in a row {rival:.3f}")
        say(generate(model, "Monday: ", 160, tokenizer=data.tokenizer, window=self.length))
        say(f"Try: former-nb generate --model {folder} --window {self.length} 'Friday: '")
        return {"nats": loss}
