"""What processes that share a batch send, and how long a step of theirs takes."""

from ..base.guards import check_int

__all__ = [
    "all_reduce_bytes",
    "step_seconds",
]


def all_reduce_bytes(
    n_bytes: int,  # of the tensor that is summed
    processes: int,
) -> float:  # bytes
    "What each process sends to sum a tensor around a ring (Patarasuk and Yuan 2009)."
    check_int("processes", processes)
    if not n_bytes >= 0:
        raise ValueError(f"n_bytes: expected 0 or more, got {n_bytes!r}")
    return 2 * (processes - 1) / processes * n_bytes


def step_seconds(
    shared: float,  # seconds of forward and backward of the whole batch on one process
    n_bytes: int,  # of the gradients
    processes: int,
    bandwidth: float,  # bytes per second that each process can send
    latency: float = 0.0,  # seconds per message
    repeated: float = 0.0,  # seconds of what each process does by itself
) -> float:  # seconds
    "How long a step takes: a shared batch, gradients summed around a ring, nothing overlapping."
    if not (all(x >= 0 for x in (shared, latency, repeated)) and bandwidth > 0):
        came = f"{shared}, {latency}, {repeated} and {bandwidth}"
        raise ValueError(f"shared, latency, repeated, bandwidth: expected 0 or more, got {came}")
    sending = all_reduce_bytes(n_bytes, processes) / bandwidth
    return shared / processes + repeated + 2 * (processes - 1) * latency + sending
