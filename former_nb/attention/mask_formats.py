"""One mask as each library writes it, there and back.

The mask of this course is boolean, broadcasts to (B, h, T, S), and `True` means *may attend*. A
mask in another convention often has the same shape and type. It runs, trains, and attends to
padding or to the future. So convert at the border, with the functions below, and keep masks boolean
until then. A converter refuses what could be read in two ways.

What each library takes:

- This course and `F.scaled_dot_product_attention`: booleans, `True` = may, or numbers that are
  added to the scores, 0 and -inf. `to_additive` and `from_additive`.
- `nn.MultiheadAttention`, for pairs: `attn_mask`, (T, S) or (B·h, T, S), `True` = may *not*, or
  added numbers. For keys: `key_padding_mask`, (B, S), the same. A pair is open if neither blocks
  it. `to_torch_mha` and `from_torch_mha`.
- Models of Hugging Face: `attention_mask` with two axes, (B, S), integers, 1 = a word and 0 =
  padding, to which a decoder adds its own triangle. With four axes it is used as it is: 0 or the
  lowest number of the type, to be added. Only its *sdpa* attention reads four axes of booleans as
  *may*. Its *eager* attention adds them, `True` as 1 and `False` as 0, and forbids nothing.
  `to_attention_mask` and `from_attention_mask`.
- PyTorch's `flex_attention`: a rule of sentence, head, query and key that returns `True` for *may*.
  `create_block_mask` makes its mask of the rule, and numbers to add are a `score_mod`. No converter
  is needed: index the mask, `lambda b, h, i, j: mask[b, h, i, j]`, with a mask of full shape.
- x-transformers: `mask`, (B, S), and `attn_mask`, (T, S), (h, T, S) or (B, h, T, S), all boolean
  with `True` = may. So `mask[:, 0, 0]` of a padding mask, and others as they are.

`is_causal=True` aligns its triangle at the top left in PyTorch, at the bottom right here, in
Hugging Face and in x-transformers. That differs where there are more keys than queries, as in a
cache. With `nn.MultiheadAttention` it is only a hint that the mask beside it is the triangle. Where
no weights are asked for, the layer trusts the hint and not the mask.

Ones and zeros from a tokenizer are not yet booleans. `.bool()` gives `True` for each word, which in
`nn.MultiheadAttention` hides the words. `~` turns the bits of an integer around, so 1 becomes -2,
and as a boolean that is `True` again. Only `~ones.bool()` is the layer's mask, and
`to_torch_mha(from_attention_mask(ones), shape)` says it without a riddle.

The lowest number of a type is not -inf. It works while it is alone. Two such masks that are added,
one for the future and one for padding, overflow in float16, -65504 - 65504 = -inf. So combine masks
while they are boolean.

A row with nothing to attend to has no `True` in any convention. Here it gives zeros, in weights,
outputs and gradients. Elsewhere it depends on the path:

- A softmax over -inf gives NaN. So does `nn.MultiheadAttention` where weights are asked for, and on
  its fast path (eval mode, no gradients, one tensor as queries, keys and values).
- A softmax over -1e9 or the lowest number gives the mean of all values, which is an average over
  exactly what was forbidden. So do `F.scaled_dot_product_attention` with the lowest number added
  and Hugging Face's *eager* attention.
- `F.scaled_dot_product_attention` with booleans or with -inf gives zeros, and so does
  `nn.MultiheadAttention` in training without weights, Hugging Face's *sdpa* and x-transformers.

No mask hides a value that is NaN or infinite, since 0 · NaN = NaN. Where padding may hold anything,
such as a cache that was allocated and never filled, set its keys and values to zero first.
"""

import torch

from ..base.guards import check_multiple, check_over, check_tensor, check_that
from .masks import combine_masks

__all__ = [
    "to_additive",
    "from_additive",
    "to_torch_mha",
    "from_torch_mha",
    "to_attention_mask",
    "from_attention_mask",
]


def _read_additive(name, bias):
    "A boolean mask from added numbers; `name` is the argument to blame."
    allowed = bias == 0
    lowest = torch.finfo(bias.dtype).min
    other = bias[~(allowed | (bias <= lowest / 2))].tolist()
    numbers = f"0 (may attend), or -inf or the lowest number of {bias.dtype} (may not)"
    check_that(not other, name, numbers, other[:3])
    return allowed


def to_additive(
    mask: torch.Tensor,  # boolean, any shape, True = may attend
    dtype: torch.dtype = torch.float32,  # of the queries it will meet
) -> torch.Tensor:  # like mask, 0 where it is True and -inf where it is False
    """What to add to the scores so that `mask` holds, for `attn_mask` of PyTorch's functions.

    The softmax turns a score of -inf into a weight of exactly 0."""
    check_tensor("mask", mask, None, torch.bool)
    torch.finfo(dtype)  # raises unless these are floating point numbers
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, float("-inf"))


