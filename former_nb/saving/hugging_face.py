"""Hugging Face's models in our modules and back: configurations and weights, whole or not at all.

families.py has the names, and the deep dive on pretrained models derives them, tensor by tensor.
The functions here read only JSON and safetensors, nothing that could run code. All names, shapes
and sizes are compared before any memory is taken. What we do not cover is refused by name, such as
a window shorter than the context, other kinds of rotary scaling, or an architecture that no family
lists; config_keys.py says of every further key whether it is harmless. T5 shares one table of
relative positions among its layers and does not divide by √d_k, so it is among the refused. Old
files lack some entries, and then Hugging Face's defaults count.
"""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import nn

from ..attention.positions import sinusoid_table
from ..base.checkpoints import atomic_write
from ..base.core import tied_names
from ..base.files import check_path, read_json, reading
from ..base.guards import check_int, check_that, check_type
from ..data.tokenization import HuggingFaceTokenizer
from ..data.tokens import BOS, EOS, PAD, TextTokenizer
from ..models import bart  # noqa: F401, it enters its model
from ..models.bert import BertClassifier, BertMaskedLanguageModel
from ..models.config import TransformerConfig
from ..models.initialization import no_random_weights
from ..models.pretrained import (
    MODEL_CLASSES,
    WEIGHTS,
    Loaded,
    check_pair,
    check_vocabulary,
    fill_model,
)
from ..models.savable import EncoderDecoder, LanguageModel
from .config_keys import TOKENS, generation_notes, refuse_unknown, refuse_windows
from .families import ACTIVATIONS, FAMILIES, Family

__all__ = [
    "from_hugging_face",
    "to_hugging_face",
    "load_folder",
]


# ---- configurations


def _classes() -> dict[str, type]:  # by their names
    "Our classes. A model for hidden tokens holds one that is saved, and is none itself."
    return {**MODEL_CLASSES, "BertMaskedLanguageModel": BertMaskedLanguageModel}


def _class_of(name: str) -> type:
    "Our class of this name."
    classes = _classes()
    check_that(name in classes, "architectures", f"one of {', '.join(classes)}", name)
    return classes[name]


CLASSES = "single_label_classification"  # `problem_type` of a classifier as ours


def find_family(
    saved: dict,  # what config.json holds
) -> tuple[Family, type]:  # and our class
    "The family and our class of a config.json. Raises `ValueError` for one that we do not cover."
    model_type = saved.get("model_type")
    name = saved.get("architectures")
    if name and isinstance(name, list):
        name = str(name[0])
    family = FAMILIES.get(str(model_type))
    if family is None or str(name) not in family.architectures:
        covered: set[str] = set()
        for each in FAMILIES.values():
            covered.update(each.architectures)
        expected = f"one of {', '.join(sorted(covered))}"
        kind = f"of the model_type {model_type!r:.200}" if model_type else "without a model_type"
        expected, came = f"{expected}, each of its model_type", f"{name!r:.200} {kind}"
        raise ValueError(f"architectures: expected {expected}, got {came}")
    for field, value in family.fixed.items():
        came = saved.get(field, family.defaults.get(field, value))
        check_that(came == value, field, repr(value), came)
    for field, other in family.same.items():
        fits = saved.get(field) == saved.get(other)
        check_that(fits, field, f"{saved.get(other)}, as {other}", saved.get(field))
    refuse_windows(saved, family)
    refuse_unknown(saved, family)
    return family, _class_of(family.architectures[str(name)])


