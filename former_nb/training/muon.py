"""PyTorch's Muon, in a precision that the device has units for.

The page about optimization shows what Muon does: it sets the singular values of a matrix's step to
about one, by five rounds of products of matrices. `torch.optim.Muon` computes these products in
bf16. GPUs and some CPUs have units for that. On a CPU without them PyTorch takes some fifteen times
as long as in float32, and a whole step of a small model four times. Here the products are in
float32 on such a device, and matrices of one shape are multiplied together. Everything else, also
what a checkpoint keeps of it, is as in PyTorch's class.
"""

import math
from collections import defaultdict

import torch
from torch import nn

__all__ = [
    "cpu_has_bf16",
    "Muon",
]


def cpu_has_bf16() -> bool:
    "Whether this CPU has units for bf16 (AVX-512 or AMX), as far as PyTorch tells."
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        is_supported = getattr(torch.cpu, name, None)  # not part of PyTorch's promised interface
        if is_supported is not None and is_supported():
            return True
    return False


def fast_precision(device: torch.device) -> torch.dtype:
    "bf16 where the device has units for it, else float32."
    has_units = device.type == "cpu" and cpu_has_bf16()
    if device.type == "cuda":
        has_units = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if has_units else torch.float32


def newton_schulz(
    matrices: torch.Tensor,  # (n, rows, columns)
    coefficients: tuple[float, float, float],  # a, b and c of aX + b(XXᵀ)X + c(XXᵀ)²X
    rounds: int,
    eps: float,  # the least norm that a matrix is divided by
) -> torch.Tensor:  # (n, rows, columns), in the precision of `matrices`
    "The matrices with all singular values brought near one (Jordan et al. 2024)."
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # XXᵀ is the smaller of both products
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)  # no singular value is above one
    for _ in range(rounds):
        xx = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(xx, xx, xx, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Muon):
    "Muon (Jordan et al. 2024), as `torch.optim.Muon` with its own momentum, rounds and rates."

    def __init__(
        self,
        weights: list[nn.Parameter],  # matrices
        lr: float,  # of a square matrix; a tall one moves farther
        weight_decay: float = 0.1,
    ):
        super().__init__(weights, lr=lr, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override] # without a closure
        "Let the weights move that have a gradient."
        for group in self.param_groups:
            by_shape = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape, p.dtype, p.device].append(p)
            for weights in by_shape.values():
                self.move(weights, group)

    def move(
        self,
        weights: list[torch.Tensor],  # of one shape, each with a gradient
        group: dict,  # their settings
    ) -> None:
        "Move weights of one shape."
        directions = torch.stack([self.direction(p, group["momentum"]) for p in weights])
        directions = directions.to(fast_precision(directions.device))
        steps = newton_schulz(directions, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = weights[0].shape
        lr = float(group["lr"])
        rate = lr * math.sqrt(max(1, rows / columns))
        for p, change in zip(weights, steps):
            p.mul_(1 - lr * group["weight_decay"])
            p.add_(change, alpha=-rate)

    def direction(
        self,
        p: torch.Tensor,  # with a gradient
        momentum: float,
    ) -> torch.Tensor:
        "The mean of a weight's gradients over recent steps, the last of which counts once more."
        gradient = p.grad
        assert gradient is not None
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        mean = state["momentum_buffer"]
        mean.lerp_(gradient, 1 - momentum)
        return gradient.lerp(mean, momentum)
