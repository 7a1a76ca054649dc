"""Invent names: a language model of letters, beside models that count."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ..base.ranges import ONE_OR_MORE
from .base import (
    Data,
    FileName,
    Say,
    Task,
    in_shell,
    progress,
    ready_parts,
    say_known,
    say_losses,
    text_data,
)

TITLE = "Nats per character on held-out names, their end counted:"
BEGINNINGS = ("Jo", "Mi", "Au")  # of names that a report shows


@dataclass(frozen=True)
class Names(Task):
    "Invent names."

    file: FileName = ""  # your own names, UTF-8, one per line; Lithuanian names if left out
    test: FileName = ""  # names that are held out; a part of the file if left out
    batch_size: int = 64  # names per step, all processes together
    epochs: int | None = 40
    dropout: float = 0.15
    lr: float = 1e-2

    rules = Task.rules | {"batch_size": ONE_OR_MORE}
    other_data = ("file",)

    def read_parts(self) -> tuple[list[list[str]], str]:
        "Three parts of the names, and where they come from."
        from ..base.files import read_names
        from ..data.data_sets import load_names, split

        if self.file:
            names = read_names(self.file)
            source = f"names from {Path(self.file).name}"
        else:
            names, source = load_names()
        test = None
        if self.test:
            test = read_names(self.test)
            source += f", those held out from {Path(self.test).name}"
        shares = {2: (0.9, 0.1), 3: (0.8, 0.1, 0.1)}
        parts = ready_parts(
            names, lambda n: split(names, shares[n], group=self.row_key), None, test
        )
        if test is not None:
            source += say_known(parts, self.row_key)
        return parts, source

    @staticmethod
    def row_key(row):
        "The spelling: Ona and ona go into one part."
        from ..data.tokens import normalise

        return normalise(row, lowercase=True)

    def read_other(self, given, model, tokenizer, labels):
        "A file of names; those that the model is too short for are left out."
        from ..base.files import read_names
        from ..base.guards import check_that

        names = read_names(given["file"])
        room = model.config.max_len - 1  # with a beginning
        fitting = [name for name in names if len(tokenizer.encode(name)) <= room]
        expected = f"names of at most {room} letters, as the model reads"
        check_that(bool(fitting), "file", expected, names[0])
        source = f"{len(names):,} names from {Path(given['file']).name}"
        if len(fitting) < len(names):
            source += f", {len(names) - len(fitting):,} left out, of more than {room} letters"
        return fitting, source

    def load_data(self) -> Data:
        from ..data.tokenization import CharTokenizer

        self.check_own()
        parts, source = self.read_parts()
        tokenizer = CharTokenizer.train(parts[0], lowercase=True)
        return text_data(source, parts, tokenizer, self.batch_size, self.seed)

    def make_model(self, data: Data):
        from ..models.savable import LanguageModel

        return LanguageModel.from_config(self.model_config(data))

    def report(self, model, data: Data, folder: Path, say: Say) -> dict:
        "Losses beside models that count, new names, and a picture of the attention weights."
        from ..decoding.sampling import Sampling

        losses = name_losses(model, data.tokenizer, data.parts)
        say_losses(say, TITLE, losses)
        normalise = data.tokenizer.normalise
        taken = {normalise(name) for name in chain.from_iterable(data.parts)}
        sampling = Sampling(temperature=0.8, seed=self.seed)
        beginnings = [text for text in BEGINNINGS if can_begin(text, model, data.tokenizer)]
        for beginning in beginnings or [""]:
            new = new_names(model, data.tokenizer, beginning, 10, taken, sampling)
            say(f"New names {beginning}…: {', '.join(new)}")
        example = data.parts[-1][0]
        try:
            picture = str(save_picture(model, data.tokenizer, example, folder))
        except OSError as error:  # whoever evaluates a run may not be allowed to write there
            picture = f"not saved; {error}"
        say(f"Attention weights of each head on {example!r}: {picture}")
        prompt = f" {beginnings[0]}" if beginnings else ""
        use = f"former-nb generate --model {in_shell(folder)}{prompt}"
        say(f"The model is in {folder}. Try: {use}")
        return {"held_out_nats_per_character": losses}


def can_begin(beginning: str, model, tokenizer) -> bool:
    "Whether a name can begin so, and go on."
    return len(beginning) < model.config.max_len and not tokenizer.unknown(beginning)


def name_losses(
    model,  # a `LanguageModel`
    tokenizer,  # its `CharTokenizer`
    parts: list[list[str]],  # of names: learned from, chosen by, held out
) -> dict[str, float]:
    """Nats per character on held-out names: of the model, of two that count, and of a mixture.

    Without names to learn from, of the model alone.
    """
    from ..data.tokenization import encode_texts
    from ..inspection.ngrams import NGram, best_share, mix_nats

    train, valid, test = [encode_texts(part, tokenizer) for part in parts]
    read = token_probabilities(model, test)
    if not train:  # nothing to count
        return {"transformer": mix_nats(read, read, 1.0)}
    choices = tokenizer.vocab_size - 3  # padding, beginning and unknown never follow
    counts = NGram(train, 6, choices)
    share = best_share(token_probabilities(model, valid), counts.probabilities(valid))
    counted = counts.probabilities(test)
    return {
        "transformer": mix_nats(read, counted, 1.0),
        "bigram": NGram(train, 2, choices).nats(test),
        "Kneser–Ney 6-gram": mix_nats(read, counted, 0.0),
        f"mixture, {share:.0%} transformer and {1 - share:.0%} 6-gram": mix_nats(
            read, counted, share
        ),
    }


def token_probabilities(
    model,  # a `LanguageModel`
    rows: list[list[int]],  # from BOS on
) -> list[float]:  # of each token but the first of each row
    "How likely the model finds the tokens, each after those before it."
    import torch

    from ..base.core import eval_mode
    from ..data.batches import make_batches
    from ..data.text import IGNORE
    from ..training.losses import find_device

    found: list[float] = []
    with eval_mode(model), torch.no_grad():
        for inputs, targets in progress(make_batches(rows, 512), "batch"):
            p = model(inputs.to(find_device(model))).softmax(dim=-1).cpu()  # (B, T, V)
            there = targets != IGNORE
            found += p[there].gather(1, targets[there, None])[:, 0].tolist()
    return found


def new_names(
    model,  # a `LanguageModel`
    tokenizer,  # its `CharTokenizer`
    beginning: str,  # of each name
    n: int,  # how many
    taken: set[str],  # names that do not count as new, normalised
    sampling,  # a `Sampling` with a seed
) -> list[str]:  # up to n different names
    "Draw names until `n` are new, or forty times as many were drawn."
    from dataclasses import replace

    from ..decoding.caches import write_texts

    new: dict[str, None] = {}  # in the order in which they were drawn
    for attempt in range(10):
        draw = replace(sampling, seed=sampling.seed + 4 * n * attempt)
        beginnings = [beginning] * (4 * n)
        texts, _ = write_texts(model, beginnings, pick=draw, tokenizer=tokenizer)
        for name in texts:
            if name and tokenizer.normalise(name) not in taken:
                new[name.capitalize()] = None
        if len(new) >= n:
            break
    return list(new)[:n]


def save_picture(model, tokenizer, name: str, folder: Path) -> Path:
    "Draw the attention weights of each head on a name."
    import matplotlib.pyplot as plt

    from ..base.checkpoints import atomic_write
    from ..inspection.viewer import plot_heads, view

    figure = plot_heads(view(model, name, tokenizer))
    with atomic_write(folder) as temporary:
        figure.savefig(temporary / "attention.png", dpi=120)
    plt.close(figure)
    return folder / "attention.png"
