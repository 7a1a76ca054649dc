"Copies of arguments, faster than `copy.deepcopy`, which also copies each empty hook of a layer."

import copy
from types import FunctionType

import torch
from torch import nn

PLAIN = {type(None), bool, int, float, str, FunctionType}


def copied(value, memo=None):
    "A deep copy; what is one thing in two places stays one."
    if type(value) in PLAIN:
        return value
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = new_copy(value, memo)
    return memo[id(value)]


def new_copy(value, memo):
    if isinstance(value, nn.Parameter):
        return nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, nn.Module):
        return copied_module(value, memo)
    if type(value) in (list, tuple, set):
        return type(value)(copied(part, memo) for part in value)
    if isinstance(value, dict) and not value:  # hooks
        return type(value)()
    if type(value) is dict:
        return {key: copied(part, memo) for key, part in value.items()}
    return copy.deepcopy(value, memo)


def copied_module(module, memo):
    new = memo[id(module)] = object.__new__(type(module))
    for name, value in vars(module).items():
        vars(new)[name] = copied(value, memo)
    return new
