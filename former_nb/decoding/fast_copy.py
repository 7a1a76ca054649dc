"""A copy of a model that writes faster: the same numbers, to rounding, with fewer calls.

One token of one text reads every weight once, and in a small model it waits longer for Python. So
the blocks of the copy have one product for queries, keys and values, no dropout and no modules
inside, and their weights lie as memory reads them fastest. All else is the model's own, such as the
embedding, the positions and what is called as `attend`. The deep dive on caches says what each of
this is worth.
"""

import copy
import logging
from typing import Any

import psutil
import torch
import torch.nn.functional as F
from torch import nn

from ..attention.fused import attention
from ..attention.multi_head import MultiHeadAttention
from ..base.guards import check_that
from ..models import encoder_decoder, language_model, savable
from ..models.bart import BartEncoderDecoder
from ..models.encoder_decoder import DecoderBlock
from ..models.layers import Block, FeedForward
from ..models.modern_decoder import GroupedQueryAttention, RMSNorm, SwiGLU
from ..models.parts import CrossAttention, FusedRMSNorm, ReadMemory
from ..models.post_norm import PostNormBlock, PostNormDecoderBlock

__all__ = ["Product", "Int8Product", "fast_copy", "faster"]

_log = logging.getLogger(__name__)

LANGUAGE_MODELS = {language_model.LanguageModel, savable.LanguageModel}
TRANSLATORS = {encoder_decoder.EncoderDecoder, savable.EncoderDecoder, BartEncoderDecoder}
PARTS = {  # of which a block may consist, as the library wrote them
    *(Block, PostNormBlock, DecoderBlock, PostNormDecoderBlock, FeedForward, SwiGLU),
    *(MultiHeadAttention, GroupedQueryAttention),
    *(encoder_decoder.CrossAttention, CrossAttention),
    *(nn.Linear, nn.Dropout, nn.LayerNorm, nn.RMSNorm, RMSNorm, FusedRMSNorm, nn.Identity),
}


class Product:
    "One product for all linear layers that read the same input, its weights by columns."

    def __init__(
        self,
        *layers: nn.Linear,
    ):
        weights = [layer.weight.detach() for layer in layers]
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)  # (n, m)
        self.weight = weight.t().contiguous()  # (m, n)
        self.bias = None
        if any(layer.bias is not None for layer in layers):
            self.bias = torch.cat([bias_of(layer) for layer in layers])  # (n,)

    def __call__(
        self,
        x: torch.Tensor,  # (N, m)
    ) -> torch.Tensor:  # (N, n)
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)


def bias_of(layer):  # (n,)
    "What a linear layer adds to each output; zeros if it has no bias."
    if layer.bias is None:
        return layer.weight.new_zeros(layer.out_features)
    return layer.bias.detach()


class Int8Product(Product):
    "A `Product` whose weights are whole numbers from -127 to 127, and a scale for each output."

    def __init__(self, *layers: nn.Linear):
        device = layers[0].weight.device.type
        there = device == "cpu" and hasattr(torch, "_weight_int8pack_mm")
        check_that(there, "product", "a CPU, which has a kernel for weights of 8 bits", device)
        super().__init__(*layers)
        weight = self.weight.t().float()  # (n, m)
        self.pads = -weight.shape[1] % 32  # the kernel reads so many inputs at a time
        weight = F.pad(weight, (0, self.pads))
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127  # (n, 1)
        self.scale = scale[:, 0].bfloat16()
        whole = (weight / self.scale.float()[:, None]).round().clamp(-127, 127)
        self.weight = whole.to(torch.int8).contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # (N, m) -> (N, n)
        rounded = F.pad(x.bfloat16(), (0, self.pads)) if self.pads else x.bfloat16()
        y = torch._weight_int8pack_mm(rounded, self.weight, self.scale).to(x.dtype)
        return y if self.bias is None else y.add_(self.bias)


def as_function(norm: nn.Module):  # x -> x
    "A norm without a module around it, since a call of a module takes as long as a small norm."
    if type(norm) is nn.LayerNorm:
        settings = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        return lambda x: torch.layer_norm(x, *settings)
    return norm


def gated(
    x: torch.Tensor,  # (..., 2 * d_ff), first the gates, then what passes through them
) -> torch.Tensor:  # (..., d_ff)
    "What `SwiGLU` computes between its layers, of one product for both."
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


