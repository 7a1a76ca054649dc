"""The three models of the lessons, as they are made from a configuration, saved and loaded."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..attention.fused import attention
from ..attention.masks import padding_mask
from ..base.guards import check_ids, check_room
from ..data.text import PAD
from . import classifier, encoder_decoder, language_model
from .config import TransformerConfig
from .layers import Embedding, Stack
from .pretrained import Pretrained

__all__ = ["Classifier", "LanguageModel", "EncoderDecoder", "make_model"]


class Classifier(classifier.Classifier, Pretrained):
    """The lesson's classifier, which can also be saved. A subclass may replace `encode`.

    Untrained, it gives all classes the same probability.
    """

    def __init__(
        self,
        embed: Embedding,
        stack: Stack,
        d_model: int,  # width of both
        n_classes: int,  # 2 or more
    ):
        super().__init__(embed, stack, d_model, n_classes)
        self.n_classes = n_classes
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def encode(
        self,
        tokens: torch.Tensor,  # as for `forward`
        attend: Callable | list = attention,  # as for `forward`
    ) -> torch.Tensor:  # (B, T, d_model)
        "Each token's vector, after it has attended to the others."
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens, positions)
        return self.stack(x, padding_mask(tokens), attend=attend, positions=positions)

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
        attend: Callable | list = attention,  # as for `Stack`
    ) -> torch.Tensor:  # logits (B, n_classes)
        "Logits for each text. Padding changes nothing."
        check_ids("tokens", tokens, self.embed.tokens.num_embeddings)
        check_room(tokens, self.embed.position_embedding)
        x = self.encode(tokens, attend)  # (B, T, d_model)
        return self.head(classifier.pool_tokens(x, tokens != PAD))


class LanguageModel(language_model.LanguageModel, Pretrained):
    "The lesson's language model, which can also be saved and may have an untied head."

    def __init__(
        self,
        embed: Embedding,
        stack: Stack,
        head: nn.Linear | None = None,  # the embedding's own vectors if left out
    ):
        super().__init__(embed, stack)
        if head is not None:
            self.head = head


class EncoderDecoder(encoder_decoder.EncoderDecoder, Pretrained):
    "The lesson's encoder–decoder, which can also be saved."


def make_model(
    src_vocab: int,  # tokens of the source
    tgt_vocab: int | None = None,  # tokens of the target; if left out, both share a vocabulary
    **sizes: Any,  # of `TransformerConfig`; those of the paper's base model if left out
) -> EncoderDecoder:
    "The paper's base model, or another size of it, for one vocabulary or two."
    paper: dict = dict(max_len=512, d_model=512, n_heads=8, n_layers=6, d_ff=2048)
    paper.update(norm_first=False, activation="relu", positions="sinusoidal")
    paper.update(sizes)
    config = TransformerConfig(src_vocab, **paper)
    if tgt_vocab is None:
        return EncoderDecoder.from_config(config)  # one matrix for both languages
    return EncoderDecoder.from_config(config, tgt_config=TransformerConfig(tgt_vocab, **paper))
