"""What BERT does differently: segments, a norm on the embeddings, a first token that speaks for
the text, and one more layer before hidden tokens are guessed (Devlin et al. 2019)."""

import torch
from torch import nn

from ..attention.fused import attention
from ..attention.masks import padding_mask
from ..base.guards import check_ids, check_type
from .build import build_norm, build_positions, classifier_parts
from .choices import ACTIVATIONS, find_part
from .config import TransformerConfig
from .initialization import init_weights
from .layers import Embedding
from .masked_language import MaskedLanguageModel
from .savable import Classifier

__all__ = ["BertClassifier", "BertMaskedLanguageModel"]


class Dense(nn.Module):
    "A linear layer as wide as the model, an activation and a norm: BERT's way into a head."

    def __init__(
        self,
        d_model: int,  # width of input and output
        activation=torch.tanh,  # a function of numbers
        norm: nn.Module | None = None,  # on what comes out
    ):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)
        self.activation = activation
        self.norm = norm or nn.Identity()
        init_weights(self, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # both (..., d_model)
        return self.norm(self.activation(self.linear(x)))


class BertEmbedding(Embedding):
    "Vectors for the token, its position and its segment, and a norm on their sum."

    def __init__(
        self,
        config: TransformerConfig,
        n_segments: int = 2,  # vectors for what part of a text a token stands in
        dropout: float = 0.0,  # probability that a number is dropped, in training only
    ):
        positions = build_positions(config, "input")
        super().__init__(config.vocab_size, config.d_model, positions, dropout)
        self.segments = nn.Embedding(n_segments, config.d_model)
        self.norm = build_norm(config)
        nn.init.normal_(self.segments.weight, std=0.02)

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        segments: torch.Tensor | None = None,  # (B, T) integers; all 0 if left out
    ) -> torch.Tensor:  # (B, T, d_model)
        if segments is None:
            segments = torch.zeros_like(tokens)
        check_ids("segments", segments, self.segments.num_embeddings)
        x = self.tokens(tokens) + self.segments(segments)
        if self.position_embedding is not None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.position_embedding(x, positions)
        return self.dropout(self.norm(x))


class BertClassifier(Classifier):
    "BERT's encoder; its first token, through one more layer, gives the logits."

    def __init__(
        self,
        config: TransformerConfig,  # every size of the encoder
        n_classes: int,  # 2 or more
        embed_dropout: float = 0.0,  # as for `Classifier`
        n_segments: int = 2,  # as for `BertEmbedding`
    ):
        super().__init__(**classifier_parts(config, n_classes, embed_dropout))
        self.config = config
        self.embed = BertEmbedding(config, n_segments, embed_dropout)
        self.pool = Dense(config.d_model)

    def encode(self, tokens, segments=None, attend=attention):  # as for `forward`
        "Each token's vector (B, T, d_model), after it has attended to the others."
        x = self.embed(tokens, segments)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.stack(x, padding_mask(tokens), attend=attend, positions=positions)

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
        segments: torch.Tensor | None = None,  # as for `BertEmbedding`
        attend=attention,  # as for `Stack`
    ) -> torch.Tensor:  # logits (B, n_classes)
        "Logits for each text. Padding changes nothing."
        check_ids("tokens", tokens, self.config.vocab_size)
        x = self.encode(tokens, segments, attend)  # (B, T, d_model)
        return self.head(self.pool(x[:, 0]))


class BertMaskedLanguageModel(MaskedLanguageModel):
    "BERT with a head that predicts hidden tokens."

    encoder: BertClassifier

    def __init__(self, encoder: BertClassifier):  # without its head; trained in place
        check_type("encoder", encoder, BertClassifier)
        super().__init__(encoder)
        c = encoder.config
        self.transform = Dense(c.d_model, find_part(ACTIVATIONS[c.activation].part), build_norm(c))

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        positions: torch.Tensor,  # (B, K) integers below T, where to answer
        segments: torch.Tensor | None = None,  # as for `BertEmbedding`
    ) -> torch.Tensor:  # logits (B, K, vocab_size)
        "Logits for the tokens at `positions`."
        self.check(tokens, positions)
        x = self.encoder.encode(tokens, segments)  # (B, T, d_model)
        return self.answer(self.transform(x), positions)
