"""`former-nb diagnose`: a model in a file of anybody's, with one batch."""

from ..base.files import check_path
from ..base.source import load_file, read_source
from ..diagnosis.diagnosis import Diagnosis, diagnose
from .folders import IN_FILE
from .terminal import waiting

EXPECTED = "a function that gives (model, batch), and perhaps the loss and the optimizer"


def diagnose_file(
    name: str,  # FILE.py:MAKE
) -> Diagnosis:
    "Run a file, call its function, and diagnose what it gives. Raises `ValueError`."
    found = IN_FILE.fullmatch(name)
    if found is None:
        raise ValueError(f"model: expected FILE.py:NAME, got {name!r}")
    path = check_path("model", found[1])
    if not path.is_file():
        raise ValueError(f"model: expected a file, got {str(path)!r}")
    source, _ = read_source(path)
    try:
        make = getattr(load_file(path.resolve(), "diagnosed", source), found[2], None)
        given = make() if callable(make) else None
    except Exception as error:  # the reader's file may raise anything
        raised = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ValueError(f"model: {path.name} raised {raised}") from error
    if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
        raise ValueError(f"model: expected {EXPECTED}, called {found[2]} in {path.name}")
    with waiting("Asking the model …"):
        return diagnose(*given)
