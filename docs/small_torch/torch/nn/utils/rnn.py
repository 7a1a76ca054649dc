"""Rows of different lengths as one tensor."""

from ..._make import full


def pad_sequence(sequences, batch_first=False, padding_value=0.0):
    """Tensors below each other, filled up to the longest one."""
    longest = max(len(row) for row in sequences)
    first = sequences[0]
    shape = (len(sequences), longest, *first.shape[1:])
    result = full(shape, padding_value, first.dtype)
    for i, row in enumerate(sequences):
        result[i, : len(row)] = row
    return result if batch_first else result.transpose(0, 1)
