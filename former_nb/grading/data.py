"""Values as data: what is seen of an answer, in a form that can be compared and sent.

A reader's file runs in another process. What comes from there is numbers and texts, never an object
that would be made by the reader's code: tensors as their bytes, containers as lists, anything else
by the name of its type. Nothing is unpickled.
"""

import base64
from typing import NamedTuple

import torch
from torch import nn

LARGEST = 50_000_000  # bytes of a tensor that are sent
TYPES = {str(t): t for t in vars(torch).values() if isinstance(t, torch.dtype)}


class Raised(Exception):
    "What an answer raised, as data."

    def __init__(self, kind, message, said, line):
        super().__init__(message)
        self.kind = kind  # the name of its type
        self.said = said  # in a sentence, with the line
        self.line = line  # of the answer, or None


class Other(NamedTuple):
    "A value that is no data: a layer, a function, an object."

    kind: str


def plain(value, depth=0):
    "A value as data."
    if value is None or value is ... or type(value) in (bool, int, float, str, complex):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach() if type(value) in (torch.Tensor, nn.Parameter) else Other("a tensor")
    if isinstance(value, (Exception, Other)):
        return value
    if isinstance(value, nn.Module):
        return Other("a layer")
    if depth < 20 and isinstance(value, (list, tuple, set, frozenset)):
        is_set = isinstance(value, (set, frozenset))
        parts = ["a set", *sorted(value, key=repr)] if is_set else value
        made = [plain(part, depth + 1) for part in parts]
        return made if isinstance(value, list) else tuple(made)
    if depth < 20 and isinstance(value, dict):
        return {plain(k, depth + 1): plain(v, depth + 1) for k, v in value.items()}
    if callable(value):
        return Other("a function")
    return Other(f"{type(value).__name__} {value!r:.200}")


# ---------------------------------------------------------------- as JSON


def packed(value):
    "Data as what JSON can hold."
    if value is None or type(value) in (bool, int, str):
        return value
    if value is ...:
        return {"is": "..."}
    if isinstance(value, float):
        return {"is": "float", "of": value.hex()}
    if isinstance(value, complex):
        return {"is": "complex", "of": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, torch.Tensor):
        return packed_tensor(value)
    if isinstance(value, (list, tuple)):
        kind = "other" if isinstance(value, Other) else type(value).__name__
        return {"is": kind, "of": [packed(part) for part in value]}
    if isinstance(value, dict):
        return {"is": "dict", "of": [[packed(k), packed(v)] for k, v in value.items()]}
    if isinstance(value, Raised):
        return {"is": "raised", "of": [value.kind, str(value), value.said, value.line]}
    return packed(plain(value))


def packed_tensor(value):
    value = value.detach().cpu().contiguous()
    if value.is_complex():
        return {"is": "view", "of": packed_tensor(torch.view_as_real(value))}
    if value.numel() * value.element_size() > LARGEST:
        return {"is": "other", "of": ["a tensor that is too large"]}
    raw = bytes(value.flatten().view(torch.uint8).numpy()) if value.numel() else b""
    text = base64.b64encode(raw).decode()
    return {"is": "tensor", "of": [str(value.dtype), list(value.shape), text]}


def unpacked(made):
    "What `packed` made of data. `ValueError`, `KeyError` or `TypeError` for anything else."
    if not isinstance(made, dict):
        if made is None or type(made) in (bool, int, str):
            return made
        raise ValueError("no data")
    kind, of = made["is"], made.get("of")
    if kind in ("list", "tuple"):
        parts = [unpacked(part) for part in of]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {unpacked(key): unpacked(value) for key, value in of}
    if kind == "float":
        return float.fromhex(of)
    if kind == "complex":
        return complex(*map(float.fromhex, of))
    if kind == "raised":
        name, message, said, line = of
        return Raised(str(name), str(message), str(said), line if type(line) is int else None)
    if kind == "other":
        return Other(str(of[0]))
    if kind == "view":
        return torch.view_as_complex(unpacked(of))
    if kind == "tensor":
        return unpacked_tensor(*of)
    if kind == "...":
        return ...
    raise ValueError("no data")


def unpacked_tensor(dtype, shape, text):
    raw = bytearray(base64.b64decode(text))
    flat = torch.frombuffer(raw, dtype=TYPES[dtype]) if raw else torch.empty(0, dtype=TYPES[dtype])
    return flat.reshape(shape)
