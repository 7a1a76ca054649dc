"""What a model computes for one new token, written out with its weights.

One token of one text reads every weight once, and in a small model it waits longer for Python. So
the step has one line for each product, with the weights as memory reads them fastest. The deep dive
on caches says what each of its parts is worth.
"""

import logging
from functools import partial
from typing import Any

import psutil
import torch
import torch.nn.functional as F
from torch import nn

from ..attention.dot_product import attention
from ..attention.positions import Rotary
from ..attention.relative_positions import DistanceBias
from ..base.core import in_eval_mode
from ..base.guards import LARGEST, check_choice, check_int, check_that
from ..models.build import sizes_of
from ..models.config import POSITIONS
from ..models.encoder_decoder import DecoderBlock, EncoderDecoder
from ..models.hub_config import EmbedNorm
from ..models.modern_decoder import SwiGLU
from ..models.post_norm import PostNormBlock, PostNormDecoderBlock
from .known_parts import Snapshot, unknown_part

__all__ = [
    "Product",
    "StaticCache",
    "DecodeStep",
    "Int8Product",
    "as_decode_step",
]


def by_columns(
    weight: torch.Tensor,  # (n, m)
) -> torch.Tensor:  # (n, m), the same numbers
    "A copy whose columns lie one after the other in memory."
    return weight.t().contiguous().t()


class Product:
    "One product for all linear layers that read the same input, its weights by columns."

    def __init__(
        self,
        *layers: nn.Linear,
    ):
        weights = [layer.weight.detach() for layer in layers]
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)  # (n, m)
        self.weight = by_columns(weight).t()  # (m, n), contiguous
        self.bias = None
        if any(layer.bias is not None for layer in layers):
            self.bias = torch.cat([bias_of(layer) for layer in layers])  # (n,)

    def __call__(
        self,
        x: torch.Tensor,  # (B, m)
    ) -> torch.Tensor:  # (B, n)
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)


def bias_of(layer):  # (n,)
    "What a linear layer adds to each output; zeros if it has no bias."
    if layer.bias is None:
        return layer.weight.new_zeros(layer.out_features)
    return layer.bias.detach()


def as_function(norm: nn.Module):  # x -> x
    "A norm without a module around it, since a call of a module takes as long as a small norm."
    if isinstance(norm, nn.LayerNorm):
        settings = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        return lambda x: torch.layer_norm(x, *settings)
    return norm


def gated(
    x: torch.Tensor,  # (..., 2 * d_ff), first the gates, then what passes through them
) -> torch.Tensor:  # (..., d_ff)
    "What `SwiGLU` computes between its layers, of one product for both."
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


