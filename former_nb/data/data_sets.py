"""Where the texts come from, how to be sure of them, and how to cut them.

"The loss is 1.9" is a sentence about a model and about a file. So every loader returns its data and
one sentence that says where they come from, and every file that is downloaded is known by its
SHA-256, and by a commit where its host has them. A branch shows what is there today.

- `load_names`: 6,185 Lithuanian given names, which ship with the package under the MIT licence;
  from the register of the Lithuanian language commission
  ([ml_intro](https://github.com/jputrius/ml_intro))
- `load_shakespeare`: [tinyshakespeare](https://github.com/karpathy/char-rnn) (Karpathy 2015), 1.1
  million characters
- `load_reviews`: IMDb ([Maas et al. 2011](https://aclanthology.org/P11-1015/)), 25,000 reviews to
  learn from and 25,000 to test
- `load_translations`: Multi30k ([Elliott et al. 2016](https://aclanthology.org/W16-3210/)), 29,000
  pairs of German and English captions to learn from

Only the names are part of the package, with their licence beside them. For the others, the terms of
those who publish them hold.

`fetch` looks in three places: in the folder that the environment variable `FORMER_NB_DATA` names,
where a file has the path of its `Source`; then in the cache; then on the web. Wherever it finds a
file, its digits must agree. A file that is there need not be whole: of a download of the names that
broke off after 26,000 bytes, the second run read 3,181 lines of 6,191, and *kevi* as the last one,
which is nobody's name. So [pooch](https://doi.org/10.21105/joss.01943) writes a download under
another name, checks it ([SHA-256](https://doi.org/10.6028/NIST.FIPS.180-4)), moves it in one step,
and tries again where the line broke. A login page that comes in place of a file is refused, and
nothing of it is left.

Without a network the data of `toy_data` serve instead, or the help pages of Python, and the
sentence says so. A file with other digits is an error, and so is a folder that is not right.
A file of your own has no published digits. `read_text` and `read_names` read it strictly.
"""

import os
import platform
import random
import re
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from ..base.files import check_path, read_names, read_text
from ..base.guards import check_int, check_type
from .tokens import normalise
from .toy_data import number_pairs, small_reviews

__all__ = [
    "load_names",
    "Source",
    "python_prose",
    "load_shakespeare",
    "load_reviews",
    "load_translations",
    "split",
    "compare_parts",
]


SHIPPED_NAMES = Path(__file__).parent / "names" / "vardai.csv"


def load_names() -> tuple[list[str], str]:  # the names, and one line that says where they come from
    "Lithuanian given names, which ship with the package: no network is asked, no folder read."
    names = read_names(SHIPPED_NAMES)
    return names, f"{len(names):,} Lithuanian names from the package"


@dataclass(frozen=True)
class Source:
    "One file of a data set as it was published."

    path: str  # in the folder that FORMER_NB_DATA names, and in the cache
    url: str  # at a fixed revision; empty for a file that is only read from a folder
    sha256: str  # 64 hexadecimal digits


_GITHUB = "https://raw.githubusercontent.com"
_CHAR_RNN = f"{_GITHUB}/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data"
_MULTI30K = f"{_GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
_IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
_PLACES = {  # path and address
    "tinyshakespeare": ("tinyshakespeare/input.txt", f"{_CHAR_RNN}/tinyshakespeare/input.txt"),
    "imdb": ("imdb/aclImdb_v1.tar.gz", _IMDB),
    "imdb/train": ("imdb/train.parquet", ""),
    "imdb/test": ("imdb/test.parquet", ""),
}
for part, name in {"train": "train", "valid": "val", "test": "test_2016_flickr"}.items():
    for end in ("de", "en"):
        _PLACES[f"{part}.{end}"] = (f"multi30k/{name}.{end}.gz", f"{_MULTI30K}/{name}.{end}.gz")
_SHA256 = {
    "tinyshakespeare": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    "imdb": "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    "imdb/train": "c69ea46ee52704659f08022672b3e7fc53dcb413a706b3a793f2a28efb2b5b9e",
    "imdb/test": "692cc2362c64865d391d8ade7821aaed21574bb8e9855c89d31d1ba374a057a8",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "valid.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "valid.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}
SOURCES = {key: Source(*_PLACES[key], digits) for key, digits in _SHA256.items()}

RETRIES = 2  # after a failed attempt; a machine without a network waits three seconds in all


def _from_folder(folder, source):
    "The path of `source` below `folder`. `ValueError` where that is not the published file."
    import pooch

    path = check_path("FORMER_NB_DATA", folder) / source.path
    try:
        if pooch.file_hash(path) == source.sha256:
            return path
    except OSError as error:
        wanted = f"FORMER_NB_DATA: expected a folder that holds {source.path}"
        raise ValueError(f"{wanted}, got {str(path)!r}: {error.strerror}") from None
    raise ValueError(f"FORMER_NB_DATA: {str(path)!r} is not the published file (another SHA-256)")


