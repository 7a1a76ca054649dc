"""Heads that share keys and values, and heads of any width."""

from torch import nn

from ..base.guards import check_heads
from .multi_head import MultiHeadAttention

__all__ = ["GroupedQueryAttention"]


class GroupedQueryAttention(MultiHeadAttention):
    """Several heads of queries share one head of keys and values (Ainslie et al. 2023).

    Only the matrices differ from `MultiHeadAttention`; `attention` repeats shared heads."""

    def __init__(
        self,
        d_model: int,  # width of input and output
        n_heads: int,  # h, heads of queries
        n_kv_heads: int | None = None,  # heads of keys and values; divides h, h if left out
        d_k: int | None = None,  # width of a head; d_model / h if left out
        bias: bool = True,  # each of the four linear layers has one
    ):
        nn.Module.__init__(self)
        check_heads(d_model, n_heads, n_kv_heads, d_k)
        self.d_k = d_k or d_model // n_heads
        n_kv_heads = n_kv_heads or n_heads
        self.w_q = nn.Linear(d_model, n_heads * self.d_k, bias=bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_o = nn.Linear(n_heads * self.d_k, d_model, bias=bias)