class FastBlock:
    "What a `Block` computes in eval mode, from a copy of its weights."

    def __init__(
        self,
        block: Any,  # pre-norm or post-norm
        product: type[Product] = Product,  # made from the linear layers that read one input
    ):
        layer: Any = block.attention
        self.d_k = layer.d_k
        self.heads = [w.out_features // self.d_k for w in (layer.w_q, layer.w_k, layer.w_v)]
        self.w_qkv = product(layer.w_q, layer.w_k, layer.w_v)
        self.w_o = product(layer.w_o)
        if isinstance(block.ff, SwiGLU):
            self.w_in = product(block.ff.w_gate, block.ff.w_in)
            self.activation = gated
        else:
            self.w_in = product(block.ff.w_in)
            self.activation = block.ff.activation
        self.w_out = product(block.ff.w_out)
        self.norm_attention = as_function(block.norm_attention)
        self.norm_ff = as_function(block.norm_ff)
        self.norm_first = not isinstance(block, (PostNormBlock, PostNormDecoderBlock))

    def __call__(self, x, mask=None, is_causal=False, attend=attention):  # as for `Block`
        B, T, _ = x.shape
        x = x.flatten(0, 1)  # (B * T, d_model), as products are fastest
        x = self.add(x, self.norm_attention, self.attend, B, mask, is_causal, attend)
        x = self.add(x, self.norm_ff, self.feed_forward)
        return x.view(B, T, -1)

    def add(self, x, norm, part, *args):
        "As in `Block`: the norm before the part or after the sum."
        if self.norm_first:
            return x + part(norm(x), *args)
        return norm(x + part(x, *args))

    def attend(self, x, B, mask, is_causal, attend):
        heads = self.w_qkv(x).view(B, -1, sum(self.heads), self.d_k).transpose(1, 2)
        q, k, v = heads.split_with_sizes(self.heads, dim=1)  # each (B, …, T, d_k)
        y = attend(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        return self.w_o(y.transpose(1, 2).reshape(len(x), -1))

    def feed_forward(self, x):
        return self.w_out(self.activation(self.w_in(x)))


class FastDecoderBlock(FastBlock):
    "The same for a `DecoderBlock`."

    def __init__(self, block, product=Product):
        super().__init__(block, product)
        self.cross = block.cross
        self.norm_cross = as_function(block.norm_cross)
        self.cross_q = product(self.cross.w_q)
        self.cross_o = product(self.cross.w_o)

    def __call__(self, x, memory, memory_mask=None, attend=attention):  # as for `DecoderBlock`
        B, T, _ = x.shape
        x = x.flatten(0, 1)
        x = self.add(x, self.norm_attention, self.attend, B, None, True, attend)
        x = self.add(x, self.norm_cross, self.read, B, memory, memory_mask)
        x = self.add(x, self.norm_ff, self.feed_forward)
        return x.view(B, T, -1)

    def read(self, x, B, memory, mask):
        if not isinstance(memory, ReadMemory):
            return self.cross(x.view(B, -1, x.shape[1]), memory, mask).flatten(0, 1)
        (k, v), attend = memory
        q = self.cross_q(x).view(B, -1, k.shape[1], k.shape[3]).transpose(1, 2)  # (B, h, T, d_k)
        y = attend(q, k, v, mask)
        return self.cross_o(y.transpose(1, 2).reshape(len(x), -1))


class FastHead:
    "The last layer, which gives logits."

    def __init__(self, head, product=Product):
        self.product = product(head)

    def __call__(self, x):  # (B, T, d_model) -> (B, T, vocab_size)
        return self.product(x.flatten(0, 1)).view(*x.shape[:2], -1)


def stack_of(model):
    "The name of the part that writes."
    return "decoder" if type(model) in TRANSLATORS else "stack"


def unknown_part(model: nn.Module) -> str | None:
    "What of a model can't be copied, in words; None if all can."
    if type(model) not in LANGUAGE_MODELS | TRANSLATORS:
        return f"the class {type(model).__name__}"
    blocks = getattr(model, stack_of(model)).blocks
    for name, part in blocks.named_modules():
        if type(part) not in PARTS and part is not blocks:
            return f"{name}, a {type(part).__name__}"
        if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
            return f"{name}, which something watches or replaces"
    return None


def with_parts(module, **parts):
    "The same module with other parts, which need not be modules; the old one stays as it is."
    other = copy.copy(module)
    other._modules = dict(module._modules)
    for name, part in parts.items():
        del other._modules[name]
        setattr(other, name, part)
    return other


def fast_copy(
    model: Any,  # LanguageModel or EncoderDecoder, of the library's parts
    product: type[Product] = Product,  # or `Int8Product`: faster for large weights, and rounded
) -> Any:  # a model of the same class, for writing
    """A model whose blocks and head compute the same from a copy of their weights.

    It is called as the model is, in eval mode. If the model learns or changes, make another copy.
    """
    unknown = unknown_part(model)
    check_that(unknown is None, "model", "parts that can be copied", unknown)
    name = stack_of(model)
    stack = getattr(model, name)
    kind = FastDecoderBlock if name == "decoder" else FastBlock
    try:
        with torch.no_grad():
            blocks = [kind(block, product) for block in stack.blocks]
    except AttributeError as error:  # a part that it knows in a place where it doesn't
        raise ValueError(f"model: expected parts in their places, but {error}") from None
    head = FastHead(model.head, product)
    return with_parts(model, **{name: with_parts(stack, blocks=blocks), "head": head})


FEW = 12  # tokens; for fewer, the copy takes longer than it saves


def faster(
    model: Any,  # a `fast_copy` comes back as it is
    max_new_tokens: int,  # of each row, at most
) -> Any:  # a `fast_copy`, or the model itself
    "A `fast_copy` where that is possible and pays; the log says why not."
    if isinstance(getattr(model, "head", None), FastHead):
        return model
    reason = unknown_part(model) or too_dear(model, max_new_tokens)
    if reason is None:
        try:
            model = fast_copy(model)
        except ValueError as error:
            reason = str(error)
    _log.info("tokens are computed by %s", f"the modules: {reason}" if reason else "a fast copy")
    return model


def too_dear(model, max_new_tokens):
    "Why it does not pay to copy a model for so many tokens; None if it does."
    weights = list(model.parameters())
    if max_new_tokens < FEW:
        return f"for fewer than {FEW} tokens a copy of the weights does not pay"
    size = sum(p.numel() * p.element_size() for p in weights)
    if weights[0].device.type == "cpu" and 2 * size > psutil.virtual_memory().available:
        return f"memory has no room for a copy of {size / 1e9:.1f} GB"
    return None