def _read_rope(saved):
    "Base and scaling of rotary positions, as old and new files have them."
    name = "rope_scaling" if saved.get("rope_scaling") else "rope_parameters"
    check_type(name, saved.get(name) or {}, dict)
    rope = dict(saved.get(name) or {})
    base = rope.pop("rope_theta", saved.get("rope_theta") or 10_000.0)
    old_type = rope.pop("type", None)
    rope_type = rope.pop("rope_type", old_type) or "default"
    share = rope.pop("partial_rotary_factor", saved.get("partial_rotary_factor"))
    check_that(share in (None, 1), "partial_rotary_factor", "1 or None", share)
    name = "original_max_position_embeddings"
    if rope_type == "llama3":  # as theirs looks for the old length
        rope.setdefault(name, saved.get("max_position_embeddings"))
        rope[name] = saved.get(name) or rope[name]
    if rope_type == "default":
        rope.pop(name, None)
        if not rope:
            return {"rope_base": base, "rope_scaling": None}
    return {"rope_base": base, "rope_scaling": {"rope_type": rope_type, **rope}}


def _read_biases(saved):
    "Which layers have a bias, where a family has two fields that say it."
    attention = bool(saved.get("attention_bias"))
    network = bool(saved.get("mlp_bias"))
    check_that(attention or not network, "mlp_bias", "attention_bias with it", network)
    if network:
        return "all"
    return "attention" if attention else "none"


def _read_sizes(family, theirs):
    "The fields of `TransformerConfig` that have a field in config.json."
    values = {ours: theirs.get(name) for ours, name in family.fields.items()}
    if values.get("d_ff") is None and isinstance(values["d_model"], int):
        if family.d_ff_factor:
            values["d_ff"] = family.d_ff_factor * values["d_model"]
    if "activation" in values:
        name = values["activation"]
        check_that(str(name) in ACTIVATIONS, "activation", f"one of {list(ACTIVATIONS)}", name)
        values["activation"] = ACTIVATIONS[name]
    # None for the number and width of heads where they are what None means
    n_heads = values["n_heads"]
    if values.get("n_kv_heads") == n_heads:
        values["n_kv_heads"] = None
    d_k = values.get("d_k")
    if isinstance(d_k, int) and isinstance(n_heads, int) and d_k * n_heads == values["d_model"]:
        values["d_k"] = None
    return values


def _read_arguments(family, kind, theirs):
    "What our class takes besides a configuration."
    arguments = {ours: theirs.get(name) for ours, name in family.arguments.items()}
    if kind is BertMaskedLanguageModel:  # its encoder's head starts anew, for two classes or more
        names = theirs.get("id2label") or {}
        check_type("id2label", names, dict)
        arguments["n_classes"] = max(2, len(names))
    elif "n_classes" in inspect.signature(kind.__init__).parameters:
        arguments["n_classes"] = _read_classes(theirs)
    return arguments


def _read_classes(theirs):
    "How many classes there are. `ValueError` where the answer isn't one of several classes."
    kind = theirs.get("problem_type", CLASSES)
    check_that(kind == CLASSES, "problem_type", f"{CLASSES!r} or None", kind)
    names = theirs.get("id2label") or {}
    check_type("id2label", names, dict)
    n_classes = theirs.get("num_labels") or len(names) or 2
    name = "num_labels" if "num_labels" in theirs else "id2label"
    check_int(name, n_classes, 1)
    check_that(n_classes > 1, name, "two classes or more (one number is a regression)", n_classes)
    return n_classes


def _class_names(saved, n_classes):
    "The names of classes in the order of their numbers; a name that comes twice gets its number."
    names = saved.get("id2label") or {}
    if len(names) != n_classes:  # then Transformers doesn't read them, either
        names = {}
    labels: list[str] = []
    for i in range(n_classes):
        name = str(names.get(str(i), f"LABEL_{i}"))
        labels.append(f"{name} ({i})" if name in labels else name)
    return labels


