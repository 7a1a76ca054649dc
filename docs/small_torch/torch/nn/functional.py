"""What the pages use of `torch.nn.functional`."""

import math

from .._make import cat
from .._numbers import inf
from .._tensor import Tensor, absent, where
from .._types import EPSILON, bool_, int64


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


def gelu(input, approximate="none"):
    """Each number times the share of a normal distribution below it."""
    check_input("gelu", input)
    return input._gelu(approximate)


def silu(input):
    """Each number times its sigmoid."""
    check_input("silu", input)
    return input._silu()


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input):
    """The hyperbolic tangent."""
    return input.tanh()


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Vectors of length 1."""
    return input / input.norm(dim=dim, keepdim=True).clamp(min=eps)


def check_normalized(name, input, shape):
    """Refuse an input whose last axes are not those of the norm, in PyTorch's words."""
    if tuple(input.shape[input.ndim - len(shape) :]) != tuple(shape):
        wanted = ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape=[{wanted}], expected input with shape [*, {wanted}], but got "
            f"input of size{list(input.shape)}"
        )


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over the last axes, then a gain and a shift."""
    check_normalized("layer_norm", input, normalized_shape)
    dims = list(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    variance = input.var(dims, correction=0, keepdim=True)
    y = (input - mean) * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """A mean square of 1 over the last axes, then a gain."""
    check_normalized("rms_norm", input, normalized_shape)
    eps = EPSILON[input.dtype] if eps is None else eps
    dims = list(range(-len(normalized_shape), 0))
    y = input * (input.square().mean(dims, keepdim=True) + eps).rsqrt()
    return y if weight is None else y * weight


def linear(input, weight, bias=None):
    """x W^T + b."""
    if input.ndim > 2 and input.numel() and input.shape[-1] == weight.shape[-1]:  # as one matrix
        y = (input.reshape(-1, input.shape[-1]) @ weight.T).reshape(*input.shape[:-1], -1)
    else:
        y = input @ weight.T
    return y if bias is None else y + bias


def embedding(input, weight, padding_idx=None):
    """A row of a table for each number; that of `padding_idx` has no gradient."""
    if input.dtype.kind != 1:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{input.dtype.title}Tensor instead (while checking arguments "
            "for embedding)"
        )
    numbers = input.flat()
    if numbers and not 0 <= min(numbers) <= max(numbers) < weight.shape[0]:
        raise IndexError("index out of range in self")
    rows = weight[input]
    if padding_idx is None or not weight.requires_grad:
        return rows
    return where((input == padding_idx)[..., None], rows.detach(), rows)


def one_hot(tensor, num_classes=-1):
    """A 1 at the place that a number names, zeros elsewhere."""
    n = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    result = Tensor([0] * (tensor.numel() * n), (*tensor.shape, n), int64)
    return result.scatter(-1, tensor[..., None], 1)


def mse_loss(input, target):
    """The mean of the squared differences."""
    return (input - target).square().mean()


def dropout(input, p=0.5, training=True, inplace=False):
    """Some numbers are set to 0, and the others grow, so that the mean stays."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or not p:
        return input
    kept = Tensor([0.0] * input.numel(), input.shape, input.dtype).uniform_() >= p
    return input * kept / (1 - p) if p < 1 else input * 0.0


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """Minus the log-probability of each target; the classes are on axis 1."""
    if input.ndim == 1:
        input, target = input[None], target[None]
    log_p = input.movedim(1, -1)  # (..., classes)
    if log_p.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({log_p.shape[0]}) to match target batch_size "
            f"({target.shape[0]})."
        )
    if log_p.shape[:-1] != target.shape:
        raise RuntimeError(
            f"Expected target size {list(log_p.shape[:-1])}, got {list(target.shape)}"
        )
    if target.dtype.kind != 1:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.title}")
    counted = target != ignore_index
    classes = log_p.shape[-1]
    for number in target.flat():
        if number != ignore_index and not 0 <= number < classes:
            raise IndexError(f"Target {number} is out of bounds.")
    places = target.masked_fill(~counted, 0)
    loss = -log_p.gather(-1, places.unsqueeze(-1)).squeeze(-1)
    share = counted.to(input.dtype)
    if weight is not None:
        share = share * weight[places]
    loss = (loss * share).masked_fill(~counted, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / share.sum()


def cross_entropy(
    input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """Minus the log-probability of each target, from logits; the classes are on axis 1."""
    check_input("cross_entropy_loss", input)
    axis = 0 if input.ndim == 1 else 1
    if target.shape == input.shape:
        if target.dtype.kind < 2:
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{target.dtype.title}"
            )
        loss = -(target * input.log_softmax(axis)).sum(axis)
        if reduction == "none":
            return loss
        return loss.sum() if reduction == "sum" else loss.mean()
    log_p = input.log_softmax(axis)
    loss = nll_loss(log_p, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return loss
    even = -log_p.mean(axis).masked_fill(target == ignore_index, 0.0)
    if reduction == "sum":
        even = even.sum()
    if reduction == "mean":
        even = even.sum() / (target != ignore_index).sum()
    return (1 - label_smoothing) * loss + label_smoothing * even


def binary_cross_entropy_with_logits(input, target):
    """The mean surprise at truths of which the sigmoids are the probabilities."""
    return (input.relu() - input * target + (-input.abs()).exp().log1p()).mean()


def kl_div(input, target, reduction="mean"):
    """How far log-probabilities are from probabilities, in nats."""
    loss = target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0]
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean()}[reduction]


def pad(input, pad, mode="constant", value=0.0):
    """More places before and behind; pairs of numbers, the last axis first."""
    for i in range(len(pad) // 2):
        axis = input.ndim - 1 - i
        for before, width in ((True, pad[2 * i]), (False, pad[2 * i + 1])):
            if width < 0:
                start = -width if before else 0
                input = input.narrow(axis, start, input.shape[axis] + width)
            elif width:
                sizes = [*input.shape[:axis], width, *input.shape[axis + 1 :]]
                border = input.new_full(sizes, value)
                input = cat([border, input] if before else [input, border], axis)
    return input


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """Attention; zeros for a query that may attend to nothing."""
    if enable_gqa:
        shared = query.shape[-3] // key.shape[-3]
        key = key.repeat_interleave(shared, dim=-3)
        value = value.repeat_interleave(shared, dim=-3)
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
    weights = dropout(weights, dropout_p)
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
