"""A classifier that also looks at pairs of neighbouring tokens."""

import torch
from torch import nn

from ..base.guards import check_int
from .block import Embedding
from .build import classifier_parts, start_embedding
from .classifier import Classifier
from .config import TransformerConfig
from .initialization import NoRandomWeights

__all__ = ["BigramClassifier"]


class BigramEmbedding(Embedding):
    "A vector for each token, and one for it with its left neighbour (Joulin et al. 2017)."

    def __init__(
        self,
        config: TransformerConfig,
        n_bigrams: int,  # vectors shared by all pairs; 0 does without
        dropout: float | None = None,  # that of `config` if left out
    ):
        dropout = config.dropout if dropout is None else dropout
        with NoRandomWeights():
            super().__init__(config.vocab_size, config.d_model, None, dropout)
        start_embedding(self, config)
        check_int("n_bigrams", n_bigrams, 0)
        self.bigrams = None
        if n_bigrams:
            self.bigrams = nn.Embedding(n_bigrams, config.d_model)
            nn.init.zeros_(self.bigrams.weight)

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        positions: torch.Tensor | None = None,  # (T,) or (B, T); 0, 1, 2, … if left out
    ) -> torch.Tensor:  # (B, T, d_model)
        "The vectors of the tokens, each plus that of its pair, and the positions."
        x = self.tokens(tokens) * self.scale
        if self.bigrams is not None:
            before = nn.functional.pad(tokens, (1, 0))[:, :-1].long()  # (B, T), left neighbours
            pair = (before * 1_000_003 + tokens) % self.bigrams.num_embeddings
            x = x + self.bigrams(pair)
        if self.positions is not None:
            x = self.positions(x, positions)
        return self.dropout(x)


class BigramClassifier(Classifier):
    "A `Classifier` whose embedding knows pairs of neighbours."

    def __init__(
        self,
        config: TransformerConfig,  # every size of the encoder
        n_classes: int,  # 2 or more
        embed_dropout: float = 0.0,  # as for `Classifier`
        n_bigrams: int = 0,  # vectors for pairs of neighbours; 0 does without
    ):
        super().__init__(**classifier_parts(config, n_classes, embed_dropout))
        self.config = config
        self.embed = BigramEmbedding(config, n_bigrams, embed_dropout)
