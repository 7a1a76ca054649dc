"""What the pages use of `torch.nn.functional`."""

import math

from .._numbers import inf
from .._tensor import Tensor, absent
from .._types import bool_, int64


def check_input(name, input):
    """Refuse what is no tensor, in PyTorch's words."""
    if not isinstance(input, Tensor):
        came = type(input).__name__
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {came}")


def softmax(input, dim=None, dtype=None):
    """Shares of 1 along an axis; without `dim` along the first one of 1 or 3 axes."""
    check_input("softmax", input)
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
    return input.softmax(dim, dtype)


def log_softmax(input, dim=None):
    """The logarithms of a softmax."""
    return input.log_softmax(dim)


def relu(input):
    """The numbers above 0, and 0 for the others."""
    return input.relu()


def linear(input, weight, bias=None):
    """x W^T + b."""
    y = input @ weight.T
    return y if bias is None else y + bias


def embedding(input, weight):
    """A row of a table for each number."""
    return weight[input]


def one_hot(tensor, num_classes=-1):
    """A 1 at the place that a number names, zeros elsewhere."""
    n = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    result = Tensor([0] * (tensor.numel() * n), (*tensor.shape, n), int64)
    return result.scatter(-1, tensor[..., None], 1)


def mse_loss(input, target):
    """The mean of the squared differences."""
    return (input - target).square().mean()


def dropout(input, p=0.5, training=True):
    """Only what is not training."""
    if training and p:
        raise NotImplementedError("dropout: nothing is trained here")
    return input


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
):
    """Attention; zeros for a query that may attend to nothing."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.mT * scale
    if is_causal:
        rows, columns = scores.shape[-2:]
        past = [j <= i for i in range(rows) for j in range(columns)]
        attn_mask = Tensor(past, (rows, columns), bool_)
    if attn_mask is not None and attn_mask.dtype is bool_:
        scores = scores.masked_fill(~attn_mask, -inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    empty = (scores == -inf).all(dim=-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(dim=-1)
    y = weights.masked_fill(empty, 0.0) @ value
    return laid_out_as(query, y) if is_fused(query, key, value, attn_mask) else y


def is_fused(q, k, v, mask):
    """Whether PyTorch would take its fused kernel, whose output lies in memory as the queries."""
    alike = q.ndim == 4 and k.shape == v.shape and q.shape[:2] == k.shape[:2]
    in_order = q.shape[-1] == k.shape[-1] and all(t.stride(-1) == 1 for t in (q, k, v))
    return alike and in_order and (mask is None or mask.ndim in (2, 4)) and 0 not in q.strides


def laid_out_as(like, y):
    """`y` with its axes in memory in the order of another tensor's."""
    order = sorted(range(y.ndim), key=lambda axis: -like.stride(axis))
    back = [order.index(axis) for axis in range(y.ndim)]
    return y.permute(*order).contiguous().permute(*back)


__getattr__ = absent("torch.nn.functional")
