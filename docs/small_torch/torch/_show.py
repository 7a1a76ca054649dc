"""How a tensor is printed."""

import math


def number_format(values):
    """A function that writes numbers as PyTorch does: as few digits as they all need."""
    finite = [abs(value) for value in values if math.isfinite(value)]
    nonzero = [value for value in finite if value]
    if all(value == int(value) for value in finite):
        large = bool(nonzero) and max(nonzero) >= 1e8
        form = (lambda x: f"{x:.4e}") if large else (lambda x: f"{x:.0f}.")
    else:
        wide = max(nonzero) / min(nonzero) > 1000 or max(nonzero) > 1e8 or min(nonzero) < 1e-4
        form = (lambda x: f"{x:.4e}") if wide else (lambda x: f"{x:.4f}")
    return lambda x: form(x) if math.isfinite(x) else str(float(x))


def rows(words, shape, indent):
    """Nested brackets around words that are already written."""
    if not shape:
        return words[0]
    if len(shape) == 1:
        return "[" + ", ".join(words) + "]"
    n = len(words) // shape[0] if shape[0] else 0
    parts = [words[i * n : (i + 1) * n] for i in range(shape[0])]
    between = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + between.join(rows(part, shape[1:], indent + 1) for part in parts) + "]"


def show(t, name="tensor"):
    """A tensor as PyTorch prints it."""
    values = t.flat()
    form = number_format(values) if t.dtype.kind == 2 else str
    words = [form(value) for value in values]
    if t.shape:
        width = max(map(len, words), default=0)
        words = [word.rjust(width) for word in words]
    ending = ""
    if t.dtype.name in ("float64", "int32"):
        ending += f", dtype={t.dtype}"
    if t.grad_fn is not None:
        ending += f", grad_fn={t.grad_fn}"
    elif t.requires_grad:
        ending += ", requires_grad=True"
    return f"{name}({rows(words, t.shape, len(name) + 1)}{ending})"
