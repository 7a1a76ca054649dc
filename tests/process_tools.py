"""Processes of their own that begin at once: forked from one that has imported torch already."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

METHOD = "forkserver" if os.name == "posix" else "spawn"
FORKS = multiprocessing.get_context(METHOD)
IMPORTED = "former_nb.cli former_nb.commands.train former_nb.training.fitting"
if METHOD == "forkserver":
    FORKS.set_forkserver_preload([*IMPORTED.split(), "pytest"])
# pandas brings pyarrow, and a fork can wait for ever for the thread of its allocator
OFFLINE = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
OFFLINE |= {"FORMER_NB_DATA": "", "FORMER_NB_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""}


def _work(code, words, env, folder):
    "What the process does, once it is there."
    os.environ.update(env)
    for number, name in enumerate(("in", "out", "err")):
        os.dup2(os.open(Path(folder, name), os.O_RDONLY if name == "in" else os.O_WRONLY), number)
    sys.stdin, sys.argv = open(0, encoding="utf-8", closefd=False), ["former-nb", *words]
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})


@contextmanager
def environment(more):
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Fork:
    "Python code in a process of its own, with the interface of `subprocess.Popen` that tests use."

    def __init__(self, code, *words, env=(), stdin=b""):
        self.folder = tempfile.TemporaryDirectory()
        for name, content in {"in": stdin, "out": b"", "err": b""}.items():
            Path(self.folder.name, name).write_bytes(content)
        given = (code, [*map(str, words)], OFFLINE | dict(env), self.folder.name)
        with environment(OFFLINE):  # the server is started once, by the first process
            self.process = FORKS.Process(target=_work, args=given)
            self.process.start()

    def poll(self):
        return self.process.exitcode

    def wait(self, timeout=300):
        "What it ended with and what it said, as `subprocess.run` returns it."
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise subprocess.TimeoutExpired("fork", timeout)
        said = [Path(self.folder.name, name).read_bytes() for name in ("out", "err")]
        self.folder.cleanup()
        return subprocess.CompletedProcess([], self.process.exitcode, *said)


def fork(code, *words, **how):
    "Run the code to its end."
    return Fork(code, *words, **how).wait()


def succeeds(code, *words, **how):
    "What the code prints, which must end well."
    done = fork(code, *words, **how)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout.decode()
