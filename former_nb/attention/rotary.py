"shim"
import torch
from torch import nn

from .positions import rotate


class Rotary(nn.Module):
    def __init__(self, d_k, base=10_000.0):
        super().__init__()
        even = torch.arange(0, d_k, 2, dtype=torch.float64, device="cpu")
        self.frequency = base ** (-even / d_k)
    def forward(self, attend, positions):
        angle = positions.cpu()[..., None] * self.frequency
        def attend_rotated(q, k, v, mask=None, is_causal=False):
            cos = angle.cos().float().to(q.device)
            sin = angle.sin().float().to(q.device)
            if cos.ndim == 3:
                cos, sin = cos[:, None], sin[:, None]
            return attend(rotate(q, cos, sin), rotate(k, cos, sin), v, mask, is_causal)
        return attend_rotated
