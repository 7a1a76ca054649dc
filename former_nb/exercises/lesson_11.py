"Lesson 11: decoding."

import torch

from .lesson_02 import attention


class LayerCache:
    def __init__(self, attend=attention):
        self.attend = attend
        self.k = self.v = None

    def __call__(self, q, k, v, mask=None, is_causal=False):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return self.attend(q, k, v, mask, is_causal)


def greedy(logits):  # (B, vocab_size) -> (B,)
    return logits.argmax(dim=-1)


def sample(logits):
    return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]


@torch.no_grad()
def generate(
    model, prompts, max_new_tokens, pick=greedy, cache=None
):  # (B, T) -> (B, T + max_new_tokens)
    if cache is None:
        cache = [LayerCache() for _ in model.stack.blocks]
    tokens, start = prompts, 0
    for _ in range(max_new_tokens):
        positions = torch.arange(start, tokens.shape[1], device=tokens.device)
        logits = model(tokens[:, start:], cache, positions)[:, -1]
        start = tokens.shape[1]
        tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
    return tokens


# ---------------------------------------------------------------- questions
