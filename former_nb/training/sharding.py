"""Weights cut between processes, and put together again.

A model that one device cannot hold is cut. Each process holds one part of every weight, its
gradient and its optimizer state. `accelerate launch --use_fsdp --fsdp_version 2` asks for it.
"""

import os
from typing import Any

import torch
from torch import nn

from ..models.layers import Block

__all__ = [
    "sharding_wanted",
    "shard_model",
    "is_sharded",
    "gather_tensors",
    "gather_model",
    "cut_like",
]


def _is_set(name):
    "Does the environment say yes to this option of the launcher?"
    return os.environ.get(name, "false").lower() == "true"


def sharding_wanted() -> bool:
    "Whether `accelerate launch --use_fsdp` asks for it. Raises `ValueError` for what we leave out."
    if not _is_set("ACCELERATE_USE_FSDP"):
        return False
    version = os.environ.get("FSDP_VERSION", "1")
    if version != "2":
        raise ValueError(f"fsdp_version: expected 2, got {version}")
    for name in ("offload_params", "activation_checkpointing"):
        if _is_set(f"FSDP_{name.upper()}"):
            raise ValueError(
                f"fsdp_{name}: expected false, which is all that `fit` offers, got true"
            )
    return True


def shard_model(
    model: nn.Module,  # whole, on any device; changed in place
    processes: int,  # that hold a part each; all of them call this
    device: torch.device,  # where the parts are and compute
) -> None:
    """Cut the weights of each block, and of what is around the blocks (FSDP2, Zhao et al. 2023).

    PyTorch's `fully_shard` replaces each weight by a `DTensor`, which knows its whole shape and
    holds one part. The weights of a block are gathered just before the block runs, forward and
    backward, and dropped after it.
    """
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh(device.type, (processes,))
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    for part in [*blocks, model]:
        fully_shard(part, mesh=mesh, reshard_after_forward=True)


def is_sharded(model: nn.Module) -> bool:
    "Whether this process holds only a part of each weight."
    return any(hasattr(p, "full_tensor") for p in model.parameters())


def gather_tensors(
    tensors: dict[str, torch.Tensor],  # the same names in every process
) -> dict[str, torch.Tensor] | None:  # whole ones; None where another process got them
    """Put parts together on the CPU, in the first process; without parts, what was given.

    That is work for all processes, one weight after another, and the first one keeps what comes
    out.
    """
    if not any(hasattr(t, "full_tensor") for t in tensors.values()):
        return tensors
    whole = {}
    first = torch.distributed.get_rank() == 0
    for name, t in tensors.items():
        t = t.full_tensor() if hasattr(t, "full_tensor") else t  # all processes take part
        if first:
            whole[name] = t.cpu()
    return whole if first else None


def gather_model(
    model: nn.Module,  # made from a `config`; every process calls this
) -> nn.Module | None:  # whole, on the CPU; None where another process got it
    "An ordinary model with the weights of a sharded one, in the first process."
    if not is_sharded(model):
        return model
    tensors = gather_tensors(model.state_dict())
    kind: Any = type(model).__bases__[1]  # the class that `fully_shard` put another before
    if tensors is None:
        return None
    with torch.random.fork_rng(devices=[]):
        whole = kind.from_config(model.config, **getattr(model, "init_args", {}))
    whole.load_state_dict(tensors)
    return whole.eval()


def cut_like(
    whole: torch.Tensor,
    tensor: torch.Tensor,  # of the same shape, cut between processes or not
) -> torch.Tensor:
    "What this process holds of a whole tensor, if it is cut as another is, and on its device."
    whole = whole.to(tensor.device)
    if not hasattr(tensor, "full_tensor"):
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(tensor, DTensor)  # what has a full_tensor is one
    return distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
