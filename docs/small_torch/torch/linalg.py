"""What the pages use of `torch.linalg`."""

from ._tensor import absent


def matrix_power(A, n):
    """A matrix times itself, n times; n = 0 gives ones on the diagonal."""
    result = A.new_zeros(A.shape)
    result.diagonal(dim1=-2, dim2=-1).fill_(1)
    for _ in range(n):
        result = result @ A
    return result


def norm(A, dim=None, keepdim=False):
    """The length of a vector."""
    return A.norm(dim=dim, keepdim=keepdim)


vector_norm = norm


__getattr__ = absent("torch.linalg")
