"""What the tests of several files ask of `fit` and of interrupted runs."""

from former_nb.training import fitting
from former_nb.training.callbacks import SaveBest
from former_nb.training.resuming import Checkpoint


def fit(*args, folder=None, resume=False, on_best=None, callbacks=(), **kwargs):
    "The library's `fit` with the callbacks that keep a run in a folder and its best model."
    joined = [*callbacks]
    if folder is not None:
        joined.append(Checkpoint(folder, resume))
    if on_best is not None:
        joined.append(SaveBest(on_best))
    kwargs = {"device": "cpu", "progress": False, **kwargs}
    return fitting.fit(*args, callbacks=joined, **kwargs)
