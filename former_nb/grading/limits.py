"Limits in seconds of the processor, which a busy machine doesn't change."

import contextlib
import signal
import threading
import time

import torch


class TimeUpError(BaseException):
    "Raised in code that took too long."

    line = None  # of the answer in which it was


@contextlib.contextmanager
def limited(seconds):
    "Raise `TimeUpError` in what runs inside after so many seconds of the processor."
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):  # Windows, and the page
        yield
        return

    def stop(number, frame):
        raise TimeUpError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def one_thread():
    "PyTorch in one thread: for what is so small, several wait for each other."
    if not hasattr(torch, "set_num_threads"):  # in the page
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Clock:
    "Seconds of the processor that are left."

    def __init__(self, seconds, spent=time.process_time):
        self.spent = spent  # how many were taken so far
        self.end = spent() + seconds

    @property
    def left(self):
        return self.end - self.spent()

    @property
    def over(self):
        return self.left <= 0
