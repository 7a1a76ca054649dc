"""Several processes that train one model, and what they need from the machine.

`torchrun` or `accelerate launch` may start several. Each has the whole model and computes the
gradient of its share of a batch, and Accelerate averages the gradients. `fit` cuts the batches and
chooses the precision itself.

`fit` computes where `pick_device()` says: on CUDA where torch sees it, else on Apple's `mps`, else
on the CPU. Another one is named with `device="cpu"`, or for everything with the environment
variable `FORMER_NB_DEVICE`. What differs:

- CUDA: a step is computed in bf16 where the hardware has it (`precision="auto"`), with weights and
  optimizers in float32. The processor waits once per evaluation, and for what a callback reads.
- MPS: everything is float32, and the processor waits as on CUDA.
- CPU: a run that ends by the clock computes in bf16 where the CPU has units for it
  (`precision="auto"`). Everything else is float32.

Outside `fit`, models compute in the precision of their weights. Batches are pinned and sent without
waiting, by `evaluate` and `predict`, too. Reading them takes a hundredth of a step of the
classifier of reviews, so they are not prepared by further processes.
"""

import os
import warnings

import torch
from tqdm import TqdmWarning

from ..base.core import pick_device

with warnings.catch_warnings():  # accelerate imports tqdm.auto, which warns without ipywidgets
    warnings.simplefilter("ignore", TqdmWarning)
    from accelerate import Accelerator
    from accelerate.utils import GradientAccumulationPlugin, broadcast_object_list

__all__ = [
    "start_processes",
    "as_the_first_says",
]


def start_processes(
    device: str = "auto",  # 'auto', 'cpu', 'cuda' or 'mps'
) -> tuple[Accelerator, torch.device]:  # what connects the processes, where this one computes
    "Join the other processes, if `torchrun` or `accelerate launch` started several."
    alone_on = pick_device(device)
    launched = int(os.environ.get("WORLD_SIZE", 1))
    for kind in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        if os.environ.get(f"ACCELERATE_USE_{kind}", "false").lower() == "true":
            raise ValueError(f"processes: expected the whole model in each, got {kind}")
    on_cpu = launched > 1 and alone_on.type != "cuda"
    once = GradientAccumulationPlugin(num_steps=1)  # fit cuts batches and casts by itself
    accelerator = Accelerator(
        device_placement=False,
        cpu=on_cpu,  # otherwise each would train alone
        mixed_precision="no",
        gradient_accumulation_plugin=once,
    )
    if accelerator.num_processes != launched:
        joined = f"only {accelerator.num_processes} know of each other"
        raise ValueError(f"device: {launched} processes were launched, of which {joined}")
    if launched > 1:
        return accelerator, accelerator.device
    return accelerator, alone_on


def as_the_first_says(
    accelerator: Accelerator,
    number: float,  # as this process has it
) -> float:  # as the first process has it
    "One number for all processes; each of them calls this."
    if accelerator.num_processes == 1:
        return number
    numbers = [number]
    broadcast_object_list(numbers)
    return numbers[0]