def cache_folder() -> Path:
    "Where downloads are kept."
    import pooch

    return check_path("cache", pooch.os_cache("former_nb"))


def fetch(
    source: Source,  # one of SOURCES
) -> Path:  # a file with the published content
    """From `FORMER_NB_DATA`, the cache or the web. `ValueError` for other content, `OSError` for
    none."""
    check_type("source", source, Source)
    if folder := os.environ.get("FORMER_NB_DATA"):
        return _from_folder(folder, source)
    if not source.url:
        raise ValueError(f"source: {source.path} is only read from the folder FORMER_NB_DATA")
    import pooch

    pooch.get_logger().setLevel("WARNING")
    registry = {source.path: f"sha256:{source.sha256}"}
    urls = {source.path: source.url}
    place = cache_folder()
    file = Path(place, source.path)
    cache = pooch.create(place, "", registry=registry, urls=urls, retry_if_failed=RETRIES)
    bar = pooch.HTTPDownloader(progressbar=True, timeout=(3, 30))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)  # several may begin at once
        return Path(cache.fetch(source.path, downloader=bar))
    except OSError as error:
        raise OSError(f"source: {str(file)!r} could not be downloaded: {error}") from error
    except ValueError as error:
        wanted = f"source: expected the published {source.path} from {source.url}"
        raise ValueError(f"{wanted}, got a file with another SHA-256, not kept") from error


def _or_else(load, default, what):
    "What `load` gives and None; without a network what `default` gives and a sentence."
    try:
        return load(), None
    except OSError:  # a file that is not the published one is a ValueError: nothing stands in
        if os.environ.get("FORMER_NB_DATA"):
            raise
        return default(), f"{what} (no download)"


def _origin():
    "Where a data set that was found comes from, in words."
    return (
        "read from FORMER_NB_DATA" if os.environ.get("FORMER_NB_DATA") else "downloaded and checked"
    )


def python_prose() -> str:
    "The help pages that every CPython carries: over 400,000 characters, others with each version."
    from pydoc_data.topics import topics

    return "\n\n".join(normalise(topics[name]).strip() for name in sorted(topics))


def _help_pages(instead):
    "The stand-in for running text, in words."
    return f"the help pages of Python {platform.python_version()} instead of {instead}"


def load_shakespeare() -> tuple[str, str]:  # the text, and one line that says where it comes from
    "tinyshakespeare (Karpathy 2015), 1.1 million characters of plays; else Python's help pages."

    def read():
        return read_text(fetch(SOURCES["tinyshakespeare"]))

    text, instead = _or_else(read, python_prose, _help_pages("tinyshakespeare"))
    return text, instead or f"tinyshakespeare, {len(text):,} characters, {_origin()}"


def _imdb_from_parquet():
    "The two parts as `FORMER_NB_DATA` holds them, sorted by label, then number."
    paths = {part: fetch(SOURCES[f"imdb/{part}"]) for part in ("train", "test")}
    import pandas as pd

    tables = {part: pd.read_parquet(path) for part, path in paths.items()}
    return {part: list(zip(t["text"].tolist(), t["label"].tolist())) for part, t in tables.items()}


def _imdb_from_archive():
    "The two parts as published, a file for each review; in the order of the other files."
    parts = {"train": [], "test": []}
    with tarfile.open(fetch(SOURCES["imdb"])) as archive:
        for member in archive:
            if match := re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt", member.name):
                text = archive.extractfile(member).read().decode("utf-8")
                parts[match[1]].append((int(match[2] == "pos"), int(match[3]), text))
    for part, rows in parts.items():
        parts[part] = [(text, label) for label, _, text in sorted(rows)]
    return parts


def load_reviews() -> tuple[dict[str, list[tuple[str, int]]], str]:  # parts as in `small_reviews`
    """IMDb (Maas et al. 2011), 25,000 reviews to learn from, 25,000 to test; else generated
    sentences."""
    load = _imdb_from_parquet if os.environ.get("FORMER_NB_DATA") else _imdb_from_archive
    parts, instead = _or_else(load, small_reviews, "generated sentences instead of IMDb")
    sizes = " and ".join(f"{len(rows):,}" for rows in parts.values())
    return parts, instead or f"IMDb, {sizes} reviews, {_origin()}"


