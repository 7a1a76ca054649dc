"""Models that version 0.1 saved, under the names of today."""

from typing import Any

import torch

from ..base.core import tied_names
from ..base.guards import check_that

__all__ = ["is_second_edition", "kind_today", "rename_tensors"]

BEGINNINGS = {  # of a tensor's name, then and now
    "src_positions.": "src_embed.positions.",
    "tgt_positions.": "tgt_embed.positions.",
    "positions.": "embed.positions.",
    "src_embed.weight": "src_embed.tokens.weight",
    "embed.weight": "embed.tokens.weight",
    "norm.": "embed.norm.",
    "out.weight": "head.weight",
}


def is_second_edition(
    tensors: dict[str, torch.Tensor],  # of model.safetensors
) -> bool:
    "Whether version 0.1 saved these weights: it called the embeddings `embed.weight`."
    return "embed.weight" in tensors


def kind_today(
    kind: str,  # the class that version 0.1 saved
    config: dict,  # what its config.json holds
) -> str:  # the class that computes the same
    "Where a model of version 0.1 belongs. Raises `ValueError` for one that no class is today."
    if kind == "Classifier":
        pairs = config.get("n_bigrams", 0)
        segments = config.get("n_segments", 0)
        check_that(not (pairs and segments), "n_segments", "0, since n_bigrams is not", segments)
        return "BertClassifier" if segments else "BigramClassifier" if pairs else "Classifier"
    if kind == "EncoderDecoder":
        target = config.get("tgt_config") or {}
        special = not config.get("tied", True) or target.get("logits_bias", False)
        special = special or config.get("logits_bias", False) or config.get("pad_token_id", 0) > 0
        wanted = "None, since this model is one of BART's kind"
        check_that(not (special and target), "tgt_config", wanted, target)
        return "BartEncoderDecoder" if special else "EncoderDecoder"
    return kind


def rename_tensors(
    tensors: dict[str, torch.Tensor],  # name -> weight, as version 0.1 saved them
    model: Any,  # of today, of the same configuration
) -> dict[str, torch.Tensor]:  # as the model has them
    """The weights of version 0.1 for a model of today. Raises `ValueError` where they are another
    function: for positions that each layer learned, or in a class that cannot compute the same."""
    learned = model.config.positions == "relative"
    wanted = "another scheme than 'relative', which version 0.1 learned in each layer and we once"
    check_that(not learned, "positions", wanted, "relative")
    translator = hasattr(model, "tgt_config")
    new = {}
    for name, weight in tensors.items():
        if ".qkv." in name:
            config = model.tgt_config if name.startswith("decoder.") else model.config
            for letter, part in zip("qkv", _split(name, weight, config)):
                new[name.replace(".qkv.", f".w_{letter}.")] = part
        else:
            new[_name_today(name, translator)] = weight
    for name, twin in tied_names(model).items():
        there = [new[n] for n in (name, twin) if n in new]
        whole = there[0] if there else None
        equal = all(weight is whole or torch.equal(weight, there[0]) for weight in there)
        check_that(
            equal, name, f"the numbers of {twin}, since this class has one for both", "others"
        )
        if there:
            new[name] = new[twin] = there[0]
    plain = type(model).__name__ != "EncoderDecoder" or model.config.pad_token_id == 0
    check_that(plain, "pad_token_id", "0 outside a BartEncoderDecoder", model.config.pad_token_id)
    return new


def _name_today(name, translator):
    name = name.replace("attention.out.", "attention.w_o.").replace("cross.out.", "cross.w_o.")
    if translator and name == "bias":
        return "head.bias"
    if translator and name == "embed.weight":
        return "tgt_embed.tokens.weight"
    for old, new in BEGINNINGS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _split(name, weight, config):
    "The rows of queries, keys and values that version 0.1 kept in one matrix or bias."
    h = config.n_heads
    g = config.n_kv_heads or h
    d_k = len(weight) // (h + 2 * g)
    q, k, v = weight.split([h * d_k, g * d_k, g * d_k])
    if ".cross." not in name:
        return q, k, v
    fits = h * d_k == config.d_model
    check_that(fits, "d_k", f"heads as wide as {config.d_model // h} for a memory", d_k)
    return q, _repeat(k, d_k, h // g), _repeat(v, d_k, h // g)


def _repeat(weight, d_k, times):
    "Each head of rows so often, as we share no heads of a memory."
    return weight.unflatten(0, (-1, d_k)).repeat_interleave(times, dim=0).flatten(0, 1)