def read_config(
    saved: dict,  # what config.json holds
) -> tuple[Family, type, TransformerConfig, dict]:  # our class, and what it takes besides
    "Our configuration for theirs. Raises `ValueError` or `TypeError` for one that we do not cover."
    family, kind = find_family(saved)
    if saved.get("is_causal") is not None:
        causal = kind is LanguageModel
        check_that(saved["is_causal"] is causal, "is_causal", f"{causal}", saved["is_causal"])
    theirs = {"tie_word_embeddings": True, **family.defaults}
    for name, value in saved.items():
        if value is not None:
            theirs[name] = value
    values = _read_sizes(family, theirs)
    values.update(family.shape)
    values["tied_head"] = theirs["tie_word_embeddings"]
    if "bias" not in family.shape:
        values["bias"] = _read_biases(saved)
    if family.shape.get("positions") == "rotary":
        values.update(_read_rope(saved))
    return family, kind, TransformerConfig(**values), _read_arguments(family, kind, theirs)


def _obstacles(family, model, config):
    "The settings that a model has otherwise than a family: name -> what theirs has, what ours has."
    settings = {name: (value, getattr(config, name)) for name, value in family.shape.items()}
    settings["tied"] = (True, getattr(model, "init_args", {}).get("tied", True))
    if "activation" in family.fields:
        known = config.activation in ACTIVATIONS.values()
        names = " or ".join(dict.fromkeys(ACTIVATIONS.values()))
        settings["activation"] = (config.activation if known else names, config.activation)
    for name in ("n_kv_heads", "d_k"):
        if name not in family.fields:
            settings[name] = (None, getattr(config, name))
    return {name: pair for name, pair in settings.items() if pair[0] != pair[1]}


def _family_of(model, config):
    """What theirs calls the kind of a model of ours, and its family.

    Raises `ValueError` where none is, and names what the nearest family has otherwise.
    """
    kind = type(model)
    classes = _classes()
    nearest: list[tuple] = []  # obstacles, our class, name
    for name, family in FAMILIES.items():
        for target in family.architectures.values():
            theirs = classes.get(target)
            if config is None or theirs is None or not issubclass(theirs, kind):
                continue
            obstacles = _obstacles(family, model, config)
            if not obstacles and theirs is kind:
                return name, family
            nearest.append((obstacles, target, name))
    if not nearest:
        targets = dict.fromkeys(c for f in FAMILIES.values() for c in f.architectures.values())
        expected = f"one with a configuration, of {' or '.join(targets)}"
        raise ValueError(f"model: expected {expected}, got {kind.__name__}")
    obstacles, target, name = min(nearest, key=lambda found: len(found[0]))
    wanted, came = target, kind.__name__
    if obstacles:
        wanted += " with " + ", ".join(f"{key} = {pair[0]!r}" for key, pair in obstacles.items())
        came += " with " + ", ".join(f"{key} = {pair[1]!r}" for key, pair in obstacles.items())
    raise ValueError(f"model: expected {wanted}, as {name} is, the nearest of theirs, got {came}")


def _with_config(model):
    "The part of a model that has the configuration: itself, or the encoder that it asks."
    return model.encoder if isinstance(model, BertMaskedLanguageModel) else model


def _field_values(family, c):
    "The fields of config.json that are fields of ours, under their names."
    values = {theirs: getattr(c, ours) for ours, theirs in family.fields.items()}
    if "activation" in family.fields:
        names = [theirs for theirs, ours in ACTIVATIONS.items() if ours == c.activation]
        values[family.fields["activation"]] = names[0]
    if "n_kv_heads" in family.fields:
        values[family.fields["n_kv_heads"]] = c.n_kv_heads or c.n_heads
    if "d_k" in family.fields:
        values[family.fields["d_k"]] = c.head_width
    values["tie_word_embeddings"] = c.tied_head
    if c.positions == "rotary":
        values["rope_theta"] = c.rope_base
        values["rope_scaling"] = c.rope_scaling
    if "bias" not in family.shape:
        values["attention_bias"] = c.bias in ("attention", "all")
        values["mlp_bias"] = c.bias == "all"
    return values


