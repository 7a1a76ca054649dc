"""`former-nb diagnose`: a model in a file of anybody's, with one batch."""

from ..diagnosis.diagnosis import Diagnosis, diagnose
from .folders import blaming, run_file
from .terminal import waiting

EXPECTED = "a function that gives (model, batch), and perhaps the loss and the optimizer"


def diagnose_file(
    name: str,  # FILE.py:MAKE
) -> Diagnosis:
    "Run a file, call its function, and diagnose what it gives. Raises `ValueError`."
    make, path = run_file("model", name)
    with blaming("model", path):
        given = make() if callable(make) else None
    if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
        called = name.rpartition(":")[2]
        raise ValueError(f"model: expected {EXPECTED}, called {called} in {path.name}")
    with waiting("Asking the model …"):
        return diagnose(*given)
