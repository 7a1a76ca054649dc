"""The Transformer, as I derived it."""

import json
import math
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


# 02 · attention


def attention_weights(q, k, mask=None, is_causal=False):  # (..., T, d_k), (..., S, d_k)
    ...  # mask and is_causal do nothing until lesson 04


def attention(q, k, v, mask=None, is_causal=False):
    ...