def write_config(
    model: nn.Module,  # LanguageModel, Classifier, MaskedLanguageModel or EncoderDecoder
) -> dict:  # what config.json holds
    "Their configuration for ours. Raises `ValueError` if no model of theirs computes the same."
    whole = _with_config(model)
    config: Any = getattr(whole, "config", None)
    model_type, family = _family_of(model, config)
    name = type(model).__name__
    architectures = [theirs for theirs, ours in family.architectures.items() if ours == name]
    values = {"architectures": architectures[:1], "model_type": model_type}
    for ours, theirs in family.arguments.items():
        values[theirs] = whole.init_args[ours]
    values.update(_field_values(family, config))
    if hasattr(whole, "n_classes"):
        values["id2label"] = {i: f"LABEL_{i}" for i in range(whole.n_classes)}
    values.update(family.fixed)
    values.update(family.written)
    for field, other in {**family.same, **family.written_as}.items():
        values[field] = values[other]
    return values


# ---- the way of each tensor


class Route(NamedTuple):
    """Where one of our tensors comes from. Both directions use the same routes, so that one is the
    inverse of the other."""

    ours: str
    theirs: dict[str, tuple]  # name -> shape; joined along our first axis
    transposed: bool
    skipped: int  # rows of theirs before the first of ours
    third: int | None  # which third of theirs ours is; None is all of it


def _their_names(family, name):
    "What our tensor is called there, in parts. Of a model in a model the inner name counts."
    number = re.search(r"\.(\d+)\.", name)
    place = re.sub(r"\.\d+\.", ".{i}.", name)
    if place not in family.modules and place.rpartition(".")[0] not in family.modules:
        place = place.removeprefix("encoder.")
    if place in family.modules:
        return [family.modules[place]]
    module, _, leaf = place.rpartition(".")
    if leaf == "table":
        leaf = "weight"
    names = [f"{theirs}.{leaf}" for theirs in family.modules[module].split()]
    return [theirs.format(i=number and number[1]) for theirs in names]


def _routes(model: nn.Module, family: Family) -> Iterator[Route]:
    "A route for each tensor of `model` that the family has."
    twins = tied_names(model)
    for ours, t in model.state_dict().items():
        if ours in twins or re.fullmatch(family.anew, ours):
            continue
        names = _their_names(family, ours)
        third = None
        rows = len(t)
        if re.fullmatch(family.thirds, names[0]):
            third = ["w_q", "w_k", "w_v"].index(ours.split(".")[-2])
            rows = 3 * rows
        skipped = family.skipped if ours.endswith("position_embedding.table") else 0
        transposed = re.fullmatch(family.transposed, names[0]) is not None
        shape = (rows // len(names) + skipped, *t.shape[1:])
        if transposed:
            shape = shape[::-1]
        if names[0] in family.flat:
            shape = (1, *t.shape)
        yield Route(ours, dict.fromkeys(names, shape), transposed, skipped, third)


def _name_today(name):
    "What a tensor of BERT's was called in 2018, as it is called since."
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _match(shapes, routes, family):
    "Name that a route asks for -> name in `shapes`. Raises `ValueError` unless all fits."
    needed = {}
    for route in routes:
        needed.update(route.theirs)
    copies = {*family.copies, *family.copies.values()}
    names = {}
    for name in shapes:
        new = _name_today(name)
        if new not in needed:
            new = family.prefix + new
        if new not in needed:
            spare = any(n in copies or re.fullmatch(family.spare, n) for n in (name, new))
            check_that(spare, "source", "only tensors of this architecture", name)
            continue
        check_that(new not in names, "source", "each tensor once", name)
        names[new] = name
    for name, shape in needed.items():
        if name not in names and (name in family.absent or name in family.computed):
            continue
        check_that(name in names, "source", f"the tensor {name}, {shape}", "none of this name")
        came = tuple(shapes[names[name]])
        check_that(came == shape, "source", f"shape {shape} for {name}", came)
    return names


# ---- copies that are none


def _is_untied(source, family):
    """Whether a source that says *tied* has a head of its own all the same: somebody has trained it
    apart. Raises `ValueError` where ours has one matrix for what differs."""
    names = {family.prefix + name: name for name in source.shapes}  # whole name -> in the file
    names |= {name: name for name in source.shapes}
    for copy, whole in family.copies.items():
        if copy not in names or whole not in names:
            continue
        first = source.get(names[copy]).cpu().float()
        second = source.get(names[whole]).cpu().float()
        if first.equal(second):
            continue
        if "LanguageModel" in family.architectures.values():
            return True
        expected = f"{copy} equal to {whole}, as ours has one for both"
        check_that(False, "source", expected, "two that differ")
    return False


# ---- a folder

INDEX = "model.safetensors.index.json"  # which tensor is in which file of a large model


class Source(NamedTuple):
    "What a model of theirs is read from."

    saved: dict  # what config.json holds
    shapes: dict[str, Any]  # name of a tensor -> its shape
    get: Callable  # name -> tensor


def _shards(folder):
    """Name of each tensor -> its shape and its file. `ValueError` where the folder lacks one.

    Where there is one file with all weights, it counts, as for Transformers.
    """
    files = [WEIGHTS]
    if not (folder / WEIGHTS).exists() and (folder / INDEX).exists():
        files = sorted({*read_json("source", folder / INDEX)["weight_map"].values()})
    lost = [file for file in files if not (folder / file).exists()]
    if lost:
        pickles = [p.name for end in ("bin", "pt", "pth", "ckpt") for p in folder.glob(f"*.{end}")]
        reason = f"; {pickles[0]} could run code and is not read" if pickles else ""
        raise ValueError(f"source: {str(folder)!r} lacks {', '.join(lost)}{reason}")
    shards = {}
    for file in files:
        try:
            with safe_open(folder / file, "pt") as tensors:
                for name in tensors.keys():
                    shards[name] = (tensors.get_slice(name).get_shape(), file)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"source: {str(folder / file)!r} is not whole: {error}") from None
    return shards


