"""Which models the written-out step may compute, and whether a model is still what it was.

`DecodeStep` computes what the library's own classes compute, from a copy of their weights. So it
asks three questions. Is each part of a model one of these classes, as the library wrote it, with
nothing that watches or replaces it (`unknown_part`)? Is the model still the one that was copied
(`Snapshot`)? And does one token come out the same both ways? That one `DecodeStep` asks itself,
since only it can compute the token. A no to any of them, and the modules compute.
"""

import operator
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils.parametrize import ParametrizationList

from ..attention.multi_head import MultiHeadAttention
from ..attention.positions import LearnedPositions, Rotary, SinusoidalPositions
from ..attention.relative_positions import ALiBi, DistanceBias, RelativeBias, ScaledRotary
from ..models.bart import BartEncoderDecoder
from ..models.block import Block, FeedForward, Stack
from ..models.build import WideCrossAttention
from ..models.embedding import Embedding
from ..models.encoder_decoder import CrossAttention, Decoder, DecoderBlock, EncoderDecoder
from ..models.fine_tuning import LowRank
from ..models.hub_config import EmbedNorm
from ..models.language_model import LanguageModel
from ..models.modern_decoder import GroupedQueryAttention, RMSNorm, SwiGLU
from ..models.post_norm import PostNormBlock, PostNormDecoderBlock

__all__ = ["unknown_part", "Snapshot"]

KNOWN = {  # parts of models that the step writes out
    *(LanguageModel, EncoderDecoder, BartEncoderDecoder, Stack, Decoder, nn.ModuleList),
    *(Block, DecoderBlock, PostNormBlock, PostNormDecoderBlock, FeedForward, SwiGLU),
    *(MultiHeadAttention, GroupedQueryAttention, CrossAttention, WideCrossAttention),
    *(nn.Linear, nn.Dropout, nn.LayerNorm, nn.RMSNorm, RMSNorm, nn.Identity),
    *(nn.Embedding, Embedding, EmbedNorm),
    *(LearnedPositions, SinusoidalPositions, Rotary, ScaledRotary, ALiBi, RelativeBias),
    # a weight is read with its difference of low rank
    *(nn.ModuleDict, ParametrizationList, LowRank),
}
EVERY_CALL = ("__call__", "_call_impl", "_wrapped_call_impl")  # of any module


def _methods(kind):
    "What a class computes with: its functions and those it inherits, by name."
    found: dict[str, Any] = {name: getattr(nn.Module, name) for name in EVERY_CALL}
    for base in kind.__mro__:
        if issubclass(base, nn.Module) and base is not nn.Module:
            for name, value in vars(base).items():
                if isinstance(value, FunctionType) and name != "__init__":
                    found[name] = getattr(kind, name)
    return found


# as they are written: a method that is replaced later is another one
METHODS = {kind: _methods(kind) for kind in (*KNOWN, DistanceBias)}
NAMES = {
    kind: frozenset(name for name in dir(kind) if callable(getattr(kind, name))) for kind in METHODS
}
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
UNREAD = (nn.Linear, nn.Dropout, nn.ModuleList)  # their settings say nothing that forward asks


def _kind(part):
    "The class of a part; that of a parametrized one is made by PyTorch, from its own."
    return type(part).__base__ if "parametrizations" in part._modules else type(part)


def _known_kind(kind):
    "The class of which the step knows the methods; a bias by distance may have any distances."
    if kind in KNOWN or not issubclass(kind, DistanceBias):
        return kind
    return DistanceBias


def _own_methods(kind):
    "Class, name and function of each method that has to be what it was."
    known = _known_kind(kind)
    for name, function in METHODS[known].items():
        if known is kind or name != "by_distance":
            yield kind, name, function


def unknown_part(model: nn.Module) -> str | None:
    "What of a model the written-out step does not know, in words; None if it knows all parts."
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return "a hook on all modules"
    kinds = set()
    for name, part in model.named_modules():
        kind: Any = _kind(part)
        known = _known_kind(kind)
        if known not in METHODS:
            return f"{name}, a {kind.__name__}" if name else f"the class {kind.__name__}"
        replaced = not NAMES[known].isdisjoint(vars(part))
        if part._forward_hooks or part._forward_pre_hooks or replaced:
            return f"{name or 'the model'}, which something watches or replaces"
        if vars(part).get("max_norm") is not None:
            return f"{name}, whose max_norm changes weights as they are read"
        kinds.add(kind)
    for kind in kinds:
        for _, name, function in _own_methods(kind):
            if getattr(kind, name) is not function:
                return f"{name} of {kind.__name__}, which was replaced"
    return None


class Snapshot:
    """What a model is made of, to be compared with what it is later.

    It sees weights that are written, moved or replaced, parts and settings that are replaced, added
    or removed, hooks, and methods replaced on an object or a class. What is written behind
    autograd's back, by a fused optimizer, in inference mode or through `weight.data`, it sees where
    it looks thoroughly, by the sum of each tensor's bits.
    """

    def __init__(self, model: nn.Module):
        parts = list(model.modules())
        self.settings = list(map(vars, parts))
        entries = []
        for part, settings in zip(parts, self.settings):
            if not isinstance(part, UNREAD):
                for name, value in settings.items():
                    if name[0] != "_" and name != "training":
                        entries.append((settings, name, value))
            for inner in (part._parameters, part._buffers, part._modules):
                for name, value in inner.items():
                    entries.append((inner, name, value))
        self.owners, self.names, self.values = zip(*entries)
        self.counts = [*self.settings, *(part._modules for part in parts)]
        self.parts, self.types = parts, list(map(type, parts))
        self.hooks = [hooks for p in parts for hooks in (p._forward_hooks, p._forward_pre_hooks)]
        self.hooks += [torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks]
        methods = [method for kind in set(map(_kind, parts)) for method in _own_methods(kind)]
        self.kinds, self.methods, self.functions = zip(*methods)
        tensors = [value for value in self.values if isinstance(value, torch.Tensor)]
        self.addresses = [tensor.data_ptr for tensor in tensors]
        counted = not any(tensor.is_inference() for tensor in tensors)  # these have no `_version`
        self.counted = tensors if counted else []
        self.then = self._numbers()
        self.bits = [t.detach().view(INTEGERS[t.element_size()]) for t in tensors]
        self.sums = self._sums()

    def _numbers(self):
        "How much each part has, how often each tensor was written, and where it lies."
        versions = map(operator.attrgetter("_version"), self.counted)
        addresses = [address() for address in self.addresses]
        return [*map(len, self.counts), *versions, *addresses]

    def _sums(self):
        "The sum of the bits of each tensor, read as integers: one number that differs changes it."
        return [bits.sum(dtype=bits.dtype) for bits in self.bits]  # it wraps around

    def holds(
        self,
        thoroughly: bool = False,  # read all weights, which takes as long as a token or less
    ) -> bool:
        "Whether the model is what it was. It is asked for each token, so it takes microseconds."
        try:
            entries = map(operator.getitem, self.owners, self.names)
            same = all(map(operator.is_, entries, self.values))
        except KeyError:  # one was removed
            return False
        if list(map(type, self.parts)) != self.types:
            return False
        methods = map(getattr, self.kinds, self.methods)
        unreplaced = all(map(operator.is_, methods, self.functions))
        if not (same and unreplaced) or any(self.hooks) or self._numbers() != self.then:
            return False
        if not thoroughly:
            return True
        changed = map(torch.ne, self._sums(), self.sums)
        return not torch.stack(list(changed)).any()
