"""One sentence for bad input.

A tensor of the wrong shape often broadcasts without an error, and the result is wrong. So
everything that people import checks what it is given, once, where it is called; inner functions
trust it. Every error names the argument, what was expected and what came.
"""

import math
from typing import Any

import torch

from .ranges import NUMBER, SHARE, WHOLE, at_least, check_choice, check_that  # noqa: F401

__all__ = [
    "LARGEST",
    "check_int",
    "check_ints",
    "check_share",
    "check_heads",
    "check_type",
    "check_parts",
    "check_tensor",
    "is_readable",
    "check_numbers",
    "check_ids",
    "check_positions",
    "check_room",
    "check_row",
    "check_over",
    "check_attention",
    "check_mask",
    "check_self_attention",
    "check_seam",
    "check_attends",
    "check_attended",
]


LARGEST = 2**63 - 1  # what PyTorch's integers hold


def check_int(
    name: str,  # what the error calls it
    value,  # what came
    least: int | None = 1,  # the smallest number that is accepted; None accepts any
) -> None:
    "Raise `TypeError` unless `value` is a whole number, `ValueError` below `least`."
    if isinstance(value, torch.SymInt):  # a size that torch.export leaves open
        return
    numbers = WHOLE
    if least is not None:
        numbers = at_least(least)
    numbers.check(name, value)


def check_ints(
    least: int = 1,  # the smallest number that is accepted
    **values,  # name -> what came
) -> None:
    "`check_int` for several arguments."
    for name, value in values.items():
        check_int(name, value, least)


def check_multiple(
    name: str,  # what the error calls the larger number
    value,  # what came
    factor_name: str,  # what the error calls the number that should divide it
    factor,  # what came
) -> None:
    "Raise `TypeError` or `ValueError` unless `value` is `factor` times a whole number."
    check_ints(**{factor_name: factor, name: value})
    check_that(value % factor == 0, name, f"a multiple of {factor_name} = {factor}", value)


def check_share(
    name: str,  # what the error calls it
    value,  # what came
) -> None:
    "Raise `TypeError` unless `value` is a number, `ValueError` unless 0 <= value < 1."
    SHARE.check(name, value)


def check_heads(
    d_model: int,  # width of the model
    n_heads: int,  # h
    n_kv_heads: int | None = None,  # divides h; h if left out
    d_k: int | None = None,  # width of a head; d_model / h if left out
    dropout: float = 0.0,  # 0 <= dropout < 1
) -> None:
    "Raise `TypeError` or `ValueError` unless a layer can have these heads."
    if d_k is None:
        check_multiple("d_model", d_model, "n_heads", n_heads)
    check_ints(d_model=d_model, d_k=1 if d_k is None else d_k)
    check_multiple("n_heads", n_heads, "n_kv_heads", n_heads if n_kv_heads is None else n_kv_heads)
    check_share("dropout", dropout)


def check_type(
    name: str,  # what the error calls it
    value,  # what came
    kind,  # the type that it should be, or several in a tuple
) -> None:
    "Raise `TypeError` unless `value` is of this type."
    if not isinstance(value, kind):
        names = " or ".join(t.__name__ for t in (kind if isinstance(kind, tuple) else [kind]))
        came = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{name}: expected {names}, got {came}")


def check_parts(
    **parts,  # name -> what came
) -> None:
    "Raise `TypeError` unless each is a module, as parts of a model are."
    for name, part in parts.items():
        fits = isinstance(part, torch.nn.Module)
        check_that(fits, name, "a module, such as `nn.Identity()`", part, TypeError)


def _is(t, dtype):
    """Whether `t` is a tensor of this type; None stands for any floating point type, int for
    integers."""
    if not isinstance(t, torch.Tensor):
        return False
    if dtype is int:
        return not (t.is_floating_point() or t.is_complex() or t.dtype == torch.bool)
    return t.is_floating_point() if dtype is None else t.dtype == dtype


def _came(t):
    "A tensor's type and shape, or the type of what is no tensor."
    tensor = isinstance(t, torch.Tensor)
    return f"{t.dtype} of shape {tuple(t.shape)}" if tensor else type(t).__name__