class StepBlock:
    "One block for one token of each row: the products of its weights, with nothing between."

    def __init__(
        self,
        block: Any,  # a `Block` or a `DecoderBlock`, pre-norm or post-norm
        product=Product,  # made from the linear layers that read one input
    ):
        layer: Any = block.attention
        self.d_k = layer.d_k
        self.n_heads = layer.w_q.out_features // self.d_k  # h
        self.n_kv_heads = layer.w_k.out_features // self.d_k  # g
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
        self.reads_memory = isinstance(block, DecoderBlock)
        if self.reads_memory:
            self.norm_cross = as_function(block.norm_cross)
            self.cross_q = product(block.cross.w_q)
            self.cross_o = product(block.cross.w_o)
            self.cross_d_k = block.cross.d_k

    def __call__(self, x, layer, place, memory):  # (B, d_model) -> (B, d_model)
        x = self.add(x, self.norm_attention, self.attend, layer, place)
        if self.reads_memory:
            x = self.add(x, self.norm_cross, self.read_memory, *memory)
        return self.add(x, self.norm_ff, self.feed_forward)

    def add(self, x, norm, part, *args):
        "As in `Block`: the norm before the part or after the sum."
        if self.norm_first:
            return x + part(norm(x), *args)
        return norm(x + part(x, *args))

    def attend(self, x, layer, place):
        B = len(x)
        h = self.n_heads
        g = self.n_kv_heads
        heads = self.w_qkv(x).view(B, h + 2 * g, 1, self.d_k)
        q, k, v = place.turn(heads, h, g)
        k, v = layer.buffer.update(k, v)  # (B, g, S, d_k), all that are kept
        q = q.reshape(B, g, h // g, self.d_k)  # heads that share keys are queries of one head
        y = F.scaled_dot_product_attention(q, k, v, place.mask)
        return self.w_o(y.reshape(B, h * self.d_k))

    def feed_forward(self, x):
        return self.w_out(self.activation(self.w_in(x)))

    def read_memory(self, x, kv, mask, attend):
        q = self.cross_q(x).view(len(x), -1, 1, self.cross_d_k)  # (B, h, 1, d_k)
        y = attend(q, *kv, mask=mask)
        return self.cross_o(y.flatten(1))


class Place:
    "A position as the layers meet it: how far queries and keys turn, and what their mask is."

    def __init__(self, cos=None, sin=None, mask=None):
        self.cos = cos  # (1, d_k), or None without rotary positions
        self.sin = sin  # (1, d_k), negative in the first half
        self.mask = mask  # (1, g, h / g, S) numbers to add, or booleans; None allows every key

    def turn(self, heads, h, g):  # (B, h + 2 g, 1, d_k)
        "Queries, keys and values, the first two as `rotate` turns them."
        if self.cos is None:
            return heads.split_with_sizes([h, g, g], dim=1)
        qk, v = heads.split_with_sizes([h + g, g], dim=1)
        other = qk.roll(qk.shape[-1] // 2, -1)  # of each pair, half a head away
        turned = (qk * self.cos + other * self.sin).type_as(qk)
        q, k = turned.split_with_sizes([h, g], dim=1)
        return q, k, v


SHORT = 1024  # tokens; for longer texts a bias by distance is made when they come


class Places:
    "The positions that act inside attention, looked up for one token at a time."

    def __init__(
        self,
        positions: nn.Module | None,  # a `Rotary`, a `DistanceBias`, or None
        block: StepBlock,
        max_len: int,  # longest text, in tokens
        like: torch.Tensor,  # has the type and the device of the model's numbers
    ):
        self.positions = positions
        self.heads = (block.n_kv_heads, block.n_heads // block.n_kv_heads)  # g and h / g
        self.like = like
        if isinstance(positions, Rotary):
            self.cos, self.sin = self.signed(*positions.table)  # both (max_len, d_k)
        if isinstance(positions, DistanceBias):
            self.bias = self.make_bias(min(max_len, SHORT))  # it grows

    def signed(self, cos, sin):  # both (T, d_k / 2)
        "The table for both features of each pair, with the sign of the first one's sine."
        return torch.cat([cos, cos], dim=1), torch.cat([-sin, sin], dim=1)

    def reserve(self, size):
        "Make the bias for a cache of so many tokens, as a compiled step cannot let it grow."
        if isinstance(self.positions, DistanceBias) and size > self.bias.shape[-1]:
            self.bias = self.make_bias(size)

    def make_bias(self, n):
        "What a query adds to its scores with the n keys up to its own, (1, g, h / g, n)."
        bias = in_eval_mode(self.positions, self.positions.bias)
        bias = bias(1, n, self.like.device)  # (1, h, 1, n)
        return bias.detach().to(self.like.dtype).view(1, *self.heads, n)

    def at(
        self,
        position: int,  # of the token
        window: int | None,  # how many keys are kept at most, its own included
    ) -> Place:
        "For a cache that keeps as many keys as there are."
        if isinstance(self.positions, Rotary):
            if position < len(self.cos):
                return Place(self.cos[position : position + 1], self.sin[position : position + 1])
            rows = self.positions.rows(torch.tensor([position], device="cpu"), 1)
            return Place(*self.signed(*rows))
        if isinstance(self.positions, DistanceBias):
            S = position + 1 if window is None else min(position + 1, window)
            if S > self.bias.shape[-1]:
                self.bias = self.make_bias(2 * S)
            return Place(mask=self.bias[..., -S:])
        return Place()

    def at_fixed(
        self,
        position: torch.Tensor,  # (1,) integers
        size: int,  # for how many keys there is room
    ) -> Place:
        "For a cache of fixed size: what is not written yet is masked."
        key = torch.arange(size, device=position.device)
        allowed = key <= position  # (size,)
        if isinstance(self.positions, Rotary):
            return Place(self.cos[position], self.sin[position], allowed[None, None, None])
        if isinstance(self.positions, DistanceBias):
            last = self.bias.shape[-1] - 1
            row = self.bias[..., (last - position + key).clamp(max=last)]
            return Place(mask=row.masked_fill(~allowed, float("-inf")))
        return Place(mask=allowed[None, None, None])


class StaticLayer:
    "Keys and values of one layer in tensors of fixed size; an `attend`, as `LayerCache` is."

    window = None

    def __init__(self, cache):
        self.cache = cache  # the `StaticCache` that it belongs to
        self.length = 0
        self.keys: Any = None  # (B, g, size, d_k), made when the first keys come
        self.values: Any = None

    @property
    def buffer(self):
        return self

    @property
    def k(self):
        return self.keys[:, :, : self.length]

    @property
    def v(self):
        return self.values[:, :, : self.length]

    def drop_last(self):
        "Forget the newest token; the next one is written over it."
        self.length -= 1

    def __call__(self, q, k, v, mask=None, is_causal=False):
        "Attend as a `LayerCache` does, for the prompt, that goes through the modules."
        T = k.shape[2]
        end = self.length + T
        check_that(end <= self.cache.size, "tokens", f"room for {self.cache.size}", end)
        if self.keys is None:
            shape = (*k.shape[:2], self.cache.size, k.shape[3])
            self.keys = k.new_zeros(shape)
            self.values = v.new_zeros(shape)
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return attention(q, self.k, self.v, mask, is_causal)

    def update(self, k, v):  # both (B, g, 1, d_k)
        "Write at the place that a tensor names, so that no shape and no number changes."
        self.keys.index_copy_(2, self.cache.position, k)
        self.values.index_copy_(2, self.cache.position, v)
        return self.keys, self.values


class StaticCache(list):
    "A `StaticLayer` for each layer, for one batch of texts and a compiled step."

    def __init__(
        self,
        n_layers: int,  # blocks of the model
        size: int,  # how many tokens it has room for
        device: torch.device | None = None,
    ):
        check_int("n_layers", n_layers, most=10_000)
        check_int("size", size, most=2**31)
        self.size = size
        self.position = torch.zeros(1, dtype=torch.int64, device=device)  # of the token to come
        super().__init__(StaticLayer(self) for _ in range(n_layers))

    @property
    def length(self) -> int:
        "How many tokens every layer has seen: the position of the next one."
        return self[0].length

    def positions(
        self,
        T: int,  # number of new tokens
    ) -> torch.Tensor:  # (T,) integers, on the CPU
        "Where the next tokens are: behind those that were seen."
        return torch.arange(self.length, self.length + T, device="cpu")

    def is_plain(self) -> bool:
        "Whether its layers call `attention` and nothing else, as `KVCache` says it."
        return all(type(layer) is StaticLayer for layer in self)


_log = logging.getLogger(__name__)


def drop_to(cache, length):
    "Let every layer of a cache forget what it has read after so many tokens."
    for layer in cache:
        while layer.length > length:
            layer.buffer.drop_last()


def stack_of(model):
    "The blocks that write, of a language model or a translator."
    return model.decoder if isinstance(model, EncoderDecoder) else model.stack


EVERY = 64  # tokens, after which a step adds up all weights: half a percent of what they take


class DecodeStep:
    """What a model computes for one new token of each row, written out with its weights.

    It is called as the model is, and gives the same logits to rounding. The weights are copied
    where they are multiplied, by columns. A prompt, or anything else than one token at the next
    position of a plain cache, goes through the model's own modules, in eval mode. So does every
    token until one came out the same both ways, and the rest of a text in which the model has
    changed; the next text begins with another copy.

    Before each token the step looks whether something was written or replaced. Fused optimizers and
    the inference mode leave no trace of that, so at the beginning of each text and every 64 tokens
    it also adds up all weights.
    """

    def __init__(
        self,
        model: nn.Module,  # LanguageModel, or an EncoderDecoder for its target
        product: type[Product] = Product,  # or `Int8Product`: faster for large weights, and rounded
        compiled: bool = False,  # by `torch.compile`, for a `StaticCache`; the first token waits
        watch: bool = True,  # look whether the model has changed; False trusts that it doesn't
    ):
        check_choice("compiled", compiled, (True, False))
        check_choice("watch", watch, (True, False))
        makes = isinstance(product, type) and issubclass(product, Product)
        check_that(makes, "product", "Product or Int8Product", product, TypeError)
        unknown = unknown_part(model)
        check_that(unknown is None, "model", "parts that the step knows", unknown)
        check_that(len(stack_of(model).blocks) > 0, "model", "at least one block", 0)
        self.model = model
        self.read = in_eval_mode(model, getattr(model, "decode", model))
        self.product = product
        self.compiled = compiled
        self.watch = watch
        self.device = next(model.parameters()).device
        self.reason: str | None = None  # why the modules compute, if they do
        try:
            self.copy()
        except AttributeError as error:  # a part that it knows in a place where it doesn't
            raise ValueError(f"model: expected parts in their places, but {error}") from None
        self.static_token = self._static_token
        if compiled:
            mode = "reduce-overhead" if self.device.type == "cuda" else "default"
            self.static_token = torch.compile(self._static_token, mode=mode, dynamic=False)

    @property
    def config(self) -> Any:
        "The sizes that the model has now, as of `sizes_of`."
        return sizes_of(self.model)

    def copy(self):
        "Copy the weights as they are now; the first token will be compared."
        self.compared = False  # with the modules, and found the same
        self.stale = False
        with torch.no_grad():
            self.build(self.product)
        self.snapshot = Snapshot(self.model) if self.watch else None

    def build(self, product):
        "One step from the weights."
        model: Any = self.model
        self.added = None  # positions that are added to the embeddings, (max_len, d_model)
        self.norm_embed = None
        stack = stack_of(model)
        embed = model.tgt_embed if isinstance(model, EncoderDecoder) else model.embed
        self.scale = embed.scale
        added = embed.positions
        if isinstance(added, EmbedNorm):
            self.norm_embed = as_function(added.norm)
            added = added.positions
        if added is not None:
            self.added = added.table.detach()
        self.max_len = self.config.max_len
        self.table = embed.tokens.weight.detach()  # (vocab_size, d_model)
        self.blocks = [StepBlock(block, product) for block in stack.blocks]
        self.places = Places(stack.positions, self.blocks[0], self.max_len, self.table)
        self.norm = as_function(stack.norm)
        self.head = product(model.head)

    def __call__(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        attend=attention,  # such as a `KVCache`
        positions: torch.Tensor | None = None,  # as for `LanguageModel`
    ) -> torch.Tensor:  # logits (B, T, vocab_size)
        "As `LanguageModel`: one token by the step, several by the modules."
        memories = [None] * len(attend) if isinstance(attend, list) else []
        if self.goes_short(tokens, attend, positions):
            return self.next_logits(tokens, attend, memories)

        def by_modules(tokens, positions):
            return self.read(tokens, attend, positions)

        logits = by_modules(tokens, positions)
        self.compare(tokens, attend, memories, logits, by_modules)
        return logits

    def decode(
        self,
        tgt: torch.Tensor,  # (B, T) integers
        memory: torch.Tensor | list,  # as for `EncoderDecoder.decode`
        memory_mask: torch.Tensor | None = None,
        attend=attention,
        positions: torch.Tensor | None = None,
        attend_memory=attention,
    ) -> torch.Tensor:  # logits (B, T, vocab_size)
        "As `EncoderDecoder.decode`: one token by the step if the memory is projected."
        if not isinstance(memory, list):
            return self.read(tgt, memory, memory_mask, attend, positions, attend_memory)
        memories = [(keys_values, memory_mask, attend_memory) for keys_values in memory]
        if self.goes_short(tgt, attend, positions):
            return self.next_logits(tgt, attend, memories)

        def by_modules(tokens, positions):
            return self.read(tokens, memory, memory_mask, attend, positions, attend_memory)

        logits = by_modules(tgt, positions)
        self.compare(tgt, attend, memories, logits, by_modules)
        return logits

    def goes_short(self, tokens, attend, positions):
        "Whether it is one token of each row, after others in a plain cache, of the same model."
        if tokens.shape[1] != 1 or not self.compared or not self.may_write(attend):
            return False
        if self.added is not None and attend.length >= len(self.added):
            return False
        if positions is None or positions.numel() != 1 or int(positions) != attend.length:
            return False
        if self.watch and attend.length == 1:  # the second token of a text is compared
            return False
        if self.has_changed(thoroughly=attend.length % EVERY == 0):
            self.compared = False
            _log.info("the model has changed: its modules write the rest of the text")
        return self.compared

    def has_changed(self, thoroughly=False):
        "Whether the weights that were copied are no longer those of the model."
        if self.snapshot is not None and not self.stale:
            self.stale = not self.snapshot.holds(thoroughly)
        return self.stale

    def may_write(self, attend):
        "Whether it is a plain cache with something in it, and no gradients are wanted."
        plain = getattr(attend, "is_plain", None)
        return plain is not None and attend.length > 0 and plain() and not torch.is_grad_enabled()

    def compare(self, tokens, cache, memories, logits, by_modules):
        "When the modules have read tokens (B, T): does the step find the same for the last one?"
        if not self.may_write(cache) or cache.length == 1:  # alone, it attends to itself anyway
            return
        begins = cache.length <= tokens.shape[1] + 1  # a text, not its middle
        if self.has_changed(thoroughly=begins):
            self.compared = False
            if not begins:
                return
            self.copy_again()
        if self.reason is not None or self.compared and not (begins and self.watch):
            return
        before = cache.length - 1
        compare_last = partial(self.compare_last, tokens[:, -1:], before, cache, memories, logits)
        reason = compare_last()
        if reason is not None and self.compared:  # it was the same, so the model has changed
            self.copy_again()
            reason = self.reason or compare_last()
        self.reason = reason
        self.compared = reason is None
        if not self.compared:
            _log.warning("tokens are computed by the modules: the step differs, %s", reason)
            drop_to(cache, before)
            position = torch.tensor([before], device="cpu")
            by_modules(tokens[:, -1:], position)  # so that keys and values in the cache are theirs

    def compare_last(self, token, before, cache, memories, logits):
        "Compute the last token again, and say in words how its logits differ, if they do."
        drop_to(cache, before)
        try:
            ours = self.next_logits(token, cache, memories)
            return self.difference(ours, logits[:, -1:])
        except Exception as error:  # whatever it is, the modules can go on
            return f"{type(error).__name__}, {error}"

    def difference(self, ours, theirs):  # both (B, 1, vocab_size)
        "In words, if it is more than rounding."
        if ours.dtype != theirs.dtype:
            return f"{ours.dtype} in place of {theirs.dtype}"
        allowed = 1e-4 if ours.dtype in (torch.float32, torch.float64) else 0.1
        if self.product is not Product:  # such as rounded weights
            allowed = 0.5
        ours, theirs = ours.float(), theirs.float()
        size = (theirs - theirs.mean(dim=-1, keepdim=True)).norm()
        apart = (ours - theirs).norm()
        if apart <= allowed * size:
            return None
        return f"the logits by {apart:.1e}, and their size is {size:.1e}"

    def copy_again(self):
        "After a change of the model: another copy, if the step knows what the model is now."
        self.reason = unknown_part(self.model)
        try:
            self.copy()
        except Exception as error:
            self.reason = self.reason or f"{type(error).__name__}, {error}"
        if self.reason is not None:
            _log.warning("tokens are computed by the modules: %s", self.reason)

    def next_logits(self, tokens, attend, memories):
        "Look the position up, and compute."
        if isinstance(attend, StaticCache):
            return self.with_static_cache(tokens, attend, memories)
        place = self.places.at(attend.length, attend[0].window)
        row = None if self.added is None else self.added[attend.length]  # (d_model,)
        return self.one_token(tokens, attend, place, row, memories)

    def one_token(self, tokens, layers, place, row, memories):
        "The logits of one token of each row, (B, 1, vocab_size)."
        x = F.embedding(tokens[:, 0], self.table)  # (B, d_model)
        if self.scale != 1:
            x = x * self.scale
        if row is not None:
            x = x + row
        if self.norm_embed is not None:
            x = self.norm_embed(x)
        for block, layer, memory in zip(self.blocks, layers, memories):
            x = block(x, layer, place, memory)
        return self.head(self.norm(x))[:, None]

    def with_static_cache(self, tokens, cache, memories):
        "`one_token`, whose position is a tensor, so that each step is the same program."
        length = cache.length
        check_that(length < cache.size, "tokens", f"at most {cache.size} tokens", length + 1)
        cache.position.fill_(length)
        self.places.reserve(cache.size)
        tokens = torch.empty_like(tokens, memory_format=torch.contiguous_format).copy_(tokens)
        logits = self.static_token(tokens, cache, memories)
        for layer in cache:
            layer.length += 1
        return logits

    def _static_token(self, tokens, cache, memories):
        place = self.places.at_fixed(cache.position, cache.size)
        row = None if self.added is None else self.added[cache.position]  # (1, d_model)
        return self.one_token(tokens, cache, place, row, memories)

    def static_cache(
        self,
        size: int | None = None,  # how many tokens it has room for; all that the model can read
    ) -> StaticCache:
        "An empty cache for a compiled step. A model that reads texts of any length needs a `size`."
        if size is None:
            expected = "a number, as the model reads any length: cache=step.static_cache(size)"
            check_that(self.max_len < LARGEST, "size", expected, None, TypeError)
            size = self.max_len
        any_length = POSITIONS[self.config.positions].beyond == "always"
        check_int("size", size, most=LARGEST if any_length else self.max_len)
        return StaticCache(len(self.blocks), size, self.device)

    def parameters(self):
        "The weights of the model."
        return self.model.parameters()


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

    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # (B, m) -> (B, n)
        rounded = x.bfloat16()
        if self.pads:
            rounded = F.pad(rounded, (0, self.pads))
        y = torch._weight_int8pack_mm(rounded, self.weight, self.scale).to(x.dtype)
        return y if self.bias is None else y.add_(self.bias)


FEW = 12  # tokens; for fewer, the copy of the weights takes longer than the step saves
FEW_OF_LARGE = 16  # the same for a model of more than so many weights
LARGE = 2_000_000


def as_decode_step(
    model: Any,  # a `DecodeStep` comes back as it is
    max_new_tokens: int,  # of each row, at most
    watch: bool = True,  # as for `DecodeStep`; False where nothing else runs in between
) -> Any:  # a `DecodeStep`, or the model itself
    "A `DecodeStep` where that is possible and pays; the log says why not."
    if isinstance(model, DecodeStep):
        return model
    reason = reason_for_modules(model, max_new_tokens)
    if reason is None:
        try:
            step = DecodeStep(model, watch=watch)
            _log.info("tokens are computed by the written-out step")
            return step
        except Exception as error:  # whatever a model is, its modules can compute it
            reason = str(error)
    _log.info("tokens are computed by the modules: %s", reason)
    return model


def reason_for_modules(model, max_new_tokens):
    "Why it does not pay that a step writes so many tokens; None if it does."
    weights = list(model.parameters())
    few = FEW if sum(p.numel() for p in weights) <= LARGE else FEW_OF_LARGE
    if max_new_tokens < few:
        return f"for fewer than {few} tokens a copy of the weights does not pay"
    size = sum(p.numel() * p.element_size() for p in weights)
    if weights[0].device.type == "cpu" and 2 * size > psutil.virtual_memory().available:
        return f"memory has no room for a copy of {size / 1e9:.1f} GB"
    return None
