"""How parameters begin."""

import math


def uniform_(tensor, a=0.0, b=1.0):
    """Random numbers from a range."""
    return tensor.uniform_(a, b)


def normal_(tensor, mean=0.0, std=1.0):
    """Normal random numbers."""
    return tensor.normal_(mean, std)


def zeros_(tensor):
    """Zeros."""
    return tensor.zero_()


def ones_(tensor):
    """Ones."""
    return tensor.fill_(1)


def xavier_uniform_(tensor):
    """Random numbers whose range depends on both sides of a matrix (Glorot and Bengio, 2010)."""
    bound = math.sqrt(6 / sum(tensor.shape))
    return tensor.uniform_(-bound, bound)
