"""`former-nb same`: saved models, a model in a file of yours, or one as Transformers reads it."""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..base.files import read_json
from ..inspection.comparison import Comparison, same
from ..models.encoder_decoder import EncoderDecoder
from ..models.masked_language import MaskedLanguageModel
from .folders import IN_FILE, Device, blaming, find_folder, load, run_file
from .terminal import waiting

ROWS, LENGTH = 2, 16  # of the texts that both read


def load_theirs(folder: Path):
    "The model of a folder as Transformers reads it. Raises `ValueError` where it can't."
    try:
        import transformers
    except ImportError:
        raise ValueError("other: expected a second model, for Transformers is missing") from None
    transformers.logging.disable_progress_bar()
    names = read_json("model", folder / "config.json").get("architectures") or [""]
    kind = getattr(transformers, names[0], None)
    if kind is None:
        expected = "a second model, or a folder that Transformers reads"
        raise ValueError(f"other: expected {expected}; its config.json names {names[0]!r}")
    return kind.from_pretrained(folder, dtype=torch.float32).eval()


def takes_nothing(function) -> bool:
    "Whether a function or class can be called without an argument."
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def load_one(argument: str, name: str):
    "A model by what the command line says: a folder, one that ships, or FILE.py:NAME."
    if IN_FILE.fullmatch(name):
        found, path = run_file(argument, name)
        if callable(found) and not isinstance(found, nn.Module) and takes_nothing(found):
            with blaming(argument, path):
                found = found()
        if found is None or not callable(found):
            expected = "a model, a function of tokens, or a function that gives a model"
            raise ValueError(
                f"{argument}: expected {expected} called {name.rpartition(':')[2]} in {path.name}"
            )
        return found.float().eval() if isinstance(found, nn.Module) else found
    return load(name, None, Device.cpu)[0].float()


def sizes(model) -> tuple[int, int] | None:  # of the vocabulary and of the longest text, or None
    "What a model reads, by its configuration or its first embedding."
    configs = [getattr(model, name, None) for name in ("config", "tgt_config")]
    configs = [config for config in configs if hasattr(config, "vocab_size")]
    if configs:
        lengths = [getattr(config, "max_len", LENGTH) for config in configs]
        return min(config.vocab_size for config in configs), min(lengths)
    parts = model.modules() if isinstance(model, nn.Module) else ()
    tables = [part for part in parts if isinstance(part, nn.Embedding)]
    return (tables[0].num_embeddings, LENGTH) if tables else None


def draw_tokens(models: list[Any]) -> torch.Tensor:  # (ROWS, up to LENGTH)
    "Tokens drawn at random that all models know, but no special ones."
    known = [found for found in map(sizes, models) if found]
    if not known:
        raise ValueError("model: expected one of both to have a vocabulary; no size is known")
    vocab_size = min(size for size, _ in known)
    longest = min(length for _, length in known)
    rng = torch.Generator().manual_seed(0)
    least = min(4, vocab_size - 1)
    return torch.randint(least, vocab_size, (ROWS, min(LENGTH, longest)), generator=rng)


def inputs_for(model, tokens):
    "The arguments of a model of ours that reads these tokens."
    if isinstance(model, EncoderDecoder):
        return tokens, tokens
    if isinstance(model, MaskedLanguageModel):  # at which positions it has to answer
        return tokens, torch.arange(tokens.shape[1]).expand_as(tokens)
    return (tokens,)


def compare_folders(
    name: str,  # a folder, a model that ships, or FILE.py:NAME
    other_name: str | None,  # another; None takes the same folder, read by Transformers
) -> Comparison:
    "Load both and compare them. Raises `ValueError` for what can't be read."
    model = load_one("model", name)
    if other_name is not None:
        other = load_one("other", other_name)
        tokens = draw_tokens([model, other])
        with waiting("Comparing …"):
            return same(model, other, inputs_for(model, tokens), inputs_for(other, tokens))
    if IN_FILE.fullmatch(name):
        raise ValueError("other: expected a second model, to compare that of a file with")
    with waiting("Reading the model by Transformers …"):
        other = load_theirs(find_folder(name))
    tokens = draw_tokens([model])
    theirs: dict[str, torch.Tensor] = {"input_ids": tokens}
    if isinstance(model, EncoderDecoder):
        theirs["decoder_input_ids"] = tokens
    with waiting("Comparing …"):
        return same(model, other, inputs_for(model, tokens), theirs)
