"""`former-nb same`: two saved models, or one as the library reads it and as Transformers does."""

from pathlib import Path
from typing import Any

import torch

from ..base.files import read_json
from ..inspection.comparison import Comparison, same
from ..models.encoder_decoder import EncoderDecoder
from ..models.masked_language import MaskedLanguageModel
from .folders import Device, find_folder, load
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


def draw_tokens(models: list[Any]) -> torch.Tensor:  # (ROWS, up to LENGTH)
    "Tokens drawn at random that all models know, but no special ones."
    vocab_size = min(model.config.vocab_size for model in models)
    longest = min(model.config.max_len for model in models)
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
    name: str,  # a folder, or a model that ships
    other_name: str | None,  # another; None takes the same folder, read by Transformers
) -> Comparison:
    "Load both and compare them. Raises `ValueError` for a folder that can't be read."
    model = load(name, None, Device.cpu)[0].float()
    if other_name is not None:
        other = load(other_name, None, Device.cpu)[0].float()
        tokens = draw_tokens([model, other])
        with waiting("Comparing …"):
            return same(model, other, inputs_for(model, tokens), inputs_for(other, tokens))
    with waiting("Reading the model by Transformers …"):
        other = load_theirs(find_folder(name))
    tokens = draw_tokens([model])
    theirs: dict[str, torch.Tensor] = {"input_ids": tokens}
    if isinstance(model, EncoderDecoder):
        theirs["decoder_input_ids"] = tokens
    with waiting("Comparing …"):
        return same(model, other, inputs_for(model, tokens), theirs)
