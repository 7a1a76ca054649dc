"""Parts of whole models: embeddings with a scale, the fused norm, attention to a memory."""

import pytest
import torch
from refusals import every_row, n, words, zeros
from torch import nn
from torch.testing import assert_close

from former_nb.models.parts import CrossAttention, FusedRMSNorm, ScaledEmbedding


def test_a_scaled_embedding_is_the_row_times_its_scale():
    embed = ScaledEmbedding(5, 4, std=0.25, scale=3.0)
    tokens = torch.tensor([[4, 0, 4]])
    assert_close(embed(tokens), 3 * embed.tokens.weight[tokens], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_the_norm_of_a_configuration_computes_its_squares_in_float32(dtype):
    x = (300 * torch.randn(3, 24)).to(dtype)
    y = FusedRMSNorm(24).to(dtype)(x)
    assert y.dtype == dtype
    assert_close(y, nn.RMSNorm(24, eps=1e-5)(x.float()).to(dtype))


X = n(2, 5, 12)
CROSS = CrossAttention(12, 3, bias=False)
TABLE = {
    "CrossAttention": [
        *words(lambda x: CROSS(x, n(2, 7, 12))),
        *words(lambda memory: CROSS(X, memory), name="memory"),
        ("batch", lambda: CROSS(X, n(4, 7, 12)), ValueError, "memory", "(4, 7"),
        ("pair", lambda: CROSS(X, CROSS.project(n(4, 7, 12))), ValueError, "k", "(4, 3"),
        ("S = 0", lambda: CROSS(X, n(2, 0, 12)), zeros(2, 5, 12)),
        (
            "no output",
            lambda: CROSS(X, X, attend=lambda *qkv: None),
            TypeError,
            "attend",
            "NoneType",
        ),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