def from_additive(
    bias: torch.Tensor,  # floating point, any shape: 0, or -inf or the lowest number of its type
) -> torch.Tensor:  # boolean, like bias, True = may attend
    """The mask that adding `bias` to the scores amounts to. Refuses any other number.

    A bias by distance, a mask of ones and zeros, or -1e9 is neither *may* nor *may not*."""
    check_tensor("bias", bias, None)
    return _read_additive("bias", bias)


def to_torch_mha(
    mask: torch.Tensor,  # boolean, True = may; (T, S), or four axes that broadcast to shape
    shape: tuple[int, int, int, int],  # (B, n_heads, T, S), the shape of the scores
) -> dict[str, torch.Tensor]:  # attn_mask or key_padding_mask; True = may not
    """Keyword arguments that make `nn.MultiheadAttention` respect `mask`.

    What depends on the sentence alone becomes `key_padding_mask`, all else `attn_mask`. The shape
    of the scores is asked for, so that nothing is guessed."""
    B, h, T, S = shape
    check_tensor("mask", mask, None, torch.bool)
    check_over("mask", mask, (B, h, T, S))
    mask = mask if mask.ndim == 4 else mask[None, None]
    if mask.shape[:2] == (1, 1):
        return {"attn_mask": ~mask[0, 0].expand(T, S)}
    if mask.shape[1:3] == (1, 1):
        return {"key_padding_mask": ~mask[:, 0, 0].expand(B, S)}
    return {"attn_mask": ~mask.expand(B, h, T, S).reshape(B * h, T, S)}


def _read_mha(name, blocked, axes, **sizes):
    "A mask in our convention from one of the layer's, and its sizes."
    boolean = getattr(blocked, "dtype", None) == torch.bool
    sizes = check_tensor(name, blocked, axes, torch.bool if boolean else None, **sizes)
    return ~blocked if boolean else _read_additive(name, blocked), sizes


def from_torch_mha(
    *,
    attn_mask: torch.Tensor | None = None,  # (T, S) or (B * h, T, S); True = may not, or added
    key_padding_mask: torch.Tensor | None = None,  # (B, S); True = may not, or added
    n_heads: int | None = None,  # h, of the layer; needed if attn_mask has three axes
) -> torch.Tensor | None:  # (B or 1, h or 1, T or 1, S), True = may attend; None if both are
    """The mask that these arguments of `nn.MultiheadAttention` amount to: a pair is open if neither
    blocks it."""
    pairs = keys = None
    sizes = {}
    if attn_mask is not None and getattr(attn_mask, "ndim", 2) == 3:
        check_multiple("attn_mask", len(attn_mask), "n_heads", n_heads)
        assert n_heads is not None  # or the line above has raised
        pairs, sizes = _read_mha("attn_mask", attn_mask, "B·h T S")
        sizes["B"] = len(pairs) // n_heads
        pairs = pairs.unflatten(0, (-1, n_heads))  # (B, h, T, S)
    elif attn_mask is not None:
        pairs, sizes = _read_mha("attn_mask", attn_mask, "T S")
        pairs = pairs[None, None]  # (1, 1, T, S)
    if key_padding_mask is not None:
        keys, _ = _read_mha("key_padding_mask", key_padding_mask, "B S", **sizes)
        keys = keys[:, None, None]  # (B, 1, 1, S)
    return combine_masks(pairs, keys)


def to_attention_mask(
    mask: torch.Tensor,  # boolean, True = may attend; four axes, (B, 1, 1, S) for padding
    dtype: torch.dtype = torch.float32,  # of the model; used if the mask is more than padding
) -> torch.Tensor:  # (B, S) integers, 1 = a word; else like mask, 0 or the lowest number to add
    """The `attention_mask` of a Hugging Face model; (B, 1, 1, S) is read as padding.

    Padding becomes ones and zeros, which a decoder combines with its own triangle. Any other mask
    becomes numbers to add and is used as it is, so a decoder's must hold the triangle already."""
    check_tensor("mask", mask, "B h T S", torch.bool)
    if mask.shape[1:3] == (1, 1):
        return mask[:, 0, 0].long()  # (B, S)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def from_attention_mask(
    attention_mask: torch.Tensor,  # (B, S) of 0 and 1; or four axes, boolean or added
) -> torch.Tensor:  # (B, 1, 1, S), or like attention_mask; boolean, True = may attend
    "What an `attention_mask` amounts to, without the triangle that a decoder adds to (B, S)."
    name = "attention_mask"
    mask = attention_mask
    boolean = getattr(mask, "dtype", None) == torch.bool
    if getattr(mask, "ndim", 2) == 4:
        check_tensor(name, mask, "B h T S", torch.bool if boolean else None)
        return mask if boolean else _read_additive(name, mask)
    check_tensor(name, mask, "B S", torch.bool if boolean else int)
    other = mask[mask != mask.bool().to(mask)].tolist()
    check_that(not other, name, "0 and 1 (for documents: document_mask)", other[:3])
    return mask.bool()[:, None, None]  # (B, 1, 1, S)
