"What the questions of several lessons are made of."

from ..grading.ask import Call
from ..grading.content import right_module
from ..grading.observe import fill


def spy(q, k, v, mask=None, is_causal=False, more=0.0):
    "In place of attention: a layer that does not hand on all of its arguments is seen."
    seen = v * (2 + bool(is_causal)) + q.cumsum(-2) - 3 * k + more
    return seen if mask is None else seen + mask.double().mean().to(seen.dtype)


def layer(kind, *init):
    "A layer of the right file, with weights that depend on their names alone."
    made = getattr(right_module(), kind.__name__)(*init)
    fill(made, made, {})
    return made


def a_mask(draw, *shape):
    "A mask that leaves each query the first key."
    mask = draw.mask(*shape)
    mask[..., 0] = True
    return mask


def ask_layer(draw, init, d_model, attend=True):
    "Calls of a layer that is given x, a mask, is_causal and, if it takes one, attend."
    x = draw.numbers(2, 5, d_model)
    mask = a_mask(draw, 2, 1, 1, 5)
    yield Call(f"x {tuple(x.shape)}", (x,), {}, init)
    yield Call("is_causal=True", (x,), dict(is_causal=True), init)
    yield Call("a mask of padding", (x,), dict(mask=mask), init)
    if attend:
        options = dict(mask=mask, is_causal=True, attend=spy)
        yield Call("another attend, with a mask", (x,), options, init)
        yield Call("another attend", (x,), dict(attend=spy), init)
    for _ in draw.rounds:
        x = draw.numbers(draw.size(1, 3), draw.size(1, 7), d_model)
        yield Call(f"x {tuple(x.shape)}", (x,), {}, init)
