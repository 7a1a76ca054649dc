"""What makes a class of models one that can be saved: a mixin below the models, which knows none.

A finished model is a few files: its sizes in `config.json`, its weights in `model.safetensors`. The
mixin of `huggingface_hub` writes them into a folder or on the hub, and `Pretrained` adds four
things. Files appear whole. What is read may come from anybody, so nothing of it is run and each
failure is one sentence. The hub is asked only where you name a revision, so that a mistyped folder
never becomes a name there. And each class enters itself under its name, for `load_model`, which
knows what is entered.
"""

import inspect
import re
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from tqdm import TqdmWarning

from ..base.checkpoints import atomic_write, read_safetensors
from ..base.core import tied_names
from ..base.files import (
    check_keys,
    check_path,
    read_json,
    reading,
)
from ..base.guards import check_choice, check_that, check_type
from ..data.tokens import TextTokenizer, both_sides, check_tokenizer
from .build import PARTS
from .config import TransformerConfig
from .initialization import no_random_weights

with warnings.catch_warnings():  # it imports tqdm.auto, which warns without ipywidgets
    warnings.simplefilter("ignore", TqdmWarning)
    from huggingface_hub import PyTorchModelHubMixin, hf_hub_download

__all__ = [
    "MODEL_CLASSES",
    "CONFIG",
    "WEIGHTS",
    "Pretrained",
    "build_model",
    "fill_model",
    "Loaded",
    "check_vocabulary",
    "check_pair",
]

Model = TypeVar("Model", bound=nn.Module)
Heir = TypeVar("Heir", bound="Pretrained")

MODEL_CLASSES: dict[str, type] = {}  # name in config.json -> class; each enters itself
CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def _as_json(value):
    "A configuration as a dict, and any other argument as it is."
    if isinstance(value, TransformerConfig):
        return asdict(value)
    return value


