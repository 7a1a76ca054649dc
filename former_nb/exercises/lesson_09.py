"Lesson 09: a classifier."

import torch
from torch import nn

from .lesson_02 import attention
from .lesson_04 import padding_mask
from .lesson_07 import PAD


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, tokens, attend=attention):  # (B, T) -> (B, n_classes)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens, positions)
        x = self.stack(x, padding_mask(tokens), attend=attend, positions=positions)
        real = (tokens != PAD)[..., None]  # (B, T, 1)
        mean = (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.head(mean)


# ---------------------------------------------------------------- questions
