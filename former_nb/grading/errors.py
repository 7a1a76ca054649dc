"""What Python raised, in words that help: the usual mistake behind a message."""

import torch

__all__ = ["MistakeError", "clean_message", "usual_mistake"]


class MistakeError(Exception):
    "A file that can't be judged; the message says why."


def _text(message):
    try:
        return str(message)
    except Exception:  # noqa: BLE001, a reader's class of errors may fail here, too
        return "(its message cannot be shown)"


def clean_message(
    message: object,  # text, or what was raised
    longest: int = 300,  # characters that are kept
) -> str:  # its first line
    "A message as one line that can be printed: no control characters, and not endless."
    line = _text(message).strip().partition("\n")[0]
    cut = line[:longest] + ("…" if len(line) > longest else "")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


_ERRORS = {  # words of a message -> the usual mistake behind it
    "Boolean value of Tensor": "`and`, `or`, `not`, `if`, `max` and `min` ask a whole tensor for "
    "one truth; take `&`, `|`, `~`, `torch.where` or `.clamp`",
    '"bitwise_': "`&`, `|` and `~` join booleans, and one of yours is a tensor of floats; compare, "
    "or use `.bool()`",
    "not implemented for 'Bool'": "booleans can't be multiplied as matrices; make numbers of them "
    "with `.double()`, and ask `> 0` at the end",
    "must be Tensor, not float": "you gave torch a plain number; for that there is `math`",
    "must be Tensor, not int": "you gave torch a plain number; for that there is `math`",
    "must be Tensor, not list": "that is a list of tensors, not a tensor; `torch.stack` makes one",
    "must be Tensor, not tuple": "that is a tuple of tensors; take them apart first, as in "
    "`for inputs, targets in batches`",
    'required positional arguments: "dim"': "the axis is missing; say `dim=`",
    "tensors used as indices must be": "an index must be whole numbers; use `.long()`",
    "shape of the mask": "a boolean index must have the first axes of what it picks from; to look "
    "rows up, you need their numbers",
    "'list' object has no attribute": "that is a list, not a tensor; use `sum`, `max` and `len`, "
    "or make a tensor of it first",
    "for -: 'list' and 'int'": "a list has no minus; take it from each of its numbers, as in "
    "`[n - 1 for n in lengths]`",
    "expected sequence of length": "the rows have different lengths; fill them up first",
    "expects each tensor to be equal size": "the tensors have different "
    "lengths; fill them up first",
    "but got NoneType": "one of them is None, which `.get` gives for a key that isn't there yet; "
    "ask for that first",
    "expected Tensor as element 0": "those are lists, not tensors; make a tensor of each first",
    "must have same number of dimensions": "you joined tensors of which one has an axis more than "
    "the other; `keepdim=True` keeps the axis, and `[:, None]` adds one",
    "Index tensor must have the same number": "`gather` wants an index with as many axes as its "
    "tensor; `[..., None]` adds one",
    "expected scalar type Float but found Bool": "a product wants numbers on both sides; make them "
    "of booleans with `.float()`",
    "could not infer output dtype": "whole numbers have no mean; take floating point numbers only",
    "implicitly created only for scalar": "`backward` starts at one number; take the mean of the "
    "losses",
    "does not require grad": "the loss doesn't lead back to the weights; `argmax`, `.item()`, "
    "`.detach()` and `no_grad` cut the way",
    "Expected target size": "`F.cross_entropy` looks for the classes on axis 1; give it "
    "`logits.mT`",
    "to match target batch_size": "logits and targets must be flattened alike, to (B · T, V) and "
    "(B · T,)",
    "target with class probabilities": "targets of the logits' own shape are read as "
    "probabilities; those are floats, or give whole numbers without the last axis",
    "index -100 is out of bounds": "IGNORE, -100, was used as an index; clamp it, and leave its "
    "places out of the sum",
    "Target -100 is out of bounds": "targets that don't count are IGNORE, -100, which "
    "`ignore_index` is already; leave it as it is, pads have that number, too",
    "list index out of range": "an index runs past the end of the list; the last place is len - 1",
    "unhashable type: 'list'": "a list can't be counted or be a key; make a tuple of it",
    "max() arg is an empty sequence": "nothing is left to choose from; stop before that",
    "mat1 and mat2 shapes": "in a product the last axis of the first must be as long as the one "
    "before the last of the second, and a linear layer wants d_model numbers; compare the shapes",
    "expanded size of the tensor": "what you write in is longer or shorter than its place",
    "cannot be broadcast to indexing": "what you write in has more or fewer numbers than its place",
    "for +: 'int' and 'dict'": "dictionaries can't be added; go through their names",
    "Dimension out of range": "the tensor has fewer axes than that; print its `.shape`",
    "too many indices for tensor": "the tensor has fewer axes than that; print its `.shape`",
    "got float": "`/` makes a float even of whole numbers; for a size or an index take `//`",
    "'float' object cannot be interpreted as an integer": "`/` makes a float even of whole "
    "numbers; for a size or an index take `//`",
    "is invalid for input of size": "the sizes must multiply to as many numbers as there are; -1 "
    "stands for what is left",
    "not enough values to unpack": "there are fewer values than names on the left",
    "too many values to unpack": "there are more values than names on the left",
    "same dtype": "one tensor has another type of numbers; `.to(x.dtype)` makes them alike",
    "cannot be converted to Scalar": "one number is wanted, and that tensor has several",
    "only one element tensors can": "one number is wanted, and that tensor has several",
    "object is not callable": "what stands before the brackets is no function; an element is taken "
    "with `[…]`",
    "object is not iterable": "there is nothing in it to go through; for so many rounds write "
    "`range(…)`",
    "object is not subscriptable": "there is nothing in it to pick from with `[…]`",
    "required positional argument": "a function was called with fewer arguments than it wants",
    "unexpected keyword argument": "the function has no argument of that name",
    "were given": "a function was called with more arguments than it takes",
    "must match the existing size": "`expand` only repeats axes of size 1",
    "division by zero": "what you divide by may be 0 here",
}
_MISFIT = (  # for two shapes that do not broadcast
    "two shapes don't fit; they are compared from the last axis on, and `keepdim=True` or "
    "`[..., None]` makes an axis of size 1, which fits all"
)


def usual_mistake(
    error: BaseException,
) -> str:
    "The usual mistake behind an error, or nothing."
    message = _text(error)
    for words, sentence in _ERRORS.items():
        if words in message:
            return sentence
    if isinstance(error, UnboundLocalError):
        return f"`{error.name or 'it'}` has no value there yet; give it one before, in every case"
    if isinstance(error, NameError):
        in_torch = callable(getattr(torch, error.name or "", None))
        where = f", or write `torch.{error.name}`" if in_torch else ""
        return f"nothing is called `{error.name}` here; give it a value first, or import it{where}"
    if isinstance(error, AttributeError) and error.name:
        plain = isinstance(error.obj, (int, float, list, tuple, type(None)))
        of_tensors = "; a tensor has" if plain and hasattr(torch.Tensor, error.name) else ""
        return f"a value of type {type(error.obj).__name__} has no `{error.name}`{of_tensors}"
    if isinstance(error, KeyError):
        return "the dictionary has no such key yet; ask `if key in …`, or use `.get(key, 0)`"
    if "must match the size of tensor b" in message:
        return _MISFIT
    return ""
