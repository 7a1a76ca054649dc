"""What tests of attention share: the formula written out, positions around a layer, its weights."""

import torch
from torch import nn

from former_nb.attention.dot_product import repeat_kv
from former_nb.attention.fused import attention, attention_weights
from former_nb.inspection.recording import Recorder


def written(q, k, v, mask=None, is_causal=False, scale=None):
    "Attention written out, as `attention` is called."
    return attention_weights(q, k, mask, is_causal, scale) @ repeat_kv(v, q)


class Placed(nn.Module):
    "A layer with positions around what it calls, as a stack puts them there."

    def __init__(self, layer, positions):
        super().__init__()
        self.layer, self.positions = layer, positions

    def forward(self, x, mask=None, is_causal=False, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        if self.positions is not None:
            attend = self.positions(attend, positions)
        return self.layer(x, mask, is_causal, attend)


def read_in_pieces(model, pieces, cache, **options):
    "What a model or a layer says of pieces, (B, n) tokens or (B, n, d_model), one after another."
    start = 0
    found = []
    for piece in pieces:
        end = start + piece.shape[1]
        found.append(model(piece, attend=cache, positions=torch.arange(start, end), **options))
        start = end
    return torch.cat(found, dim=1)


def with_weights(layer, x, attend=written, **options):
    "What a layer gives, and the weights of its heads."
    weights = []
    y = layer(x, attend=Recorder(weights.append, attend), **options)
    return y, weights[0]
