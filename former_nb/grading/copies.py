"Copies of arguments, faster than `copy.deepcopy`, which also copies each empty hook of a layer."

import copy
from collections import OrderedDict
from types import FunctionType

import torch
from torch import nn

PLAIN = {type(None), bool, int, float, str, FunctionType}
HOOKS = {dict, OrderedDict}


def copied(value, memo=None):
    "A deep copy; what is one thing in two places stays one."
    if type(value) in PLAIN:
        return value
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = new_copy(value, memo)
    return memo[id(value)]


def new_copy(value, memo):
    if isinstance(value, torch.Tensor):
        made = value.detach().clone()
        if isinstance(value, nn.Parameter):
            return nn.Parameter(made, requires_grad=value.requires_grad)
        return made
    if isinstance(value, nn.Module):
        return copied_module(value, memo)
    if type(value) in (list, tuple, set):
        return type(value)(copied(part, memo) for part in value)
    if isinstance(value, dict) and not value:
        return type(value)()
    if type(value) is dict:
        return {key: copied(part, memo) for key, part in value.items()}
    return copy.deepcopy(value, memo)


def copied_module(module, memo):
    new = memo[id(module)] = object.__new__(type(module))
    own = vars(new)
    for name, value in vars(module).items():
        kind = type(value)
        if kind in PLAIN:
            own[name] = value
        elif kind in HOOKS and not value:
            own[name] = kind()
        else:
            own[name] = copied(value, memo)
    return new
