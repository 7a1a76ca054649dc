"""Words cut in other ways than usual, for training: BPE dropout (Provilkov et al. 2020).

A tokenizer cuts a word in one way, so a model that knows *Hunde* as one token learns nothing from
it about *Hund*. If a merge is left out now and then, the same word comes in several cuts, and a
rare word shares its pieces with frequent ones. What is read after training is cut as usual.

Provilkov, Emelianenko and Voita (2020),
[BPE-Dropout: Simple and Effective Subword Regularization](https://arxiv.org/abs/1910.13267).
Hugging Face's `tokenizers` has it, too, but draws from a generator that takes no seed.
"""

import random
from itertools import pairwise

from ..base.guards import check_int, check_share
from .subwords import cut_words, merge
from .tokenization import SubwordTokenizer
from .tokens import BOS, EOS, SPECIALS, check_texts

__all__ = ["SubwordDropout"]

CUTS = 8  # of each word, among which chance chooses; to cut anew each time takes ten times as long


class SubwordDropout:
    "Cuts texts as a tokenizer does, but leaves merges out by chance."

    def __init__(
        self,
        tokenizer: SubwordTokenizer,
        dropout: float,  # probability that a merge is left out, each time it is possible
        seed: int = 0,
    ):
        check_share("dropout", dropout)
        check_int("seed", seed, least=0, most=None)
        self.tokenizer = tokenizer
        self.dropout = dropout
        self.seed = seed
        self.rank = {pair: i for i, pair in enumerate(tokenizer.merges)}
        self.numbers = tokenizer.backend.get_vocab()
        self.choice = random.Random(seed)
        self.known: dict[str, list[list[int]]] = {}  # word -> its cuts

    def cut(
        self,
        word: str,  # a character for each byte, as `cut_words` gives it
        chance: random.Random,
    ) -> list[str]:  # pieces
        "Replay the merges as `apply_bpe` does, the earliest first, without those left out."
        row = list(word)
        while True:
            possible = []
            for pair in pairwise(row):
                if pair in self.rank and chance.random() >= self.dropout:
                    possible.append(pair)
            if not possible:
                return row
            row = merge(row, min(possible, key=self.rank.__getitem__))

    def cuts(
        self,
        word: str,
    ) -> list[list[int]]:  # numbers of pieces, `CUTS` times
        "Several cuts of a word, always the same ones."
        if word not in self.known:
            chance = random.Random(f"{self.seed} {word}")
            rows = [self.cut(word, chance) for _ in range(CUTS)]
            numbers = [[self.numbers[piece] + len(SPECIALS) for piece in row] for row in rows]
            self.known[word] = numbers
        return self.known[word]

    def encode_texts(
        self,
        texts: list[str],
    ) -> list[list[int]]:  # each starts with BOS and ends with EOS
        "Numbers for each text, as lesson 07's `encode_texts` gives them, in new cuts each time."
        rows = []
        for text in check_texts(texts):
            row = [BOS]
            for word in cut_words(self.tokenizer.normalise(text)):
                row += self.choice.choice(self.cuts(word))
            rows.append([*row, EOS])
        return rows
