"""A model and what belongs to it, saved and loaded together.

A model without its tokenizer is useless, and with another tokenizer of the same size it writes
nonsense without an error. So `save_model` writes both, and the labels of a classifier. The weights
carry the SHA-256 of every other file of the folder, and `load_model` compares.

Three trained models travel with the package, `names`, `numbers` and `shakespeare`. `load_model`
takes their names, too, where no folder is called so, and it never asks the hub. It makes each class
of model that has entered itself (`Pretrained`), and reads folders of Hugging Face's.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import torch as safetensors
from torch import nn

from ..base.checkpoints import atomic_write, read_tensors, write_tensors
from ..base.files import check_path, find_model, read_bytes, read_json, reading
from ..base.guards import check_choice, check_that
from ..data.tokenization import load_tokenizer
from ..data.tokens import TextTokenizer, both_sides

# each of these modules enters its models
from ..models import (  # noqa: F401
    baselines,
    bigrams,
    classifier,
    encoder_decoder,
    language_model,
)
from ..models.masked_language import MaskedLanguageModel
from ..models.pretrained import (
    CONFIG,
    MODEL_CLASSES,
    WEIGHTS,
    Loaded,
    build_model,
    check_pair,
    fill_model,
)
from .hugging_face import load_folder

__all__ = ["save_model", "load_model"]

LABELS = "labels.json"


def save_model(
    folder: str | Path,  # made where it is missing
    model: nn.Module,  # of a class that enters itself as `Pretrained`
    tokenizer: TextTokenizer | tuple,  # or (source, target) of a translator
    labels: list[str] | None = None,  # of a classifier, in the order of their numbers
) -> None:
    "Write all that `load_model` needs, each file whole. A `README.md` that is there stays."
    expected = "a module, which comes after its folder: save_model(folder, model, tokenizer)"
    check_that(isinstance(model, nn.Module), "model", expected, type(model).__name__, TypeError)
    whole: Any = model
    expected = "one that is saved alone: its `encoder`, or BERT's whole by `to_hugging_face`"
    alone = not isinstance(whole, MaskedLanguageModel)
    check_that(alone, "model", expected, type(whole).__name__)
    check_pair(whole, tokenizer, labels)
    folder = check_path("folder", folder)
    with atomic_write(folder) as temporary:
        card = Path(folder, "README.md")
        if card.exists():
            shutil.copy(card, temporary)
        whole.save_pretrained(temporary, repo_id=Path(folder).name)
        saver = both_sides(tokenizer) if isinstance(tokenizer, (tuple, list)) else tokenizer
        saver.save(temporary)
        if labels is not None:
            text = json.dumps(list(labels), ensure_ascii=False, indent=2)
            (temporary / LABELS).write_text(text, encoding="utf-8")
        saved = json.loads((temporary / CONFIG).read_text(encoding="utf-8"))
        saved = {"architectures": [type(whole).__name__], **saved}
        (temporary / CONFIG).write_text(json.dumps(saved, indent=2), encoding="utf-8")
        sums = {file.name: _hash(file) for file in temporary.glob("*.json")}
        weights = temporary / WEIGHTS
        write_tensors(weights, safetensors.load_file(weights), json.dumps(sums, sort_keys=True))


def _hash(file):
    return hashlib.sha256(read_bytes("model", file)).hexdigest()


def load_model(
    folder: str | Path,  # of `save_model` or of Hugging Face, or the name of a model that ships
    device: torch.device | str = "cpu",
) -> Loaded:  # model, tokenizer, labels
    """A trained model and what belongs to it. Raises `ValueError` where a file is of another model.

    The sums that tie the files are against accidents, not against people: whoever forges a folder
    forges them too, or ties nothing. Nothing of what is read is run.
    """
    device = torch.device(device)
    folder = find_model(folder)
    with reading("model", f"a whole model in {str(folder)!r}"):
        saved = read_json(CONFIG, folder / CONFIG)
        if "model_type" in saved:  # Hugging Face's name for a kind of model
            loaded = load_folder(folder, saved)
        else:
            loaded = _load_own(folder, saved)
    return loaded._replace(model=loaded.model.to(device))


def _load_own(folder, saved):
    "What `save_model` wrote."
    names = [[name] for name in MODEL_CLASSES]
    check_choice("architectures", saved.get("architectures"), names)
    [name] = saved["architectures"]
    model = build_model(MODEL_CLASSES[name], saved)
    tensors, sums = read_tensors("model", folder / WEIGHTS)
    for file, sum_of_file in sums.items():
        if not (folder / file).is_file() or _hash(folder / file) != sum_of_file:
            raise ValueError(f"model: {file} in {str(folder)!r} does not belong to these weights")
    labels = read_json(LABELS, folder / LABELS, list) if LABELS in sums else None
    tokenizer = load_tokenizer(folder)
    check_pair(model, tokenizer, labels)
    return Loaded(fill_model(model, tensors), tokenizer, labels)
