"""Models that version 0.1 saved, under the names of today."""

import torch

from .guards import check_that

__all__ = ["is_second_edition", "rename_second_edition"]

PARTS = [  # the beginning or the end of a name, then and now
    ("src_positions.", "src_embed.positions."),
    ("tgt_positions.", "tgt_embed.positions."),
    ("positions.", "embed.positions."),
    ("src_embed.weight", "src_embed.tokens.weight"),
    ("embed.weight", "embed.tokens.weight"),
    ("norm.", "embed.norm."),
    ("out.weight", "head.weight"),
]


def is_second_edition(
    tensors: dict[str, torch.Tensor],  # of model.safetensors
) -> bool:
    "Whether version 0.1 saved these weights: it called the embeddings `embed.weight`."
    return "embed.weight" in tensors


def rename_second_edition(
    tensors: dict[str, torch.Tensor],  # name -> weight, as version 0.1 saved them
    config: dict,  # what its config.json holds
) -> tuple[dict[str, torch.Tensor], dict]:  # both as the classes of today have them
    """The same model for the classes of today. Raises `ValueError` for positions that version 0.1
    learned in each layer and we learn once."""
    config = dict(config)
    [kind] = config.pop("architectures")
    wanted = (
        "a scheme other than 'relative', whose numbers each layer had of its own in version 0.1"
    )
    check_that(config.get("positions") != "relative", "positions", wanted, "relative")
    kind, config = _new_kind(kind, config)
    new = {}
    for name, weight in tensors.items():
        if ".qkv." in name:
            h, g = config["n_heads"], config.get("n_kv_heads") or config["n_heads"]
            d_k = len(weight) // (h + 2 * g)
            parts = weight.split([h * d_k, g * d_k, g * d_k])
            for letter, part in zip("qkv", parts):
                new[name.replace(".qkv.", f".w_{letter}.")] = part
            continue
        name = name.replace("attention.out.", "attention.w_o.").replace("cross.out.", "cross.w_o.")
        new[_new_name(name, kind)] = weight
    if kind == "LanguageModel" and config.get("tied_head", True):
        new["head.weight"] = new["embed.tokens.weight"]
    if "EncoderDecoder" in kind:
        new.setdefault("src_embed.tokens.weight", new["tgt_embed.tokens.weight"])
        new.setdefault("head.weight", new["tgt_embed.tokens.weight"])
    return new, {"architectures": [kind], **config}


def _new_kind(kind, config):
    "The class of today, and a configuration with what it takes."
    if kind == "Classifier":
        n_bigrams, n_segments = config.pop("n_bigrams", 0), config.pop("n_segments", 0)
        if n_segments:
            return "BertClassifier", config | {"n_segments": n_segments}
        if n_bigrams:
            return "BigramClassifier", config | {"n_bigrams": n_bigrams}
    if kind == "EncoderDecoder":
        tied, tgt_config = config.pop("tied", True), config.get("tgt_config")
        check_that(tied or not tgt_config, "tied", "one matrix for the target", tied)
        if not tied or config.get("logits_bias") or config.get("pad_token_id"):
            config.pop("tgt_config", None)
            return "BartEncoderDecoder", config | {"tied": tied}
    return kind, config


def _new_name(name, kind):
    if "EncoderDecoder" in kind:
        name = {"embed.weight": "tgt_embed.tokens.weight", "bias": "head.bias"}.get(name, name)
    for old, new in PARTS:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
