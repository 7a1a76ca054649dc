"""Work that is done once: a result named by its settings.

Suppose that you compare forty runs, and the machine stops at the thirtieth. The second time, what
is there is read.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

from .checkpoints import as_json, read_checkpoint, write_checkpoint
from .files import check_path

__all__ = [
    "make_once",
]


def make_once(
    folder: str | Path,  # where results are kept, each in a folder of its own
    name: str,  # of this result; what a folder's name may hold of it begins that name
    settings: dict,  # all that it depends on, fit for JSON
    make: Callable,  # () -> tensors and metadata, as for `write_checkpoint`
) -> tuple[dict, dict]:  # tensors and metadata
    """What `make` gives, or gave with these settings before. A change of the code is not noticed.

    If you leave out a setting that the result depends on, you get the result of one learning rate
    for another. The same happens with a result of older code, so empty the folder after a change.
    """
    as_json("settings", settings)  # refuses what JSON would change
    called = json.dumps([name, settings], sort_keys=True).encode()
    key = re.sub(r"\W+", "-", name)[:80] + "-" + hashlib.sha256(called).hexdigest()[:12]
    place = check_path("folder", folder) / key
    try:
        return read_checkpoint(place)
    except ValueError:  # not there, or not whole
        write_checkpoint(place, *make())
        return read_checkpoint(place)