class Pretrained(PyTorchModelHubMixin):
    """Saves and loads our models through the Hugging Face hub: safetensors and JSON, atomically.

    A class is made from a `config`, or of parts. For one of parts, `models/build.py` says which
    parts a configuration stands for.
    """

    config: Any = None  # a `TransformerConfig`; a model that was made of parts by hand has none
    init_args: dict[str, Any]  # what else it was made from; not there if made by hand

    def __init_subclass__(cls, **kwargs: Any) -> None:
        "Enter the class under its name, which stays with the package where the package has it."
        super().__init_subclass__(**kwargs)
        package = __name__.partition(".")[0]
        before = MODEL_CLASSES.get(cls.__name__)
        if before is None or before.__module__.partition(".")[0] != package:
            MODEL_CLASSES[cls.__name__] = cls

    def __new__(cls: type[Heir], *args: Any, **kwargs: Any) -> Heir:
        "Note what `__init__` takes beside `config`, to be saved with it."
        model = super().__new__(cls, *args, **kwargs)
        values = [*args, *kwargs.values()]
        configs = [value for value in values if isinstance(value, TransformerConfig)]
        if configs and "config" not in _argument_names(cls):
            expected = f"parts, or `{cls.__name__}.from_config(config)`, which makes them"
            raise TypeError(f"{cls.__name__}: expected {expected}, got a configuration")
        try:
            given = inspect.signature(cls.__init__).bind(model, *args, **kwargs)
        except TypeError:  # `__init__` says what is wrong; a copy brings its own
            return model
        given.apply_defaults()
        _, *arguments = given.arguments.items()  # without the model
        if not any(isinstance(value, nn.Module) for _, value in arguments):
            model.init_args = {name: value for name, value in arguments if name != "config"}
        return model

    @classmethod
    def from_config(
        cls: type[Heir],
        config: TransformerConfig,  # sizes and choices, saved beside the weights
        *args: Any,  # further ones, such as n_classes of a `Classifier`
        **kwargs: Any,
    ) -> Heir:
        "A model with new weights. Raises `ValueError` for one that this machine cannot hold."
        check_type("config", config, TransformerConfig)
        if "config" in _argument_names(cls):
            return cls(config, *args, **kwargs)
        parts = _parts_of(cls)
        expected = "a class that takes a `config`, or an heir of one of ours"
        check_that(parts is not None, "from_config", expected, cls.__name__, TypeError)
        given = inspect.signature(parts).bind(config, *args, **kwargs)
        given.apply_defaults()
        model = cls(**parts(**given.arguments))
        model.config = given.arguments.pop("config")
        model.init_args = given.arguments
        return model

    @property
    def tgt_config(self) -> Any:
        "The configuration of a translator's target, or `config` if both share it; else None."
        if not hasattr(self, "tgt_embed"):
            return None
        return getattr(self, "init_args", {}).get("tgt_config") or self.config

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> Any:
        """Write `config.json`, `model.safetensors` and, where there is none, a `README.md`.

        Raises `ValueError` for a model of ours that was changed so that another would be loaded.
        """
        save_directory = check_path("save_directory", save_directory)
        kwargs.setdefault("repo_id", save_directory.name)
        model = _as_configured(self)
        values = {}
        if model.config is not None:
            values.update(_as_json(model.config))
        for name, value in getattr(model, "init_args", {}).items():
            values[name] = _as_json(value)
        if kwargs.get("config") is None:  # as the mixin gives it before it pushes
            kwargs["config"] = values
        with atomic_write(save_directory, "save_directory") as folder:
            result = PyTorchModelHubMixin.save_pretrained(model, folder, **kwargs)
            if (save_directory / "README.md").exists():
                (folder / "README.md").unlink(missing_ok=True)
        return result

    @classmethod
    def from_pretrained(
        cls: type[Heir],
        pretrained_model_name_or_path: str | Path,  # a folder, or a name on the hub
        revision: str | None = None,  # of a name on the hub, such as 'main'; None reads no hub
        **hub: Any,  # as for `hf_hub_download`, such as `token`
    ) -> Heir:
        "Load from a folder or the hub, in eval mode. Raises `ValueError` for what is not whole."
        folder = check_path("model", pretrained_model_name_or_path)
        if not folder.is_dir():
            expected = "a folder, or a name on the hub with its revision, such as 'main'"
            expected += " (`from_hugging_face` makes ours of models that are not)"
            check_that(revision is not None, "model", expected, str(folder))
            name = folder.as_posix()
            with reading("model", f"a folder, or a name that the hub has, got {name!r}"):
                for file in (CONFIG, WEIGHTS):
                    downloaded = hf_hub_download(name, file, revision=revision, **hub)
            folder = Path(downloaded).parent
        with reading("model", f"a whole model in {str(folder)!r}"):
            saved = read_json(CONFIG, folder / CONFIG)
            theirs = saved.get("model_type")  # Hugging Face's name for a kind of model
            expected = "one of ours (`from_hugging_face` makes ours of others)"
            check_that(theirs is None, "model", expected, theirs)
            model = build_model(cls, saved)
            tensors, _ = read_safetensors("model", folder / WEIGHTS)
            return fill_model(model, tensors)


def _argument_names(cls):
    return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]


def _parts_of(cls):
    "What makes the parts of a class, or of one that it is an heir of; None for any other."
    for kind in cls.__mro__:
        if kind.__name__ in PARTS:
            return PARTS[kind.__name__]
    return None


def _is_made_here(cls):
    "Whether this package makes its parts; an `__init__` of somebody else's may make anything."
    return cls.__init__.__module__.partition(".")[0] == __name__.partition(".")[0]


WRAPPERS = ("parts", "angle_tables")  # modules of classes that compute what a lesson's does


def _lessons_class(part):
    "The class of a part, or that of the lesson which it stands for."
    kinds = type(part).__mro__
    return next(kind for kind in kinds if kind.__module__.rpartition(".")[2] not in WRAPPERS)


def _described(model):
    """The class of each part and the shape of each weight, in words; and the settings of the parts.

    Its `forward` is its class's, unless something is wrapped around it for as long as a run lasts.
    The probability of a dropout, `p`, changes no answer.
    """
    passing = ("training", "config", "init_args", "forward", "p")
    classes = {}
    settings = {}
    for name, part in model.named_modules(remove_duplicate=False):
        kind = _lessons_class(part)
        classes[f"the class of {name or 'the model'}"] = f"{kind.__module__}.{kind.__name__}"
        for key, value in vars(part).items():
            if not key.startswith("_") and key not in passing:
                settings[f"{name}.{key}"] = repr(value)
    shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    return classes | shapes, settings


