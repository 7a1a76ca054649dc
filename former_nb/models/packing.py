"""Rows that lie end to end without pads, as the page deeper/07_batches derives them."""

from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from ..attention.fused import attention
from ..attention.relative_positions import DistanceBias
from ..data.text import IGNORE
from .encoder_decoder import Decoder
from .layers import Stack
from .parts import ReadMemory

__all__ = ["packed"]


class PackedRows:
    "Attends within rows that lie end to end without pads. Rows of one shape are neighbours."

    def __init__(
        self,
        queries: list[int],  # tokens of each row
        keys: list[int],  # tokens that each row attends to
        order: list[int],  # of the rows as they lie
    ):
        self.counts = Counter((queries[i], keys[i]) for i in order)  # shape -> number of rows
        self.positions = torch.cat([torch.arange(queries[i]) for i in order])  # (N,)

    def __call__(
        self,
        q: torch.Tensor,  # (1, h, N, d_k)
        k: torch.Tensor,  # (1, g, M, d_k)
        v: torch.Tensor,  # (1, g, M, d_k)
        mask=None,  # not used: nothing here is padding
        is_causal: bool = False,  # as in `attention`, within each row
    ) -> torch.Tensor:  # (1, h, N, d_k)
        "Attend to all rows of one shape at once, and lay what comes out end to end."
        shapes = list(self.counts.items())
        n_queries = [n * T for (T, S), n in shapes]
        n_keys = [n * S for (T, S), n in shapes]
        groups = zip(shapes, q[0].split(n_queries, 1), k[0].split(n_keys, 1), v[0].split(n_keys, 1))
        parts = []
        for ((T, S), n), q_rows, k_rows, v_rows in groups:
            q_rows = _stand_up(q_rows, n, T)  # (n, h, T, d_k)
            k_rows = _stand_up(k_rows, n, S)
            v_rows = _stand_up(v_rows, n, S)
            y = attention(q_rows, k_rows, v_rows, None, is_causal)  # (n, h, T, d_k)
            parts.append(y.transpose(1, 2).flatten(0, 1))  # (n * T, h, d_k)
        return torch.cat(parts).transpose(0, 1)[None]


def _stand_up(t, n, length):  # n rows, (h, n * length, d) -> (n, h, length, d)
    return t.unflatten(1, (n, length)).transpose(0, 1)


def row_lengths(
    real: torch.Tensor,  # (B, T) boolean, False = padding
) -> list[int] | None:  # tokens of each row; None on a device, compiled, or with other pads
    "How long the rows are, if pads are only on their right and no device has to be waited for."
    if real.device.type != "cpu" or torch.compiler.is_compiling() or len(real) == 0:
        return None
    lengths = real.sum(dim=1)
    position = torch.arange(real.shape[1], device="cpu")
    return lengths.tolist() if real.equal(position < lengths[:, None]) else None


def _places(lengths, order, width):
    "Where the real tokens of padded rows stand among all, in the order in which they will lie."
    return torch.cat([torch.arange(i * width, i * width + lengths[i]) for i in order])


def _lay_back(y, places, x):  # (1, N, d_model) -> as x, zeros at pads
    return torch.zeros_like(x).flatten(0, 1).index_copy(0, places, y[0]).view(x.shape)


def encode_packed(
    stack: nn.Module,  # a `Stack`
    x: torch.Tensor,  # (B, T, d_model)
    real: torch.Tensor,  # (B, T) boolean, False = padding
) -> torch.Tensor:  # (B, T, d_model); what is at pads means nothing
    "Every real token attends to all real tokens of its row."
    lengths = None if isinstance(stack.rotary, DistanceBias) else row_lengths(real)
    if lengths is None:
        positions = torch.arange(x.shape[1], device=x.device)
        return type(stack).forward(stack, x, real[:, None, None], positions=positions)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    places = _places(lengths, order, x.shape[1])
    packed_x = x.flatten(0, 1)[places][None]  # (1, N, d_model)
    rows = PackedRows(lengths, lengths, order)
    y = type(stack).forward(stack, packed_x, attend=rows, positions=rows.positions)
    return _lay_back(y, places, x)


def decode_packed(
    decoder: Decoder,
    x: torch.Tensor,  # (B, T, d_model)
    memory: torch.Tensor,  # (B, S, d_model)
    real: torch.Tensor,  # (B, S) boolean, False = padding
    asked: torch.Tensor,  # (B, T) boolean: which vectors are wanted
) -> torch.Tensor:  # (B, T, d_model); zeros behind the last vector of a row that is wanted
    "Every token attends to itself, to those before it and to the memory."
    needed = asked.flip(1).cumsum(1).flip(1) > 0  # (B, T): wanted here or later
    tgt = None if isinstance(decoder.rotary, DistanceBias) else row_lengths(needed)
    src = row_lengths(real)
    if tgt is None or src is None:
        positions = torch.arange(x.shape[1], device=x.device)
        return type(decoder).forward(decoder, x, memory, real[:, None, None], positions=positions)
    order = sorted(range(len(tgt)), key=lambda i: (tgt[i], src[i]))
    places = _places(tgt, order, x.shape[1])
    packed_x = x.flatten(0, 1)[places][None]  # (1, N, d_model)
    packed_memory = memory.flatten(0, 1)[_places(src, order, memory.shape[1])][None]
    rows = PackedRows(tgt, tgt, order)
    read: Any = ReadMemory(packed_memory, PackedRows(tgt, src, order))  # and how to attend to it
    y = type(decoder).forward(decoder, packed_x, read, attend=rows, positions=rows.positions)
    return _lay_back(y, places, x)


@contextmanager
def packed(
    model: nn.Module,  # with an encoder, as a `Classifier` or an `EncoderDecoder` has one
):  # a function that takes the targets (B, T) of the next call
    "Within `with`, stacks skip pads, and the head sees only positions with a target."
    wanted = None  # (B, T) booleans

    def ask(targets):
        nonlocal wanted
        wanted = targets != IGNORE

    def encode(stack, x, mask, attend=attention, positions=None):
        return encode_packed(stack, x, mask[:, 0, 0])

    def decode(decoder, x, memory, memory_mask, attend=attention, positions=None):
        return decode_packed(decoder, x, memory, memory_mask[:, 0, 0], wanted)

    def only_wanted(head, inputs):
        return inputs if wanted is None else (inputs[0][wanted],)

    stacks: list[Any] = [part for part in model.modules() if isinstance(part, Stack)]
    head: Any = model.head
    hook = head.register_forward_pre_hook(only_wanted)
    for stack in stacks:
        stack.forward = partial(decode if isinstance(stack, Decoder) else encode, stack)
    try:
        yield ask
    finally:
        hook.remove()
        for stack in stacks:
            del stack.forward
