"""Classifiers that also look at pairs of neighbouring tokens.

`BigramClassifier` adds a vector for each pair to the embedding, where attention reads it.
`WideClassifier` also adds up a number for each token and each pair, past the attention, as a linear
model does. Reviews show why: a linear model of words and pairs is better there than a Transformer,
and both together are better than either. Cheng et al. (2016) call the two parts wide and deep.
"""

import torch
from torch import nn

from ..attention.dot_product import attention
from ..base.guards import check_int
from ..data.text import PAD
from .block import Embedding
from .build import classifier_parts, start_embedding
from .classifier import Classifier
from .config import TransformerConfig
from .initialization import NoRandomWeights

__all__ = ["BigramClassifier", "WideClassifier"]

WEIGHT = 0.05  # of naive Bayes at the start, chosen on reviews


def number_pairs(
    tokens: torch.Tensor,  # (B, T) integers
    n: int,  # how many numbers there are
) -> torch.Tensor:  # (B, T), from 0 to n - 1
    "A number for each token with its left neighbour. Several pairs may share one."
    before = nn.functional.pad(tokens, (1, 0))[:, :-1].long()  # (B, T)
    return (before * 1_000_003 + tokens) % n


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
            x = x + self.bigrams(number_pairs(tokens, self.bigrams.num_embeddings))
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


class WideClassifier(BigramClassifier):
    """A `BigramClassifier` beside a linear model of tokens and pairs (Cheng et al. 2016).

    A row of `wide` says what a token or a pair counts for each class. It counts once for a text,
    however often it occurs there. `start_from` fills the rows by naive Bayes, from where they learn
    on (Wang and Manning 2012).
    """

    def __init__(
        self,
        config: TransformerConfig,  # every size of the encoder
        n_classes: int,  # 2 or more
        embed_dropout: float = 0.0,  # as for `Classifier`
        n_bigrams: int = 0,  # as for `BigramClassifier`
        n_wide: int = 100_000,  # rows that all tokens and pairs share
    ):
        super().__init__(config, n_classes, embed_dropout, n_bigrams)
        check_int("n_wide", n_wide)
        self.wide = nn.Embedding(n_wide, n_classes)
        nn.init.zeros_(self.wide.weight)

    def features(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (B, 2 T) rows of `wide`, and which of them count
        "The rows of a text's tokens and pairs in ascending order, each counted once."
        n = self.wide.num_embeddings
        rows = torch.cat([tokens.long() % n, number_pairs(tokens, n)], dim=1)  # (B, 2 T)
        rows = rows.masked_fill((tokens == PAD).repeat(1, 2), n)  # behind all others
        rows, _ = rows.sort(dim=1)
        before = nn.functional.pad(rows, (1, 0), value=-1)[:, :-1]
        counts = (rows != before) & (rows < n)
        return rows.masked_fill(~counts, 0), counts

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
        attend=attention,  # as for `Stack`
    ) -> torch.Tensor:  # logits (B, n_classes)
        "Logits for each text, the sum of both parts."
        logits = super().forward(tokens, attend)
        rows, counts = self.features(tokens)
        total = (self.wide(rows) * counts[..., None]).sum(dim=1)  # (B, n_classes)
        length = counts.sum(dim=1, keepdim=True).clamp(min=1).sqrt()  # (B, 1)
        return logits + total / length

    @torch.no_grad()
    def start_from(
        self,
        rows: list[tuple[list[int], int]],  # tokens and the number of the class, to learn from
    ) -> None:
        "Fill the wide part: how much more often the texts of each class have a feature."
        if self.wide.weight.is_meta:
            return
        counts = torch.ones(self.wide.num_embeddings, self.n_classes)
        for tokens, label in rows:
            found, once = self.features(torch.tensor([tokens]))
            counts[found[once], label] += 1
        others = counts.sum(dim=1, keepdim=True) - counts
        ratio = (counts / counts.sum(dim=0)).log() - (others / others.sum(dim=0)).log()
        self.wide.weight.copy_(WEIGHT * ratio)