def _open_model(model) -> Source:
    state = model.state_dict()
    saved = {**model.config.to_dict(), "architectures": [type(model).__name__]}
    shapes = {name: t.shape for name, t in state.items()}
    return Source(saved, shapes, lambda name: state[name].clone())


def _open_folder(source, revision=None, saved=None) -> Source:
    folder = check_path("source", source)
    if revision is not None:
        files = ["config.json", "generation_config.json", "tokenizer.json", INDEX]
        files += ["model*.safetensors"]
        folder = Path(snapshot_download(str(source), revision=revision, allow_patterns=files))
    expected = "a model or a folder (a name on the hub only with its revision, such as 'main')"
    check_that(folder.is_dir(), "source", expected, str(source))
    shards = _shards(folder)

    def get(name):
        with safe_open(folder / shards[name][1], "pt") as tensors:
            return tensors.get_tensor(name).clone()  # in memory of its own

    if saved is None:
        saved = read_json("source", folder / "config.json")
    return Source(saved, {name: shape for name, (shape, _) in shards.items()}, get)


# ---- there and back


def _zeros(shape):
    return torch.zeros(shape)


def _sines_then_cosines(shape):  # (max_len, d_model)
    table = sinusoid_table(*shape)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


MAKERS = {"zeros": _zeros, "sines_then_cosines": _sines_then_cosines}  # as families.toml has them


def from_hugging_face(
    source: nn.Module | str | Path,  # a model of theirs, its folder, or its name on the hub
    revision: str | None = None,  # of a name on the hub, such as 'main'; None reads no hub
) -> nn.Module:  # LanguageModel, Classifier, MaskedLanguageModel or EncoderDecoder, in eval mode
    "A model of theirs as our modules. Raises `ValueError` or `TypeError` if ours can't compute it."
    if isinstance(source, nn.Module):
        return _build(_open_model(source))
    source = check_path("source", source)
    with reading("source", f"a model that ours can be in {str(source)!r}"):
        return _build(_open_folder(source, revision))


