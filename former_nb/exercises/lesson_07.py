"Lesson 07: text."

import torch
from torch import nn

PAD, BOS, EOS, UNK = range(4)
IGNORE = -100  # a target that counts for nothing, PyTorch's own choice


class CharTokenizer:
    def __init__(self, alphabet):
        self.alphabet = alphabet
        self.number = {letter: i for i, letter in enumerate(alphabet, start=4)}
        self.vocab_size = 4 + len(alphabet)

    @classmethod
    def train(cls, texts):
        return cls("".join(sorted(set("".join(texts)))))

    def encode(self, text):
        return [self.number.get(letter, UNK) for letter in text]

    def decode(self, tokens):
        return "".join(self.alphabet[i - 4] for i in tokens if i >= 4)


def encode_texts(texts, tokenizer):
    return [[BOS, *tokenizer.encode(text), EOS] for text in texts]


def pad_rows(rows, value=PAD):  # lists of numbers -> (B, T)
    longest = max((len(row) for row in rows), default=0)
    padded = torch.full((len(rows), longest), value)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.as_tensor(row)
    return padded


def collate(rows):  # a batch: inputs, and for each the token that comes next
    inputs = pad_rows([row[:-1] for row in rows])
    targets = pad_rows([row[1:] for row in rows], IGNORE)
    return inputs, targets


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, position_embedding=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.position_embedding = position_embedding
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens, positions=None):  # (B, T), (T,)
        x = self.tokens(tokens)
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return self.dropout(x)


# ---------------------------------------------------------------- questions