def _captions(part):
    "The pairs of one part of Multi30k."
    german = read_text(fetch(SOURCES[f"{part}.de"])).rstrip("\n").split("\n")
    english = read_text(fetch(SOURCES[f"{part}.en"])).rstrip("\n").split("\n")
    if len(german) != len(english):
        wanted = f"Multi30k, {part}: expected as many German lines as English ones"
        raise ValueError(f"{wanted}, got {len(german):,} and {len(english):,}")
    return [(a.strip(), b.strip()) for a, b in zip(german, english)]


def load_translations() -> tuple[dict[str, list[tuple[str, str]]], str]:  # as in `number_pairs`
    "Multi30k (Elliott et al. 2016), German and English captions; else number words."

    def read():
        return {part: _captions(part) for part in ("train", "valid", "test")}

    parts, instead = _or_else(read, number_pairs, "number words instead of Multi30k")
    return parts, instead or f"Multi30k, {len(parts['train']):,} pairs, {_origin()}"


def _cut(rows, shares, rng, label=None):
    "Cut `rows`, shuffled by `rng` if there is one; a held-out part has one row or more."
    n = len(rows)
    ends = [int(n * sum(shares[:i]) + 1e-6) for i in range(1, len(shares) + 1)]
    held = [b - a for a, b in zip(ends, ends[1:])] if rng is None else [n * s for s in shares[1:]]
    held = [max(1, int(size + 1e-6)) for size in held]
    if sum(held) >= n:
        one = "rows" if label is None else f"different rows of label {label!r:.80}"
        raise ValueError(f"rows: expected at least {len(shares)} {one}, got {n}")
    if rng:
        rows = list(rows)
        rng.shuffle(rows)
        rows = rows[sum(held) :] + rows[: sum(held)]
    ends = [0, *accumulate([n - sum(held), *held])]
    return [rows[a:b] for a, b in zip(ends, ends[1:])]


def split(
    rows: Sequence,  # a list or a tuple; with seed=None also a string, bytes or a tensor
    shares: tuple[float, ...] = (0.9, 0.1),  # of the parts, training first; together 1
    seed: int | None = 0,  # of the shuffling; None cuts `rows` in their order
    *,
    group: Callable | None = None,  # row -> key; rows of one key stay together and count as one
    stratify: Callable | None = None,  # row -> label; each part gets its share of each label
) -> list:  # the parts; no row is lost
    """Cut `rows` in parts. `ValueError` where a part would be empty.

    Rows that say nothing about each other may be shuffled. A text is cut in its order, with
    `seed=None`. Rows that share something, such as reviews of one film, need a `group`, or else the
    held-out part is known by heart. Cut before a tokenizer or anything else looks at the rows.
    """
    if len(shares) < 2 or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise ValueError(f"shares: expected two or more above 0, together 1, got {shares!r}")
    if seed is not None:
        check_int("seed", seed, 0)
        check_type("rows", rows, (list, tuple))
    rng = None if seed is None else random.Random(int(seed))
    if group is None and stratify is None:
        return _cut(rows, shares, rng)
    members: dict = {}  # key -> its rows
    strata: dict = {}  # label -> its keys
    for i, row in enumerate(rows):
        key = i if group is None else group(row)
        keys = strata.setdefault(stratify(row) if stratify else None, [])
        if key not in members:  # else its first row has said where it belongs
            keys.append(key)
        members.setdefault(key, []).append(row)
    parts: list[list] = [[] for _ in shares]
    for label in sorted(strata):
        for part, keys in zip(parts, _cut(strata[label], shares, rng, label)):
            for key in keys:
                part += members[key]
    return parts


PARTS = ("training part", "validation part", "test part")
NOTED = 0.01  # share of a part's characters from which on there is a note
REFUSED = 0.1  # from which on a model of characters isn't judged on it


def compare_parts(
    name: str,  # what an error or a note calls the texts
    parts: list[list[str]],  # to learn from, to choose by, held out
    refuse: bool,  # whether characters that weren't learned are unknown to the model
) -> None:
    """A note where a part has many characters that the training part hasn't. `ValueError` where
    they are so many that a loss would say more about them than about the model."""
    known = set().union(*parts[0])
    for part, texts in zip(PARTS[1:], parts[1:]):
        unseen: Counter[str] = Counter()
        for text in texts:
            if new := set(text) - known:
                unseen.update(c for c in text if c in new)
        share = unseen.total() / max(sum(map(len, texts)), 1)
        examples = "".join(unseen)[:10]
        what = f"{share:.0%} are characters that the training part hasn't, such as {examples!r}"
        if refuse and share >= REFUSED:
            wanted = "parts of one kind of text (mix it before it is cut, or give more of it)"
            raise ValueError(f"{name}: expected {wanted}, got a {part} of which {what}")
        if share >= NOTED:
            effect = "each counts as unknown" if refuse else "nothing was learned about them"
            warnings.warn(f"{name}: of the {part}, {what}; {effect}", stacklevel=3)
