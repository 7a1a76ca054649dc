"""Families of Hugging Face's models: what GPT-2, BERT, BART and others call sizes and tensors.

The names are data, in families.toml beside this module. So a family that is built of our parts is
added without a line of code: a file with its names, and `add_families(file)`. One that computes
something else needs a small model of its own first, an heir as those in bert.py and bart.py.
"""

import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..base.files import check_keys, check_path, read_whole, reading
from ..base.guards import check_that, check_type

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Family",
    "FAMILIES",
    "ACTIVATIONS",
    "add_families",
]


@dataclass(frozen=True)
class Family:
    "How Hugging Face writes a kind of Transformer."

    # the configuration
    architectures: dict[str, str]  # theirs -> the name of our class
    fields: dict[str, str]  # of `TransformerConfig` -> theirs in config.json
    shape: dict[str, Any]  # fields of `TransformerConfig` that all models of the family share
    arguments: dict[str, str] = field(default_factory=dict)  # of our class -> theirs
    d_ff_factor: int = 0  # where there is no d_ff, it is d_model so many times; 0 demands one
    defaults: dict[str, Any] = field(default_factory=dict)  # theirs -> what an absent one means
    fixed: dict[str, Any] = field(default_factory=dict)  # theirs -> the only value we cover
    harmless: list[str] = field(default_factory=list)  # theirs that change no number
    windowed: bool = False  # a `sliding_window` is in force in all layers
    same: dict[str, str] = field(default_factory=dict)  # theirs -> theirs of the same value
    written: dict[str, Any] = field(default_factory=dict)  # theirs -> a value to be written
    written_as: dict[str, str] = field(default_factory=dict)  # theirs -> theirs, for its value

    # the tensors
    modules: dict[str, str] = field(default_factory=dict)  # ours -> theirs, joined along our rows
    prefix: str = ""  # may be absent before their names
    copies: dict[str, str] = field(default_factory=dict)  # tensors -> others that they repeat
    absent: dict[str, str] = field(default_factory=dict)  # files may lack it -> how it is made
    computed: dict[str, str] = field(default_factory=dict)  # the same, and never another
    flat: list[str] = field(default_factory=list)  # with an axis of size 1 before ours
    skipped: int = 0  # so many rows of a table of positions are never read
    # these are regular expressions
    anew: str = ""  # ours that theirs have not
    spare: str = ""  # theirs that are of no use to us
    thirds: str = ""  # theirs that hold queries, keys and values
    transposed: str = ""  # theirs that lie on their side


FAMILIES: dict[str, Family] = {}  # `model_type` in config.json -> how it is written
ACTIVATIONS: dict[str, str] = {}  # theirs -> ours
OWN = ("architectures",)  # what a family does not take over from the one it is like


def _merge(base: dict, changes: dict) -> dict:
    "The tables of one family with those of another before them."
    merged = {name: value for name, value in base.items() if name not in OWN}
    for name, value in changes.items():
        if isinstance(value, dict):
            value = {**merged.get(name, {}), **value}
        merged[name] = value
    return merged


def _tables(family: Family) -> dict:
    return {f.name: getattr(family, f.name) for f in fields(Family)}


def _resolve(name: str, tables: dict) -> dict:
    "The tables of a family, those of the family that it is like among them."
    changes = dict(tables[name])
    base_name = changes.pop("like", None)
    if base_name is None:
        return changes
    if base_name in tables:
        return _merge(_resolve(base_name, tables), changes)
    check_that(base_name in FAMILIES, "like", f"one of {', '.join(FAMILIES)}", base_name)
    return _merge(_tables(FAMILIES[base_name]), changes)


def add_families(
    file: str | Path,  # TOML with tables `families` and perhaps `activations`
) -> None:
    """Let `load_model`, `from_hugging_face` and `to_hugging_face` know further families of models.

    A family is the `model_type` of a config.json, and its table says what that file and the tensors
    call our parts. The keys of a table are those of `Family`. With `like`, it takes over all tables
    of another family and says only what differs, as StarCoder2 does on the page *Pretrained models*
    in twenty lines:

        [families.starcoder2]
        like = "llama"
        [families.starcoder2.architectures]
        Starcoder2ForCausalLM = "LanguageModel"
        [families.starcoder2.fields]
        norm_eps = "norm_epsilon"

    `fields` gives theirs for ours, `shape` what all models of the family share, `fixed` what
    config.json has to say, `harmless` keys that change no number, and `modules` theirs for our
    layers, where {i} is the number of a block. `activations` names further functions. A family is
    known until the program ends. Raises `ValueError`, naming the file, for what describes none.
    """
    path = check_path("file", file)
    new = {}
    with reading("file", f"families in {str(file)!r}"):
        saved = tomllib.loads(read_whole("file", path).replace("\r\n", "\n"))
        check_keys("tables", saved, ["activations", "families"])
        tables = saved.get("families", {})
        for name in tables:
            described = _resolve(name, tables)
            check_keys(name, described, [f.name for f in fields(Family)])
            new[name] = Family(**described)
        activations = saved.get("activations", {})
        check_type("activations", activations, dict)
    ACTIVATIONS.update(activations)
    FAMILIES.update(new)


add_families(Path(__file__).with_name("families.toml"))
