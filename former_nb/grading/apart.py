"""In a copy of this process: what the search does to a reader's data is gone with the copy.

An edited answer may change a list of the reader's, fill the memory, or never come back from C. Only
Linux copies a process cheaply; elsewhere all of it happens here.
"""

import contextlib
import json
import os
import sys
import time
import warnings

import torch
from torch import nn

MEMORY = 8 * 2**30  # bytes of data that the copy may have
LATEST = 60.0  # seconds by the clock, for an answer that only waits


def last_of(
    found,  # a function that yields what JSON can hold, each better than the one before
    seconds: float,  # of the processor
):  # the last that came in time, or None
    "The last that a function finds, in a copy of this process where that can be had."
    if sys.platform == "linux" and hasattr(os, "fork"):
        return _in_a_copy(found, seconds)
    with torch.random.fork_rng(devices=[]), _quiet():
        every = list(found())
    return every[-1] if every else None


SHARED = nn.Module, nn.Parameter, nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList


@contextlib.contextmanager
def untouched():
    "Take back what an edited answer sets on PyTorch itself, such as `nn.Module.weight = …`."
    before = [dict(vars(owner)) for owner in SHARED]
    try:
        yield
    finally:
        for owner, had in zip(SHARED, before):
            for name, value in dict(vars(owner)).items():
                if name not in had:
                    delattr(owner, name)
                elif value is not had[name]:
                    setattr(owner, name, had[name])


@contextlib.contextmanager
def _quiet():
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(nowhere):
            yield


def _in_a_copy(found, seconds):
    import select  # which a browser is without
    import signal

    come, go = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the copy is without
        child = os.fork()
    if not child:
        try:
            os.close(come)
            _limit(seconds)
            with _quiet():
                for one in found():
                    os.write(go, json.dumps(one).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(go)
    try:
        end, said = time.monotonic() + LATEST + 2 * seconds, b""
        while select.select([come], [], [], max(end - time.monotonic(), 0))[0]:
            more = os.read(come, 65536)
            if not more:
                break
            said += more
        lines = said.split(b"\n")[:-1]  # a last one without an end was cut
        return json.loads(lines[-1]) if lines else None
    finally:
        os.close(come)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _limit(seconds):
    import resource  # not on Windows

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
