"""Helpers of `torch.nn`."""

from ..._make import stack
from ..._tape import no_grad
from . import rnn


@no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Make all gradients together no longer than `max_norm`; gives how long they were."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    length = stack([g.norm() for g in gradients]).norm()
    factor = min(1.0, max_norm / (length.item() + 1e-6))
    for g in gradients:
        g.copy_(g * factor)
    return length
