"Lesson 15: subwords."

from collections import Counter
from itertools import pairwise


def merge(row, pair):  # a list of pieces -> a shorter one
    merged = []
    for piece in row:
        if merged and (merged[-1], piece) == pair:
            merged[-1] = merged[-1] + piece
        else:
            merged.append(piece)
    return merged


def train_bpe(words, n_merges):  # a Counter of words -> pairs of pieces, in the order learned
    rows = {word: list(word) for word in words}
    number = {letter: i for i, letter in enumerate(sorted(set("".join(words))))}
    merges = []
    for _ in range(n_merges):
        pairs = Counter()
        for word, row in rows.items():
            for pair in pairwise(row):
                pairs[pair] += words[word]
        if max(pairs.values(), default=0) < 2:
            break
        first, second = min(pairs, key=lambda p: (-pairs[p], number[p[0]], number[p[1]]))
        rows = {word: merge(row, (first, second)) for word, row in rows.items()}
        merges.append((first, second))
        number.setdefault(first + second, len(number))
    return merges


# ---------------------------------------------------------------- questions