def _as_configured(model):
    """A model with the weights of this one, as its configuration makes it, for whoever loads it.

    Raises `ValueError` if the configuration makes another model. What makes a class of somebody
    else's nobody knows, so such a model stays as it is.
    """
    cls: Any = type(model)
    arguments = getattr(model, "init_args", None)
    by_hand = arguments is None
    made_by_us = _parts_of(cls) is not None if by_hand else _is_made_here(cls)
    if not made_by_us:
        return model
    has_config = isinstance(model.config, TransformerConfig)
    expected = "a configuration to save with it, as in `model.config = TransformerConfig(...)`"
    check_that(has_config, "model", expected, f"a {cls.__name__} made of parts, without one")
    if by_hand:
        names = [n for n in _saved_names(cls) if n not in ("config", "tgt_config")]
        arguments = {name: getattr(model, name) for name in names if hasattr(model, name)}
    with torch.device("cpu"), no_random_weights():
        again = cls.from_config(model.config, **arguments)
    _refuse_difference(model, again)
    state = model.state_dict()
    for name in tied_names(model).keys() - tied_names(again).keys():
        state[name] = state[name].clone()  # of one module that stands in two places
    again.load_state_dict(state, assign=True)
    return again


def _refuse_difference(model, again):
    "Raise `ValueError` unless a model is what its configuration makes, whatever its weights are."
    ours, settings = _described(model)
    theirs, made = _described(again)
    for name in [name for name in made if name in settings]:  # a wrapper may have more
        ours[name] = settings[name]
        theirs[name] = made[name]
    for name in [*ours, *theirs]:
        expected = theirs.get(name, "nothing")
        came = ours.get(name, "nothing")
        check_that(expected == came, "model.config", f"{expected} for {name}", came)
    for name, first in tied_names(again).items():
        one = model.get_parameter(first)
        other = model.get_parameter(name)
        expected = f"one weight for {first} and {name}"
        if not hasattr(model, "tgt_embed"):
            expected += ", or tied_head=False"
        check_that(one.equal(other), "model.config", expected, "two that differ")


def _saved_names(cls):
    "What a model of this class is made from again: its configuration and further arguments."
    names = _argument_names(cls)
    if "config" in names or _parts_of(cls) is None:
        return names
    return list(inspect.signature(_parts_of(cls)).parameters)


def build_model(
    cls: Any,  # an heir of `Pretrained`
    saved: dict,  # what its config.json holds
) -> Any:  # a model without its weights
    "Raises `ValueError` or `TypeError` if it can't be built."
    names = _saved_names(cls)
    fields = list(TransformerConfig.__dataclass_fields__) if "config" in names else []
    arguments = {name: saved[name] for name in names if name in saved and name != "config"}
    check_keys(CONFIG, saved, ["architectures", *fields, *(n for n in names if n != "config")])
    if not fields:
        with no_random_weights():
            return cls(**arguments)
    arguments["config"] = {name: saved[name] for name in fields if name in saved}
    for name in ("config", "tgt_config"):
        if arguments.get(name) is not None:
            check_keys(name, arguments[name], fields)
            arguments[name] = TransformerConfig(**arguments[name])
    with no_random_weights():
        return cls.from_config(**arguments)


OLD_NAMES = [  # version 0.3 called several kinds of modules `positions`
    (r"embed\.positions\.positions\.", "embed.position_embedding.position_embedding."),
    (r"embed\.positions\.", "embed.position_embedding."),
    (r"(stack|encoder|decoder)\.positions\.", r"\1.rotary."),
]


def todays_name(
    name: str,  # of a weight, in a file of any version
) -> str:
    "The current name of a weight."
    for old, new in OLD_NAMES:
        name = re.sub(old, new, name)
    return name