def check_tensor(
    name: str,  # what the error calls it
    t,  # what came
    axes: str | None,  # a word for each axis, such as 'B T d_model'; None takes any shape
    dtype: Any = None,  # a torch.dtype; None takes any floating point type, int any integers
    **sizes: int,  # of the axes that are known already
) -> dict[str, int]:  # the size of each axis, these and those
    """Raise `TypeError` or `ValueError` unless `t` is a tensor of this type with these axes.

    Hand the sizes on, and the next tensor must agree with them.
    """
    words = (axes or "").split()
    kind = _is(t, dtype)
    sizes_fit = kind and all(sizes.get(word, n) == n for word, n in zip(words, t.shape))
    if sizes_fit and (axes is None or t.ndim == len(words)):
        return sizes | dict(zip(words, t.shape))
    shape = ", ".join(f"{word} = {sizes[word]}" if word in sizes else word for word in words)
    if kind:
        raise ValueError(f"{name}: expected shape ({shape}), got {tuple(t.shape)}")
    numbers = dtype
    if dtype is None:
        numbers = "floating point numbers"
    if dtype is int:
        numbers = "integers"
    extent = "any shape" if axes is None else f"shape ({shape})"
    raise TypeError(f"{name}: expected {numbers} of {extent}, got {_came(t)}")


def is_readable(
    t: torch.Tensor,
) -> bool:
    "Whether a tensor has values that can be read at once."
    plain = type(t) is torch.Tensor and t.device.type == "cpu" and t.numel() > 0
    return plain and not torch.compiler.is_compiling()


def check_numbers(
    name: str,  # what the error calls them
    numbers: torch.Tensor,  # integers, of any shape
    end: int,  # they are 0 to end - 1
    besides: int | None = None,  # another number that may be there
) -> None:
    """Raise `ValueError` for a number outside the range.

    It would stop a GPU with an unreadable error. On the CPU the values are read. On a GPU we would
    have to wait for them, but `to_device` leaves with a tensor what it was on the CPU. Inside
    `torch.compile` or `torch.func.vmap` there is no value to read.
    """
    numbers = getattr(numbers, "on_cpu", numbers)
    if not is_readable(numbers):
        return
    try:
        low, high = numbers.min().item(), numbers.max().item()
        if besides is not None and low == besides:
            low = torch.where(numbers == besides, 0, numbers).min().item()
    except RuntimeError:  # no value to read, as under torch.func.vmap
        return
    allowed = f"numbers from 0 to {end - 1}"
    if besides is not None:
        allowed += f", or {besides}"
    check_that(low >= 0 and high < end, name, allowed, low if low < 0 else high)


def check_ids(
    name: str,  # what the error calls it
    t,  # what came
    vocab_size: int,  # ids are 0 to vocab_size - 1
    axes: str = "B T",  # a word for each axis
    **sizes: int,  # of the axes that are known already
) -> dict[str, int]:  # the size of each axis, these and those
    "Raise `TypeError` or `ValueError` unless `t` holds token ids, int64 or int32: `check_numbers`."
    kind = torch.int32 if _is(t, torch.int32) else torch.int64
    sizes = check_tensor(name, t, axes, kind, **sizes)
    check_numbers(name, t, vocab_size)
    return sizes


def check_positions(
    positions,  # what came
    T: int | None = None,  # number of tokens, where it is known
    max_len: int = LARGEST,  # positions are 0 to max_len - 1
    axes: str | None = None,  # (T,) or (B, T) if left out
    look: bool = True,  # False where the values were looked at before
    **sizes: int,  # B, where it is known
) -> None:
    "Raise `TypeError` or `ValueError` unless these are positions of T tokens. As `check_ids`."
    expected = "those of the tokens, such as torch.arange(T)"
    check_that(positions is not None, "positions", expected, positions, TypeError)
    if axes is None:
        axes = "B T" if getattr(positions, "ndim", 1) == 2 else "T"
    if T is not None:
        sizes["T"] = T
    if look:
        check_ids("positions", positions, max_len, axes, **sizes)
    else:
        check_tensor("positions", positions, axes, positions.dtype, **sizes)


