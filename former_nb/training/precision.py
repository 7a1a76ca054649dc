"""Whether a run with `precision="auto"` computes in bf16 on a CPU.

Some CPUs have units for bf16 and others imitate it, and small layers gain nothing by them. A run of
so many steps or epochs gives the same weights on each CPU, so only one that ends by the clock is
computed in bf16. What three seeds lost and gained by it is on the page about optimization.
"""

from torch import nn

from .muon import cpu_has_bf16
from .optimization import count_targets
from .training_config import TrainingConfig

__all__ = [
    "choose_precision",
]

SMALL = 1e9  # operations of a step, some 10 ms of a core


def choose_precision(
    model: nn.Module,
    batch,  # (inputs, targets), such as the first of a run
    config: TrainingConfig,
) -> str:  # 'no' or 'bf16'
    "What `precision='auto'` means for a run on a CPU."
    weights = sum(p.numel() for p in model.parameters())
    small = 6 * weights * count_targets(batch[1]) < SMALL
    by_the_clock = config.minutes is not None
    return "bf16" if cpu_has_bf16() and by_the_clock and not small else "no"
