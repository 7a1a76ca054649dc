"""Every form gives one answer, and the counter counts right."""

import torch

from former_nb.attention.equivalent_forms import (
    Cost,
    GrowingCache,
    count_cost,
)
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.models.modern_decoder import GroupedQueryAttention


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_growing_cache_keeps_the_heads_of_keys_only():
    cache, layer = GrowingCache(), GroupedQueryAttention(24, 6, 2)
    assert cache.length == 0
    layer(numbers(3, 5, 24), attend=cache)
    assert cache.length == 5 and cache.keys[0].shape == (3, 2, 5, 4)


def test_costs_counted_by_hand():
    a, b = numbers(3, 4), numbers(4, 7)
    assert count_cost(torch.matmul, a, b) == Cost(168, 4 * (12 + 28 + 21), 1)
    assert count_cost(lambda: (a * a).sum()) == (12 + 12, 4 * (3 * 12 + 12 + 1), 2)
    assert count_cost(lambda: a.T.reshape(-1, 3).expand(5, 4, 3)) == (0, 0, 0)
    assert count_cost(lambda: a[0] @ a[1]) == (8, 4 * (4 + 4 + 1), 1)
    assert count_cost(lambda: a.add_(a[:1].expand(3, 4))) == (12, 4 * (12 + 4 + 12), 1)


def test_the_fused_layer_starts_five_operations_and_writes_no_table_of_scores():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 2, bias=False), numbers(3, 5, 12)
    assert count_cost(layer, x) == (20_880, 11_064, 5)
    for T in (64, 256):
        q = numbers(1, 4, T, 32)
        fused = count_cost(lambda q=q: torch.nn.functional.scaled_dot_product_attention(q, q, q))
        written = count_cost(lambda q=q: (q @ q.mT).softmax(dim=-1) @ q)
        assert fused.flops == written.flops == 4 * 4 * T * T * 32
        assert written.bytes - fused.bytes >= 4 * (4 * 4 * T * T) - 4 * 4 * T * 32