def fill_model(
    model: Model,  # changed in place
    tensors: dict[str, torch.Tensor],  # name -> weight; tied ones under one of their names
) -> Model:
    "The model with these weights, in eval mode. Raises `ValueError` unless all of them are there."
    state = model.state_dict()
    tensors = {todays_name(name): t for name, t in tensors.items()}
    more = sorted(tensors.keys() - state.keys())
    check_that(not more, WEIGHTS, "only tensors of this model", more)
    given = {state[name].data_ptr() for name in tensors}  # tied weights are saved once
    lost = [n for n, t in state.items() if n not in tensors and t.data_ptr() not in given]
    check_that(not lost, WEIGHTS, f"also {', '.join(lost)}", "no tensor of this name")
    for name, t in tensors.items():
        ours = state[name]
        shape = tuple(ours.shape)
        check_that(t.shape == shape, name, f"shape {shape}", tuple(t.shape))
        fits = t.is_floating_point() == ours.is_floating_point()
        fits = fits and (t.element_size() > 1 or not t.is_floating_point())  # 8 bits need a scale
        check_that(fits, name, f"numbers as {ours.dtype}", t.dtype)
    _warn_unless_finite(tensors)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, t in tensors.items():
        if name in parameters:  # has the memory that was read, not a copy of it
            t = t.to(parameters[name]).contiguous()
            whole = t.untyped_storage().nbytes() == t.nbytes
            parameters[name].data = t if whole else t.clone()
    model.load_state_dict(tensors, strict=False)
    return model.eval()


def _warn_unless_finite(tensors):
    "Warn of NaN and infinity. A broken model can be looked into, but nobody should write with it."
    broken = []
    for name, t in tensors.items():
        if t.is_floating_point() and t.numel():
            low, high = t.aminmax()  # takes no memory, and NaN is both
            if not (low.isfinite() and high.isfinite()):
                broken.append(name)
    if broken:
        listed = ", ".join(broken[:5]) + (", …" if len(broken) > 5 else "")
        warnings.warn(f"model: NaN or infinity among the weights, in {listed}", stacklevel=2)


class Loaded(NamedTuple):
    "What `load_model` returns."

    model: Any  # an `nn.Module` of the class that the folder names, in eval mode
    tokenizer: Any  # a `TextTokenizer`, or a `TokenizerPair` of a translator
    labels: list[str] | None  # of a classifier, in the order of their numbers


def check_vocabulary(
    config: TransformerConfig,  # of a model, or of a translator's source
    tokenizer: TextTokenizer | tuple,  # or (source, target)
    tgt_config: TransformerConfig | None = None,  # of a translator's target
) -> None:
    "Raise `TypeError` or `ValueError` unless a tokenizer has as many tokens as the model."
    if tgt_config is None:
        check_tokenizer(tokenizer)
    source = config.vocab_size
    target = (tgt_config or config).vocab_size
    expected = f"the model's {source} tokens"
    if source != target:
        expected = f"a pair (source, target) with the model's {source} and {target} tokens"
    sizes = tuple(side.vocab_size for side in both_sides(tokenizer))
    came = sizes if sizes[0] != sizes[1] else sizes[0]
    check_that(sizes == (source, target), "tokenizer", expected, came)


def check_pair(
    model: nn.Module,
    tokenizer: TextTokenizer | tuple,  # or (source, target) of a translator
    labels: list[str] | None = None,  # of a classifier
) -> None:
    "Raise `TypeError` or `ValueError` unless a model, a tokenizer and labels may belong together."
    check_choice("model", type(model).__name__, MODEL_CLASSES)
    config: Any = getattr(model, "config", None)
    has_config = isinstance(config, TransformerConfig)
    expected = "one with a configuration, as in `model.config = TransformerConfig(...)`"
    check_that(has_config, "model", expected, type(model).__name__)
    check_vocabulary(config, tokenizer, getattr(model, "tgt_config", None))
    n_classes = getattr(model, "n_classes", None)
    if labels is not None or n_classes is not None:
        expected = "None for a model without classes"
        if n_classes:
            expected = f"the names of its {n_classes} classes in a list, as many different strings"
        listed = isinstance(labels, (list, tuple))
        came = labels if listed or labels is None else type(labels).__name__
        check_that(listed, "labels", expected, came, TypeError)
        given = list(labels or [])
        names = {name for name in given if isinstance(name, str)}
        check_that(len(given) == len(names) == n_classes, "labels", expected, labels)
