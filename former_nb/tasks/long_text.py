"""Write like one long text: Shakespeare's plays, or a file."""

from dataclasses import dataclass
from pathlib import Path

from ..base.ranges import ONE_OR_MORE
from .base import Data, FileName, Say, Task, in_shell, progress, say_losses

COUNTED = 2_000_000  # characters that the counting models read, and are judged on
VALID = 250_000  # characters to choose by, at most
JUDGED = 5_000_000  # characters that the model is judged on, at most


@dataclass(frozen=True)
class Shakespeare(Task):
    "Write like Shakespeare."

    length: int = 128  # characters per window
    batch_size: int = 16  # windows per step, all processes together
    d_model: int = 128
    n_layers: int = 4
    dropout: float = 0.0
    positions: str = "rotary"
    n_kv_heads: int | None = 2
    activation: str = "swiglu"
    norm: str = "rms"
    minutes: float | None = 5.0
    eval_every: int | None = 500

    rules = Task.rules | {"length": ONE_OR_MORE, "batch_size": ONE_OR_MORE}
    other_data = ("file",)

    name = "shakespeare"  # as for `load_long_text`

    def load_text(self) -> tuple[str, str, tuple[float, ...]]:
        "The text, where it comes from, and the shares of its parts."
        from ..data.long_text_data import load_long_text

        return load_long_text(self.name)

    def load_data(self) -> Data:
        from ..base.guards import check_that
        from ..data.long_text_data import long_text_data

        text, source, shares = self.load_text()
        longest = min(int(min(shares) * len(text)), VALID)
        self.check_own()
        check_that(longest > 0, "file", "more text, for parts of it", f"{len(text):,} characters")
        fits = self.length <= longest
        check_that(fits, "length", f"at most {longest:,}, as the parts allow", self.length)
        data = long_text_data(text, self.length, self.batch_size, self.seed, shares)
        return Data(
            source,
            data.rows,
            data.train,
            data.valid,
            data.tokenizer,
            max_len=self.length,
            remark=f", in windows of {self.length}",
        )

    def make_model(self, data: Data):
        from ..models.savable import LanguageModel

        return LanguageModel.from_config(self.model_config(data))

    def report(self, model, data: Data, folder: Path, say: Say) -> dict:
        "Losses beside models that count, and a sample."
        from ..data.long_texts import bits_per_character
        from ..decoding.caches import write_texts
        from ..decoding.sampling import Sampling

        part = "test part"
        if len(data.parts) < 3:
            part = "validation part, which also chose the weights: there is no other"
        if len(data.parts[-1]) > JUDGED:
            part = f"first {JUDGED:,} characters of the {part}"
        losses = long_losses(model, data, self.length)
        title = f"Nats per character, {part}; the model reads at most {self.length} before it:"
        say_losses(say, title, losses)
        say(f"In bits per character: {bits_per_character(losses['transformer']):.3f}")
        sampling = Sampling(temperature=0.8, seed=self.seed)
        window = self.length if model.embed.position_embedding is None else None
        how = dict(tokenizer=data.tokenizer, window=window)
        text, _ = write_texts(model, "", 400, sampling, **how)  # a sample may end anywhere
        say(f"\n{text.strip()}\n")
        use = f"former-nb generate --model {in_shell(folder)} --n 1 --stream"
        say(f"The model is in {folder}. Try: {use}")
        return {"held_out_nats_per_character": losses, "judged_on": part, "sample": text}

    def read_other(self, given, model, tokenizer, labels):
        "A file of text, as one row of tokens."
        from ..base.files import read_text

        return self.as_row(given["file"], read_text(given["file"]), tokenizer)

    def as_row(self, file: str | Path, text: str, tokenizer, name: str = "file"):
        "Tokens of a text, and where it comes from. Raises `ValueError` for less than a window."
        import torch

        from ..base.guards import check_that
        from ..data.text import UNK

        row = torch.tensor(tokenizer.encode(text))
        expected = f"at least {self.length} tokens, a window, in {Path(file).name}"
        check_that(len(row) >= self.length, name, expected, len(row))
        unknown = int((row == UNK).sum())
        source = f"{Path(file).name}, {len(text):,} characters"
        return row, source + (f", {unknown:,} of them unknown" if unknown else "")


@dataclass(frozen=True)
class Text(Shakespeare):
    "Write like a text of your own."

    file: FileName = ""  # your own text, UTF-8
    test: FileName = ""  # text that is held out; the end of the file if left out

    def load_text(self):
        from ..base.guards import check_that
        from ..data.long_text_data import load_long_text

        check_that(bool(self.file), "file", "a file", self.file)
        text, source, shares = load_long_text(self.file)
        return text, source, (0.95, 0.05) if self.test else shares

    def load_data(self) -> Data:
        from dataclasses import replace

        from ..base.files import read_text
        from ..data.data_sets import compare_parts

        data = super().load_data()
        if not self.test:
            return data
        text = read_text(self.test)
        row, source = self.as_row(self.test, text, data.tokenizer, "test")
        held_out = data.tokenizer.normalise(text)
        compare_parts("test", [[data.tokenizer.alphabet], [], [held_out]], refuse=True)
        learned = data.parts[0][:COUNTED].numpy().tobytes()
        if row[:1000].to(data.parts[0].dtype).numpy().tobytes() in learned:
            source += ", its beginning also in the training data"
        source = f"{data.source}; held out: {source}"
        return replace(data, source=source, parts=[*data.parts, row])


def long_losses(
    model,  # a `LanguageModel`
    data: Data,
    length: int,  # characters per window
) -> dict[str, float]:
    "Nats per character on the last part of a text, of the model and of three that count."
    from ..data.long_texts import text_windows
    from ..data.text import BOS
    from ..data.tokens import SPECIALS
    from ..inspection.ngrams import NGram
    from ..training.losses import evaluate

    judged = data.parts[-1][:JUDGED]
    windows = text_windows(judged, length, 128)
    half = text_windows(judged, length, 128, context=length // 2)
    losses = {
        "transformer": evaluate(model, progress(windows, "batch")),
        "transformer, half a window before each": evaluate(model, progress(half, "batch")),
    }
    if not len(data.parts[0]):  # nothing to count
        return losses
    train = [[BOS, *data.parts[0][-COUNTED:].tolist()]]
    last = [[BOS, *data.parts[-1][:COUNTED].tolist()]]
    shortened = len(data.parts[-1]) > COUNTED
    where = f", its first {COUNTED:,} characters" if shortened else ""
    choices = data.tokenizer.vocab_size - len(SPECIALS)
    for n in progress((2, 3, 5), "n-gram"):
        losses[f"{n}-gram, Kneser–Ney{where}"] = NGram(train, n, choices).nats(last)
    return losses
