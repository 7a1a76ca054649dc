"""Where the time of one call goes, by kind of operation.

PyTorch's profiler gives each operation the time that it spends itself, without what it calls. The
rest of the call is what Python and the dispatch of operations take.
"""

import time

import torch
from torch.profiler import ProfilerActivity, profile

KINDS = {  # kind -> how the names of its operations begin, behind "aten::"
    "matrix products": ("mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "mkldnn_linear"),
    "attention": ("_scaled_dot_product", "scaled_dot_product", "_flash_attention"),
    "softmax and loss": ("_softmax", "softmax", "_log_softmax", "log_softmax", "nll_loss"),
    "norms": ("native_layer_norm", "layer_norm", "_fused_rms_norm", "rms_norm"),
    "optimizer": ("_fused_adamw", "_foreach", "_fused"),
    "choice of tokens": ("argmax", "topk", "sort", "multinomial", "max", "isin", "where"),
    "copies": ("copy_", "clone", "cat", "index", "gather", "_to_copy"),
    "new memory": ("empty", "zeros", "fill_", "zero_", "new_", "resize_", "ones", "full"),
}  # fmt: skip


def kind_of(operation: str) -> str:
    "The kind of an operation; the longest beginning that fits decides."
    name = operation.removeprefix("aten::").removesuffix("_backward")
    found = [(len(b), kind) for kind, beginnings in KINDS.items() for b in beginnings
             if name.startswith(b)]  # fmt: skip
    if found:
        return max(found)[1]
    return "optimizer" if operation.startswith("Optimizer") else "other operations"


def shares(run, device: torch.device, calls: int = 3) -> dict[str, float]:
    """Share of the time of a call, by kind of operation, the largest first.

    On a GPU these are the kernels alone; what the host does meanwhile isn't counted.
    """
    run()  # what happens once doesn't count
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    plain = time.perf_counter() - start
    with profile(activities=activities) as seen:
        for _ in range(calls):
            run()
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        taken = event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
        kind = kind_of(event.key)
        spent[kind] = spent.get(kind, 0.0) + taken / 1e6
    if device.type != "cuda":
        # The profiler itself slows small operations down, so they may add up to more than the call.
        spent["Python, between operations"] = max(0.0, plain - sum(spent.values()))
    total = sum(spent.values())
    return {kind: taken / total for kind, taken in sorted(spent.items(), key=lambda kv: -kv[1])}


def say(name: str, who: str, found: dict[str, float]) -> str:
    "A line for a workload and a contender."
    parts = ", ".join(f"{kind} {share:.0%}" for kind, share in found.items() if share >= 0.01)
    return f"{name:30} {who:22} {parts}"
