"""Our models in Hugging Face's `Trainer`, for whoever has a training script of that kind already.

`fit` needs none of this. `Trainer` gives a model the parts of a batch by name, and wants the loss
back beside the logits. It sets `use_cache` in a model's configuration, which is frozen in ours. And
its files of weights refuse a matrix that has two names, as embeddings and a tied head have.
`ForTrainer` is a model around ours that has no configuration and names each weight once. What it
trains is your model:

    rows = encode_texts(names, tokenizer)
    by_names = by_name(collate)
    trainer = Trainer(ForTrainer(model), arguments, data_collator=by_names, train_dataset=rows)
    trainer.train()
    save_model("runs/mine", model, tokenizer)
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from ..base.core import tied_names
from ..base.guards import check_type
from .losses import call, token_loss

__all__ = [
    "ForTrainer",
    "by_name",
]


class ForTrainer(nn.Module):
    "A model that maps inputs to logits, as Hugging Face's `Trainer` expects one."

    def __init__(
        self,
        model: nn.Module,  # trained in place, such as a `LanguageModel`
        loss: Callable = token_loss,  # maps (logits, targets) to a scalar
    ):
        super().__init__()
        check_type("model", model, nn.Module)
        check_type("loss", loss, Callable)
        self.model = model
        self.loss = loss
        self.register_state_dict_post_hook(_name_once)
        self.register_load_state_dict_pre_hook(_name_again)

    def forward(
        self,
        inputs: torch.Tensor | tuple,  # what the model takes, a tensor or several
        labels: torch.Tensor,  # the targets
    ) -> dict[str, torch.Tensor]:
        "The loss, and the logits that it is made from."
        logits = call(self.model, inputs)
        return {"loss": self.loss(logits, labels), "logits": logits}


def _name_once(model, state, prefix, metadata):
    "Of the names of a weight the first one stays."
    for name in tied_names(model):
        state.pop(prefix + name, None)


def _name_again(model, state, prefix, *rest):
    "Each other name of a weight gets it from the first one."
    for name, first in tied_names(model).items():
        if prefix + first in state:
            state.setdefault(prefix + name, state[prefix + first])


def by_name(
    collate: Callable,  # rows -> (inputs, targets), such as `collate` of lesson 07
) -> Callable:  # rows -> what `ForTrainer` takes, for `Trainer`'s `data_collator`
    "The parts of a batch by name."
    check_type("collate", collate, Callable)
    return partial(_collate_by_name, collate)


def _collate_by_name(collate, rows):
    inputs, labels = collate(rows)
    return {"inputs": inputs, "labels": labels}