def check_room(
    tokens,  # (B, T), which are at positions 0 to T - 1 if none are given
    position_embedding,  # of an `Embedding`; where it has a table, each position has a row
    positions=None,  # what came; it is looked at elsewhere
) -> None:
    "Raise `ValueError` for a text that is too long. Its shape says so, also on a GPU."
    table = getattr(position_embedding, "table", None)
    if positions is None and table is not None:
        T = tokens.shape[1]
        check_that(len(table) >= T, "max_len", f"{T} positions or more", len(table))


def check_row(
    name: str,  # what the error calls them
    numbers: torch.Tensor,  # (T,) integers
) -> None:
    "Raise `ValueError` unless each of these is one more than the one before. As `check_numbers`."
    in_a_row = True
    if is_readable(numbers) and len(numbers) > 1:
        in_a_row = bool(numbers.diff().eq(1).all())
    check_that(in_a_row, name, "tokens in a row", numbers)


def check_over(
    name: str,  # what the error calls it
    t: torch.Tensor | None,  # None fits
    shape: tuple[int, ...],  # of the scores, (B, T, S) or (B, h, T, S)
    dtype: torch.dtype | None = None,  # torch.bool takes no floating point mask
) -> None:
    """Raise `TypeError` or `ValueError` unless the mask `t` fits over the scores in one way only.

    A boolean mask says `True` where a query may attend to a key; a floating point one is added to
    the scores. If B = T, a mask of two axes could mean (T, S) or (B, S), and both would broadcast.
    Such a mask is refused.
    """
    if t is None:
        return
    kind = _is(t, torch.bool) or (dtype is None and _is(t, None))
    sizes_fit = kind and all(m == 1 or m == n for m, n in zip(t.shape[::-1], shape[::-1]))
    if not sizes_fit or t.ndim not in (2, len(shape)):
        numbers = "" if dtype == torch.bool else " or floating point numbers to add"
        error = ValueError if kind else TypeError
        raise error(
            f"{name}: expected a boolean tensor (True = may attend){numbers}, "
            f"(T, S) or {len(shape)} axes, that broadcasts to {tuple(shape)}, got {_came(t)}"
        )
    if t.ndim == 2 and t.shape[0] == shape[0] == shape[-2] > 1:
        raise ValueError(
            f"{name}: expected {len(shape)} axes, because two could be (T, S) or (B, S) "
            f"where B = T = {shape[0]}, got shape {tuple(t.shape)}"
        )
    came = None if t.dtype == torch.bool else _meant_otherwise(t)
    if came:
        raise ValueError(
            f"{name}: expected a boolean tensor, or numbers to add to the scores, and of 0 and 1 "
            f"`{name}.bool()` hides where they are 0, got {came}"
        )


def _meant_otherwise(t):
    """What shows that a mask of floating point numbers was meant as a boolean one; None for others.

    Added, 0 and 1 hide nothing, and 0 times -inf is NaN. Zeros alone may be a bias. We look on the
    CPU only, as `check_numbers` does, and in most masks at one number.
    """
    if not is_readable(t):
        return None
    t = t.detach()
    try:
        first = t[(0,) * t.ndim].item()
        if math.isnan(first):
            return "NaN, as 0 times -inf is"
        if first in (0, 1) and t.max().item() == 1 and ((t == 0) | (t == 1)).all():
            return "nothing but 0 and 1"
    except RuntimeError:  # no value to read, as under torch.func.vmap
        pass
    return None


def _shares(t, q):
    "Whether each head of `t`, keys or values, serves as many heads of the queries as the others."
    g, h = t.shape[1], q.shape[1]
    return g == h or (q.ndim == 4 and 0 < g < h and h % g == 0)


def _fit(q, k, v):
    "Whether they fit together, at a glance: every layer asks for every token."
    if not all(_is(t, None) and 3 <= t.ndim <= 4 for t in (q, k, v)):
        return False
    same_type = q.dtype == k.dtype == v.dtype
    same_batch = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    four_axes = q.ndim == k.ndim == v.ndim == 4
    if not same_batch and four_axes and q.shape[0] == k.shape[0] == v.shape[0]:
        same_batch = _shares(k, q) and _shares(v, q)
    return same_type and same_batch and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]


