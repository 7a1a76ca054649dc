"""What tests of attention share: numbers and masks, the formula written out, positions around a
layer, its weights, and rows of bad input."""

import torch
from refusals import n, nan_only_at, shape, spoilt
from torch import nn
from torch.testing import assert_close

from former_nb.attention.dot_product import repeat_kv
from former_nb.attention.fused import attention, attention_weights
from former_nb.inspection.recording import Recorder

NEAR = dict(atol=1e-5, rtol=1e-5)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaves(*shapes, dtype=torch.float32):
    return [numbers(*shape, seed=i).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]


def some_mask(*shape, empty=True, seed=0):
    """A random mask; where `empty`, the first query in the first row of the batch may attend to
    nothing."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) > 0.4
    if empty:
        mask[0, ..., 0, :] = False
        return mask
    return mask | (torch.arange(shape[-1]) == 0)


def grads(out, inputs):
    "Gradients for a random direction of the output, so that no error cancels another."
    direction = numbers(*out.shape, seed=99).to(out.dtype)
    return torch.autograd.grad((out * direction).sum(), inputs, retain_graph=True)


def same(ours, theirs, inputs, their_inputs=None, **tolerance):
    "Equal forward, and equal gradients for every input."
    tolerance = tolerance or NEAR
    assert_close(ours, theirs, check_dtype=False, **tolerance)
    for a, b in zip(grads(ours, inputs), grads(theirs, their_inputs or inputs), strict=True):
        assert a.isfinite().all()
        assert_close(a, b, check_dtype=False, **tolerance)


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


def layer_edges(call, width=12):
    """Sizes of zero and NaN for a layer (B, T, d_model) -> (B, T, d_model) whose words see one
    another."""
    return [
        ("T = 0", lambda: call(n(2, 0, width)), shape(2, 0, width)),
        ("B = 0", lambda: call(n(0, 5, width)), shape(0, 5, width)),
        ("NaN in one sentence", lambda: call(spoilt(n(2, 5, width), 1, 2)), nan_only_at(1)),
    ]


FIRST = torch.arange(5)  # the positions of five words


ROWS_OF_3 = FIRST.expand(3, 5)


SHORT = ValueError, "positions", "(4,)"


EVEN = ValueError, "d_k", "5"


def places(call):
    "What is refused as the positions of five words."
    below = torch.arange(-1, 4)
    return [
        ("positions below 0", lambda: call(below), ValueError, "positions", "-1"),
        ("positions are a number", lambda: call(3), TypeError, "positions", "int"),
        ("positions are no integers", lambda: call(torch.rand(5)), TypeError, "positions", "float"),
        ("too few positions", lambda: call(torch.arange(4)), ValueError, "positions", "(4,)"),
        ("another batch of them", lambda: call(ROWS_OF_3), ValueError, "positions", "(3, 5)"),
    ]


def heads_with_places(positions, attend=written):
    "Rotary and distance biases around attention written out, with three heads."
    layer = positions(attend, FIRST)
    nothing = positions(attend, torch.arange(0))
    q = n(2, 3, 5, 4)
    return [
        ("q of rank 3", lambda: layer(q[0], q, q), ValueError, "q"),
        ("another batch", lambda: layer(q, n(4, 3, 5, 4), q), ValueError, "k", "(4, 3"),
        ("more keys than queries", lambda: layer(q, n(2, 3, 6, 4), q), ValueError, "k", "6, 4)"),
        ("another width of keys", lambda: layer(q, n(2, 3, 5, 6), q), ValueError, "k", "5, 6)"),
        ("T = 0", lambda: nothing(*[q[:, :, :0]] * 3), shape(2, 3, 0, 4)),
        ("too few positions", lambda: positions(attend, FIRST[1:])(q, q, q), *SHORT),
        ("no positions", lambda: positions(attend, None), TypeError, "positions"),
        ("B = 0", lambda: layer(*[q[:0]] * 3), shape(0, 3, 5, 4)),
        ("NaN in one word", lambda: layer(spoilt(q, 1, 2, 3), q, q), nan_only_at(1, 2, 3)),
        ("grouped keys", lambda: layer(q, q[:, :1], q[:, :1]), shape(2, 3, 5, 4)),
    ]


def rotary(layer):
    "Rotary positions of heads of width 4."
    q = n(2, 3, 5, 4)
    return [
        *heads_with_places(layer),
        *places(lambda value: layer.turn(q, value)),
        ("width", lambda: layer(attention, FIRST)(*[n(2, 3, 5, 6)] * 3), ValueError, "q"),
        ("T = 0", lambda: layer.turn(q[:, :, :0], torch.arange(0)), shape(2, 3, 0, 4)),
    ]
