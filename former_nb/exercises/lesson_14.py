"Lesson 14: number words: reading what the model wrote itself."

import torch

from .lesson_04 import padding_mask
from .lesson_07 import BOS, EOS, PAD, UNK
from .lesson_11 import LayerCache


@torch.no_grad()
def greedy_decode(model, src, max_new_tokens):  # (B, S) -> a row of tokens for each, BOS first
    memory, mask = model.encode(src), padding_mask(src)
    cache = [LayerCache() for _ in model.decoder.blocks]
    tokens = torch.full((len(src), 1), BOS, device=src.device)
    for position in range(max_new_tokens):
        at = torch.tensor([position], device=src.device)
        logits = model.decode(tokens[:, -1:], memory, mask, cache, at)[:, -1]
        logits[:, [PAD, BOS, UNK]] = float("-inf")  # never written
        new = logits.argmax(dim=-1)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
        if (tokens == EOS).any(dim=1).all():
            break
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in tokens.tolist()]


# ---------------------------------------------------------------- questions