def _plan(source):  # -> family, model without numbers, its routes, the names that they ask for
    "How a source becomes a model of ours. Nothing is read but shapes, unless a copy is doubtful."
    family, kind, config, arguments = read_config(source.saved)
    if config.tied_head and kind is not BertClassifier:  # which has no logits for tokens
        if _is_untied(source, family):
            config = replace(config, tied_head=False)
    with torch.device("cpu"), no_random_weights():
        if kind is BertMaskedLanguageModel:
            model = kind(BertClassifier(config, **arguments))
        else:
            model = kind.from_config(config, **arguments)
    routes = list(_routes(model, family))
    return family, model, routes, _match(source.shapes, routes, family)


def _build(source):
    "Our model of a source, with the numbers of its tensors."
    family, model, routes, names = _plan(source)
    shapes = {name: t.shape for name, t in model.state_dict().items()}
    state = {}
    for route in routes:
        t = _fetch(route, names, source, family).reshape(shapes[route.ours])
        state[route.ours] = t
    tied = tied_names(model)
    for name, shape in shapes.items():
        if name not in state and name not in tied:  # what theirs have not starts anew
            state[name] = torch.zeros(shape) if len(shape) < 2 else torch.randn(shape) * 0.02
    model._their_tokens = {key: source.saved[key] for key in TOKENS if key in source.saved}
    return fill_model(model, state)


def _fetch(route, names, source, family):
    "The numbers of one of our tensors, in float32."
    parts = []
    for name, shape in route.theirs.items():
        if name in names:
            part = source.get(names[name]).detach()
        else:
            maker = family.absent.get(name) or family.computed[name]
            part = MAKERS[maker](shape)
        fits = part.is_floating_point() and part.element_size() > 1  # 8 bits would need a scale
        check_that(
            fits, "source", f"floating-point numbers in {name}, of 16 bits or more", part.dtype
        )
        part = part.cpu().float()
        if route.transposed:
            part = part.T
        parts.append(part[route.skipped :])
    whole = parts[0]
    if len(parts) > 1 or route.skipped:
        whole = torch.cat(parts)
    if route.third is not None:
        whole = whole.chunk(3)[route.third].clone()  # of its own, not a part of theirs
    return whole


def _token_ids(model, tokenizer):
    "Keys that say which tokens begin, end and fill a text, and which are never written."
    config = _with_config(model).config
    if tokenizer is not None:
        check_vocabulary(config, tokenizer)
        ends = _token_list(tokenizer.stops["eos_token_ids"])
        pad = None if isinstance(tokenizer, HuggingFaceTokenizer) else PAD
        ids = {"bos_token_id": next(iter(tokenizer.before), None), "pad_token_id": pad}
        ids["eos_token_id"] = ends[0] if len(ends) == 1 else ends or None
        ids["suppress_tokens"] = list(tokenizer.stops.get("suppress_tokens", ())) or None
    elif hasattr(model, "_their_tokens"):
        ids = model._their_tokens
    elif isinstance(model, LanguageModel) and config.vocab_size > EOS:
        ids = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    else:
        ids = {}
    return {key: value for key, value in ids.items() if value is not None}


