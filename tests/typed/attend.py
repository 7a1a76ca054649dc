"""An attention of one's own, in layers of ours, and what every head attends to."""

from functools import partial

import torch

from former_nb import (
    MultiHeadAttention,
    assert_no_leak,
    attention,
    causal_mask,
    load_model,
    padding_mask,
    record_attention,
    same,
)
from former_nb.attention import attention_weights, combine_masks
from former_nb.attention.masks import causal_mask as the_same_mask


def sharper(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    is_causal: bool = False,
) -> torch.Tensor:
    return attention(2 * q, k, v, mask, is_causal)


q = torch.randn(2, 4, 5, 8)
y: torch.Tensor = attention(q, q, q, is_causal=True)
weights: torch.Tensor = attention_weights(q, q, causal_mask(5))
tokens = torch.tensor([[5, 6, 7, 8, 0], [5, 6, 7, 8, 9]])
mask = combine_masks(padding_mask(tokens), the_same_mask(5))

layer = MultiHeadAttention(d_model=32, n_heads=4)
x = torch.randn(2, 5, 32)
print(layer(x, mask, attend=sharper).shape, layer.split(x).size(1))
print(weights.sum(-1).mean(), y.mean())

model, tokenizer, _ = load_model("names")
ids = torch.tensor([tokenizer.encode("jonas")])
with record_attention(model) as recorded, torch.no_grad():
    model(ids)
for name, seen in recorded.items():
    print(name, seen.shape)
print(bool(same(model, partial(model, attend=attention), ids.repeat(2, 1))))
two = torch.stack([ids[0], ids[0].flip(0)])
assert_no_leak(model, two, causal_mask(two.shape[1]), vocab_size=tokenizer.vocab_size)