def check_attention(
    q: torch.Tensor,  # (B, T, d_k) or (B, h, T, d_k)
    k: torch.Tensor,  # (B, S, d_k) or (B, g, S, d_k), g divides h
    v: torch.Tensor,  # (B, S, d_v) or (B, g, S, d_v)
    mask: torch.Tensor | None = None,  # boolean or floating point; (T, S) or as many axes as q
    scale: float | None = None,  # any number
) -> None:
    "Raise `TypeError` or `ValueError` unless the inputs of `attention` fit together."
    if not _fit(q, k, v):
        batch = "B h" if getattr(q, "ndim", 3) == 4 else "B"
        sizes = check_tensor("q", q, f"{batch} T d_k")
        for name, t, axes in (("k", k, "S d_k"), ("v", v, "S d_v")):
            heads = {}
            if batch == "B h" and getattr(t, "ndim", 3) == 4 and _shares(t, q):
                heads = {"h": t.shape[1]}
            sizes |= check_tensor(name, t, f"{batch} {axes}", q.dtype, **(sizes | heads))
            sizes["h"] = q.shape[1]
    check_over("mask", mask, (*q.shape[:-1], k.shape[-2]))
    if scale is not None:
        NUMBER.check("scale", scale)


def check_mask(
    mask,  # what came, of a shape that fits
) -> None:
    "Raise `TypeError` unless a mask is boolean, for an `attention` that takes no others."
    fits = mask is None or mask.dtype == torch.bool
    check_that(fits, "mask", "a boolean tensor (True = may attend)", mask, TypeError)


def check_self_attention(
    q,  # what came, (B, n_heads, T, d_k)
    k,  # the same of the same tokens, (B, n_kv_heads, T, d_k)
    **sizes: int,  # of the axes of q that are known already
) -> None:
    "Raise `TypeError` or `ValueError` unless `q` and `k` are heads of the same tokens."
    sizes = check_tensor("q", q, "B n_heads T d_k", **sizes)
    check_tensor("k", k, "B n_kv_heads T d_k", q.dtype, **sizes)


def check_seam(
    mask,  # what came in the place of a mask
    attend,  # and in that of the function that a layer calls
) -> None:
    """Raise `TypeError` unless the first is a tensor or None, and the second can be called, and
    `ValueError` for three axes, as the keys of layer(x, x, x) have."""
    if not (mask is None or isinstance(mask, torch.Tensor)):
        expected = "a tensor or None, and a function by name, as in layer(x, attend=function)"
        raise TypeError(f"mask: expected {expected}, got {_came(mask)}")
    if mask is not None and mask.ndim == 3:
        expected = "two axes or four; queries, keys and values are all made of x, as in layer(x)"
        raise ValueError(f"mask: expected {expected}, got shape {tuple(mask.shape)}")
    if not callable(attend):
        expected = "a function such as `attention`"
        raise TypeError(f"attend: expected {expected}, got {_came(attend)}")


def check_attends(
    attend,  # what came: a function for all blocks, or a list with one for each
    n: int,  # blocks
    positions,  # what came, or None
) -> None:
    "Raise `TypeError` or `ValueError` unless each block has one, and a cache in use its positions."
    one_each = isinstance(attend, list)
    functions = attend if one_each else [attend]
    n_given = len(functions)
    check_that(not one_each or n_given == n, "attend", f"{n} functions, one a block", n_given)
    for function in functions:
        check_seam(None, function)
    if positions is None:
        kept = max(_tokens_kept(function) for function in functions)
        expected = (
            f"those after the tokens in the cache ({kept} so far), as cache.positions(T) says"
        )
        check_that(kept == 0, "positions", expected, None)


def _tokens_kept(attend):
    "How many tokens a cache holds; 0 for any other function."
    length = getattr(attend, "length", 0)
    is_cache = isinstance(length, int) and not isinstance(attend, torch.nn.Module)
    return length if is_cache else 0  # what a module calls so is a size of its own


def check_attended(
    y,  # what an `attend` gave
    q: torch.Tensor,  # (B, h, T, d_k), the queries that it was given
) -> None:
    "Raise `TypeError` or `ValueError` unless `y` is a tensor of the shape of the queries."
    tensor = isinstance(y, torch.Tensor)
    if tensor and y.shape == q.shape:
        return
    expected = f"a function that gives a tensor of shape {tuple(q.shape)}, as its q has"
    error = ValueError if tensor else TypeError
    raise error(
        f"attend: expected {expected}, got {tuple(y.shape) if tensor else type(y).__name__}"
    )