def to_hugging_face(
    model: nn.Module,  # LanguageModel, BertClassifier or another that a family has
    folder: str | Path,  # made where it is missing
    tokenizer: TextTokenizer | None = None,  # its numbers for the ends of a text are written
    **more: Any,  # of config.json, such as eos_token_id
) -> None:
    """Write `config.json` and safetensors that `transformers` reads. Raises as `write_config`.

    So that its `generate` knows where a text ends, `generation_config.json` says which tokens begin
    and end one. They are the tokenizer's, or those that a model of theirs came with. Without
    either, they are the numbers that all our tokenizers have: 1 begins, 2 ends, and 0 fills a row.
    """
    saved = write_config(model)
    ids = _token_ids(model, tokenizer)
    never = ids.pop("suppress_tokens", None)
    saved = {**saved, **ids, **more}
    written = {key: saved[key] for key in sorted(TOKENS) if saved.get(key) is not None}
    if never and "suppress_tokens" not in written:
        written["suppress_tokens"] = never
    state = model.state_dict()
    family = FAMILIES[saved["model_type"]]
    tensors = {}
    thirds: dict[str, list] = {}  # their name -> queries, keys and values
    for route in _routes(model, family):
        t = state[route.ours].detach().cpu()
        if route.third is None:
            tensors.update(_split(route, t))
            continue
        [name] = route.theirs
        thirds.setdefault(name, []).append(t)
        if route.third == 2:
            tensors.update(_split(route, torch.cat(thirds[name])))
    for name, maker in family.computed.items():  # theirs computes what it does not read
        same = torch.equal(tensors[name], MAKERS[maker](tensors[name].shape))
        check_that(same, "model", f"{name} as theirs computes it", "another")
    with atomic_write(folder) as temporary:
        safetensors.save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
        _write_json(temporary / "config.json", saved)
        if isinstance(model, (LanguageModel, EncoderDecoder)) and written:
            _write_json(temporary / "generation_config.json", written)


def _write_json(file, value):
    file.write_text(json.dumps(value, indent=2, sort_keys=True), encoding="utf-8")


def _split(route, t):
    "Their tensors, by name, of which `route` makes ours."
    if route.skipped:
        t = torch.cat([t.new_zeros(route.skipped, t.shape[1]), t])
    rows = [shape[-1 if route.transposed else 0] for shape in route.theirs.values()]
    parts = t.split(rows) if len(rows) > 1 else [t]
    tensors = {}
    for (name, shape), part in zip(route.theirs.items(), parts):
        if route.transposed:
            part = part.T
        tensors[name] = part.contiguous().reshape(shape)
    return tensors


# ---- with a tokenizer


def _token_list(value):
    "A key of theirs may have one token, several or none."
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def _special_tokens(folder, saved):
    """The tokens that end a text, that are never written, and with which a translation begins.

    What else `generation_config.json` asks of a text, and our loops don't do, is a warning.
    """
    family = FAMILIES[saved["model_type"]]
    values = dict(family.defaults)
    file = folder / "generation_config.json"
    written = read_json("source", file) if file.exists() else {}
    for source in (saved, written):
        for name, value in source.items():
            if value is not None:
                values[name] = value
    notes = generation_notes(written if file.exists() else saved)
    if notes:
        name = file.name if file.exists() else "config.json"
        warnings.warn(
            f"{name} asks for {', '.join(notes)}, which ours doesn't do when it writes a text",
            stacklevel=2,
        )
    never = _token_list(values.get("suppress_tokens"))
    for words in values.get("bad_words_ids") or []:
        if len(words) == 1:
            never += words
    special = {"eos_token_ids": _token_list(values.get("eos_token_id"))}
    if "decoder_start_token_id" in values:
        start = [values["decoder_start_token_id"], values.get("forced_bos_token_id")]
        special["start"] = [token for token in start if token is not None]
        never = _token_list(values.get("pad_token_id")) + never
    special["suppress_tokens"] = list(dict.fromkeys(never))
    return special


def load_folder(
    folder: Path,  # as Hugging Face writes it, with a tokenizer
    saved: dict,  # what its config.json holds
) -> Loaded:  # model, tokenizer, labels
    "What `load_model` returns for such a folder."
    model = _build(_open_folder(folder, saved=saved))
    config = _with_config(model).config
    special = _special_tokens(folder, saved)
    tokenizer = HuggingFaceTokenizer.from_folder(folder, config.vocab_size, **special)
    if isinstance(model, BertMaskedLanguageModel):  # which has no labels
        check_vocabulary(config, tokenizer)
        return Loaded(model, tokenizer, None)
    labels = _class_names(saved, getattr(model, "n_classes", 0)) or None
    check_pair(model, tokenizer, labels)
    return Loaded(model, tokenizer, labels)
