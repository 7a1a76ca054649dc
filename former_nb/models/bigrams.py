"""Classifiers that also look at pairs of neighbouring tokens.

`BigramClassifier` adds a vector for each pair to the embedding, where attention reads it.
`WideClassifier` also adds up a number for each token and each pair, past the attention, as a linear
model does. On reviews a linear model of words and pairs is better than a Transformer, and the sum
of both lies between them. Cheng et al. (2016) call the two parts wide and deep.
"""

import torch
from torch import nn

from ..attention.fused import attention
from ..base.guards import check_int
from ..data.text import PAD, pad_rows
from .build import classifier_parts, start_embedding
from .config import TransformerConfig
from .initialization import NoRandomWeights
from .layers import Embedding
from .savable import Classifier

__all__ = ["BigramClassifier", "WideClassifier"]

TRUST = 0.15  # in the ratio of a feature, before training; it and the next were chosen on reviews
PACE = 7.0  # so many times as fast as other weights the trust learns
PRIME = 2_147_483_647


def number_pairs(
    tokens: torch.Tensor,  # (B, T) integers
    n: int,  # how many numbers there are
    spread: bool = True,  # evenly; else pairs of frequent tokens get few of the numbers
) -> torch.Tensor:  # (B, T), from 0 to n - 1
    "A number for each token with its left neighbour. Several pairs may share one."
    before = nn.functional.pad(tokens, (1, 0))[:, :-1].long()  # (B, T)
    pair = before * 1_000_003 + tokens
    if spread:
        pair = pair % PRIME * 48_271 % PRIME  # a step of a generator of random numbers
    return pair % n


class BigramEmbedding(Embedding):
    "A vector for each token, and one for it with its left neighbour (Joulin et al. 2017)."

    def __init__(
        self,
        config: TransformerConfig,
        n_bigrams: int,  # vectors shared by all pairs; 0 does without
        dropout: float = 0.0,  # probability that a number is dropped, in training only
        spread: bool = True,  # as for `number_pairs`
    ):
        with NoRandomWeights():
            super().__init__(config.vocab_size, config.d_model, None, dropout)
        start_embedding(self, config)
        check_int("n_bigrams", n_bigrams, 0)
        self.spread = spread
        self.bigrams = None
        if n_bigrams:
            self.bigrams = nn.Embedding(n_bigrams, config.d_model)
            nn.init.zeros_(self.bigrams.weight)

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        positions: torch.Tensor | None = None,  # (T,) or (B, T); for `position_embedding`
    ) -> torch.Tensor:  # (B, T, d_model)
        "The vectors of the tokens, each plus that of its pair, and the positions."
        x = self.tokens(tokens)
        if self.bigrams is not None:
            x = x + self.bigrams(number_pairs(tokens, self.bigrams.num_embeddings, self.spread))
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return self.dropout(x)


class BigramClassifier(Classifier):
    "A `Classifier` whose embedding knows pairs of neighbours."

    def __init__(
        self,
        config: TransformerConfig,  # every size of the encoder
        n_classes: int,  # 2 or more
        embed_dropout: float = 0.0,  # as for `Classifier`
        n_bigrams: int = 0,  # vectors for pairs of neighbours; 0 does without
        spread: bool = True,  # pairs evenly over the vectors
    ):
        super().__init__(**classifier_parts(config, n_classes, embed_dropout))
        self.config = config
        self.embed = BigramEmbedding(config, n_bigrams, embed_dropout, spread)


class WideClassifier(BigramClassifier):
    """A `BigramClassifier` beside a linear model of tokens and pairs (Cheng et al. 2016).

    A *feature* is a token or a pair, and counts once for a text, however often it occurs there. Its
    `ratio` says how much more often the texts of a class have it than others do, as a logarithm
    (Wang and Manning 2012). `count_features` finds it, and it stays. Training learns how far each
    ratio is to be trusted.
    """

    def __init__(
        self,
        config: TransformerConfig,  # every size of the encoder
        n_classes: int,  # 2 or more
        embed_dropout: float = 0.0,  # as for `Classifier`
        n_bigrams: int = 0,  # as for `BigramClassifier`
        n_features: int = 100_000,  # rows that all tokens and pairs share
    ):
        super().__init__(config, n_classes, embed_dropout, n_bigrams)
        check_int("n_features", n_features)
        self.trust = nn.Parameter(torch.full((n_features,), TRUST / PACE))
        self.ratio: torch.Tensor
        self.register_buffer("ratio", torch.zeros(n_features, n_classes))

    def features(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (B, 2 T) numbers, and which of them count
        "The numbers of a text's tokens and pairs in ascending order, each counted once."
        n = len(self.trust)
        numbers = torch.cat([tokens.long() % n, number_pairs(tokens, n)], dim=1)  # (B, 2 T)
        numbers = numbers.masked_fill((tokens == PAD).repeat(1, 2), n)  # behind all others
        numbers, _ = numbers.sort(dim=1)
        before = nn.functional.pad(numbers, (1, 0), value=-1)[:, :-1]
        once = (numbers != before) & (numbers < n)
        return numbers.masked_fill(~once, 0), once

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers, PAD where there is no token
        attend=attention,  # as for `Stack`
    ) -> torch.Tensor:  # logits (B, n_classes)
        "Logits for each text, the sum of both parts."
        logits = super().forward(tokens, attend)
        numbers, once = self.features(tokens)
        trust = PACE * self.trust[numbers] * once  # (B, 2 T)
        total = (trust[..., None] * self.ratio[numbers]).sum(dim=1)  # (B, n_classes)
        length = once.sum(dim=1, keepdim=True).clamp(min=1).sqrt()  # (B, 1)
        return logits + total / length

    @torch.no_grad()
    def count_features(
        self,
        rows: list[tuple[list[int], int]],  # tokens and the number of the class, to learn from
    ) -> None:
        "Find the ratios. A feature of a single text has none."
        if self.ratio.is_meta:
            return
        counts = torch.zeros(len(self.trust), self.n_classes)
        rows = sorted(rows, key=lambda row: len(row[0]))  # so that little is padding
        for start in range(0, len(rows), 100):
            part = rows[start : start + 100]
            numbers, once = self.features(pad_rows([tokens for tokens, _ in part]))  # (B, 2 T)
            labels = torch.tensor([label for _, label in part])[:, None].expand_as(numbers)
            places = numbers[once], labels[once]
            counts.index_put_(places, torch.ones(len(places[0])), accumulate=True)
        counts[counts.sum(dim=1) < 2] = 0
        others = counts.sum(dim=1, keepdim=True) - counts + 1
        counts = counts + 1
        self.ratio.copy_((counts / counts.sum(dim=0)).log() - (others / others.sum(dim=0)).log())
