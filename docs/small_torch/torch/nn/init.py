"""How parameters begin."""

import math

from .._tape import no_grad


@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Random numbers from a range."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal random numbers."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor, val):
    """One number everywhere."""
    return tensor.fill_(val)


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1)


@no_grad()
def eye_(tensor):
    """Ones on the diagonal."""
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


def xavier_uniform_(tensor, gain=1.0):
    """Random numbers whose range depends on both sides of a matrix (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / sum(tensor.shape))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    """Normal random numbers of such a spread."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(tensor.shape)))


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    """Random numbers whose range depends on the inputs of a matrix (He et al., 2015)."""
    bound = math.sqrt(6 / ((1 + a * a) * tensor.shape[1]))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    """Normal random numbers of such a spread."""
    return normal_(tensor, 0.0, math.sqrt(2 / ((1 + a * a) * tensor.shape[1])))
