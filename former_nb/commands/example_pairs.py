"""A task of your own in one file: put the vowels back into a name."""

from dataclasses import dataclass
from pathlib import Path

from former_nb.data.batches import make_batches
from former_nb.data.data_sets import load_names, split
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding.translating import translate
from former_nb.inspection.translation import pair_rows
from former_nb.models.encoder_decoder import collate_pairs
from former_nb.models.savable import EncoderDecoder
from former_nb.tasks import Data, Say, Task

LONGEST = 24  # letters of a name, with its beginning and its end


def without_vowels(name: str) -> str:
    "What is left of a name: 'jonas' becomes 'jns'."
    return "".join(letter for letter in name if letter not in "aeiouyąęėįųū")


@dataclass(frozen=True)
class Example(Task):
    "Put the vowels back into a name."

    batch_size: int = 32  # names per step
    epochs: int | None = 6
    d_model: int = 48
    n_layers: int = 1
    dropout: float = 0.0

    def load_data(self) -> Data:
        names, source = load_names()
        pairs = [(without_vowels(name), name) for name in names]
        parts = split(pairs, (0.8, 0.1, 0.1), self.seed, group=lambda pair: pair[0])
        tokenizer = CharTokenizer.train([name for _, name in parts[0]])
        rows = [pair_rows(part, tokenizer, LONGEST) for part in parts]
        train = make_batches(rows[0], self.batch_size, True, self.seed, collate=collate_pairs)
        valid = make_batches(rows[1], 500, collate=collate_pairs)
        return Data(source, parts, train, valid, tokenizer, LONGEST)

    def make_model(self, data: Data) -> EncoderDecoder:
        return EncoderDecoder.from_config(self.model_config(data))

    def report(self, model: EncoderDecoder, data: Data, folder: Path, say: Say) -> dict[str, float]:
        questions = [question for question, _ in data.parts[2]]
        answers = translate(model, data.tokenizer, questions, num_beams=1)
        right = sum(answer.text == name for answer, (_, name) in zip(answers, data.parts[2]))
        say(f"Right: {right} of {len(answers)} names that were held out")
        say(f"Try: former-nb translate --model {folder} jns")
        return {"right": right / len(answers)}
