"""The data sets: what is downloaded, checked, refused, split, and what stands in. The only server
is on this machine."""

import gzip
import hashlib
import io
import os
import random
import sys
import tarfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import add

import pytest
import requests
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import every_row, refuses

from former_nb.data import data_sets
from former_nb.data.data_sets import (
    RETRIES,
    SHIPPED_NAMES,
    SOURCES,
    Source,
    fetch,
    load_names,
    load_reviews,
    load_shakespeare,
    load_translations,
    python_prose,
    split,
)
from former_nb.data.toy_data import (
    GERMAN_NAMES,
    number_pairs,
    small_reviews,
)

NAMES = load_names()[0][::10]
FILE = ("name\n" + "\n".join(NAMES) + "\n").encode()
PLAYS = FILE.decode(), f"tinyshakespeare, {len(FILE.decode()):,} characters, downloaded and checked"
LOADERS = [load_shakespeare, load_reviews, load_translations]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        web = self.server.web
        web.asked += 1
        content, status = web.files.get(self.path), web.status
        if content is None or status:
            self.send_response(status or 404)
            self.send_header("Content-Length", 0)
            return self.end_headers()
        self.send_response(200)
        self.send_header("Content-Length", len(content))
        self.end_headers()
        self.wfile.write(content[: 2048 if web.asked <= web.breaks else None])

    def log_message(self, *args):
        pass


class Web:
    "A server that does what a test tells it to; `breaks`: how many replies break off."

    def __init__(self, monkeypatch, cache):
        self.monkeypatch, self.cache, self.files = monkeypatch, cache, {}
        self.asked, self.breaks, self.status = 0, 0, None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.web = self
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def publish(self, key, content, sha256=None):
        "Let `content` be what is published as SOURCES[key]; returns the source."
        url = f"http://127.0.0.1:{self.server.server_port}/{key}"
        digits = sha256 or hashlib.sha256(content).hexdigest()
        source = Source(SOURCES[key].path, url, digits)
        self.files[f"/{key}"] = content
        self.monkeypatch.setitem(SOURCES, key, source)
        return source

    def close_the_network(self):
        "Every address is one where nobody answers."
        for key, source in list(SOURCES.items()):
            url = source.url and "http://127.0.0.1:9/"
            self.monkeypatch.setitem(SOURCES, key, Source(source.path, url, source.sha256))

    def kept(self):
        "What lies in the cache."
        files = self.cache.rglob("*") if self.cache.is_dir() else []
        return sorted(file.name for file in files if file.is_file())


@pytest.fixture
def web(tmp_path, monkeypatch):
    "A server on this machine in place of the real ones, an empty cache, and no data folder."
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("FORMER_NB_DATA", raising=False)
    web = Web(monkeypatch, tmp_path / "cache")
    yield web
    web.server.shutdown()
    web.server.server_close()


# ---- the list that ships

SHA256 = "2f6eb1701f2b97fabebd0ee7bab3b4b5bcee6a729ffc0a5a8c855f49d6dbdb8f"  # as published


@pytest.mark.parametrize("folder", [None, "none"])
def test_the_full_list_of_names_ships_and_neither_web_nor_folder_is_asked(
    web, folder, tmp_path, monkeypatch
):
    web.close_the_network()
    monkeypatch.setattr("pooch.create", lambda *args, **kwargs: pytest.fail("a download"))
    if folder:
        monkeypatch.setenv("FORMER_NB_DATA", str(tmp_path / folder))
    names, said = load_names()
    assert len(names) == len(set(names)) == 6185
    assert said == "6,185 Lithuanian names from the package"
    assert load_names()[0] is not names and web.asked == 0 and web.kept() == []


def test_whatever_changes_in_a_file_its_digits_change():
    published = SHIPPED_NAMES.read_bytes()
    changed = {
        51_147: published[:-4],
        51_151: published.replace(b"jonas", b"Jonas", 1),  # the size stays as it was
        57_341: published.replace(b"\n", b"\r\n"),
    }
    assert len(published) == 51_151 and [*changed] == [len(file) for file in changed.values()]
    digits = {hashlib.sha256(file).hexdigest() for file in changed.values()}
    assert len(digits) == 3 and SHA256 not in digits


def test_half_a_download_looks_like_a_list_of_names():
    "What the docstring of the module says of a download that broke off after 26,000 bytes."
    published = SHIPPED_NAMES.read_bytes()
    whole, half = (part.decode().split("\n") for part in (published, published[:26_000]))
    assert (len(whole), len(half)) == (6191, 3181)
    assert half[-1] == "kevi" and "kevi" not in whole
    assert "3,181 lines of 6,191, and *kevi*" in data_sets.__doc__


def test_the_list_is_the_published_one_and_its_card_says_so():
    card = SHIPPED_NAMES.with_name("README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(SHIPPED_NAMES.read_bytes()).hexdigest() == SHA256 and SHA256 in card
    assert "6,185" in card and "(c) 2025 jputrius" in card and "vardai.vlkk.lt" in card
    licence = SHIPPED_NAMES.with_name("LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("MIT License") and "Copyright (c) 2025 jputrius" in licence


def test_german_names_are_in_no_lithuanian_list_and_have_its_letters():
    names = load_names()[0]
    assert len(GERMAN_NAMES) == len(set(GERMAN_NAMES)) == 536 and not {*GERMAN_NAMES} & {*names}
    assert {*"".join(GERMAN_NAMES)} <= {*"".join(names)}


# ---- downloads


def test_a_download_is_checked_and_kept(web):
    web.publish("tinyshakespeare", FILE)
    assert load_shakespeare() == PLAYS
    web.server.shutdown()
    assert load_shakespeare() == PLAYS and web.asked == 1 and web.kept() == ["input.txt"]


@pytest.mark.parametrize(
    "content",
    [FILE[:-20], FILE.replace(b"name", b"Name"), b"", b"<html>sign in</html>", FILE + b"x"],
)
def test_what_is_not_the_published_file_is_refused_and_not_kept(web, content):
    source = web.publish("tinyshakespeare", content, hashlib.sha256(FILE).hexdigest())
    refuses(lambda: fetch(source), ValueError, "source", "SHA-256")
    assert web.kept() == []


@pytest.mark.parametrize("load", LOADERS)
def test_nothing_stands_in_for_a_download_that_is_not_the_published_file(web, load):
    keys = ["imdb"] if load is load_reviews else PATHS[load]
    for key in keys:
        web.publish(key, b"<html>sign in</html>", hashlib.sha256(FILE).hexdigest())
    refuses(load, ValueError, "source")
    assert web.asked == 1 + RETRIES and web.kept() == []


def test_a_cached_file_that_was_altered_is_downloaded_again(web):
    source = web.publish("tinyshakespeare", FILE)
    fetch(source).write_bytes(FILE[:-1])
    assert fetch(source).read_bytes() == FILE and web.asked == 2


def test_a_connection_that_breaks_off_is_tried_again_and_no_part_is_kept(web):
    source, web.breaks = web.publish("tinyshakespeare", FILE), RETRIES
    assert fetch(source).read_bytes() == FILE and web.asked == 1 + RETRIES
    fetch(source).unlink()
    web.asked, web.breaks = 0, 1 + RETRIES
    with pytest.raises(OSError):
        fetch(source)
    assert web.asked == 1 + RETRIES and web.kept() == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_error_of_the_server_lets_the_stand_in_serve(web, status):
    source, web.status = web.publish("tinyshakespeare", FILE), status
    with pytest.raises(OSError, match=str(status)):
        fetch(source)
    said = "instead of tinyshakespeare (no download)"
    assert web.kept() == [] and load_shakespeare()[1].endswith(said)


def test_a_download_has_time_limits(web, monkeypatch):
    seen, get = [], requests.get
    keep = lambda url, **kwargs: seen.append(kwargs["timeout"]) or get(url, **kwargs)
    monkeypatch.setattr(requests, "get", keep)
    fetch(web.publish("tinyshakespeare", FILE))
    assert seen == [(3, 30)]


def test_several_at_once_get_a_whole_file(web):
    source = web.publish("tinyshakespeare", FILE)
    with ThreadPoolExecutor(4) as pool:
        assert all(path.read_bytes() == FILE for path in pool.map(fetch, [source] * 4))
    assert web.kept() == ["input.txt"]


def test_without_a_network_every_stand_in_serves_and_says_so(web, capsys):
    web.close_the_network()
    said = [load()[1] for load in LOADERS]
    assert all(s.endswith("(no download)") and " instead of " in s and "\n" not in s for s in said)
    assert load_shakespeare()[0] == python_prose()
    assert load_reviews()[0] == small_reviews() and load_translations()[0] == number_pairs()
    assert capsys.readouterr() == ("", "") and web.kept() == []


def test_a_cache_that_cannot_be_written_is_no_error(web):
    web.publish("tinyshakespeare", FILE)
    web.cache.write_text("a file where a folder should be")
    text, said = load_shakespeare()
    assert text == python_prose() and "no download" in said and str(web.cache) not in said


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user whom folders can shut out"
)
def test_a_cache_that_can_only_be_read_serves(web):
    source = web.publish("tinyshakespeare", FILE)
    fetch(source).parent.chmod(0o500)
    assert load_shakespeare() == PLAYS


def test_every_source_has_its_digits_and_a_fixed_revision():
    digits = [source.sha256 for source in SOURCES.values()]
    assert len(set(digits)) == 10 and all(len(d) == 64 and int(d, 16) for d in digits)
    urls = [source.url for source in SOURCES.values() if source.url]
    assert all(url.startswith("https://") for url in urls)
    revisions = [url.split("/")[5] for url in urls if "githubusercontent" in url]
    assert all(len(revision) == 40 and int(revision, 16) for revision in revisions)


# ---- FORMER_NB_DATA

PATHS = {
    load_shakespeare: ["tinyshakespeare"],
    load_reviews: ["imdb/train", "imdb/test"],
    load_translations: [
        f"{part}.{language}" for part in ("train", "valid", "test") for language in ("de", "en")
    ],
}


@pytest.fixture
def folder(web, tmp_path, monkeypatch):
    "A data folder with a small data set of each kind, all as published."
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    folder = tmp_path / "data"
    contents = {
        "tinyshakespeare": "First Citizen:\r\nZ\u0307".encode(),
    }
    contents |= {f"imdb/{part}": parquet(pandas, rows) for part, rows in REVIEWS.items()}
    contents |= {
        key: gzip.compress(f"{key} eins\n{key}\tzwei \n".encode(), mtime=0)
        for key in PATHS[load_translations]
    }
    for key, content in contents.items():
        path = folder / web.publish(key, content).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.setenv("FORMER_NB_DATA", str(folder))
    return folder


def parquet(pandas, rows):
    file = io.BytesIO()
    pandas.DataFrame(rows, columns=["text", "label"]).to_parquet(file, index=False)
    return file.getvalue()


# As upstream numbers them: by label, then by number, of which 10 comes after 2.
REVIEWS = {
    "train": [
        ("dull, 0", 0),
        ("dull, 2 <br />", 0),
        ("dull, 10", 0),
        ("good, 0 caf\u00e9", 1),
        ("good, 1", 1),
        ("good, 11", 1),
    ],
    "test": [("awful, 3", 0), ("great, 7", 1)],
}


def archive_of_reviews():
    "The same reviews as they were published: in any order, among other files."
    place = lambda part, y, text: (
        f"aclImdb/{part}/{'neg pos'.split()[y]}/{text.split(',')[1].split()[0]}_7.txt"
    )
    members = [(place(part, y, text), text) for part, rows in REVIEWS.items() for text, y in rows]
    members += [
        ("aclImdb/README", "read me"),
        ("aclImdb/train/unsup/0_0.txt", "no label"),
        ("aclImdb/train/urls_neg.txt", "http://"),
        ("aclImdb/train/labeledBow.feat", "1 0:9"),
        ("aclImdb/test/neg/.hidden", "x"),
        ("elsewhere/aclImdb/train/neg/5_1.txt", "x"),
    ]
    random.Random(0).shuffle(members)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return file.getvalue()


def test_a_folder_takes_the_place_of_the_web(folder, web, capsys):
    said = "tinyshakespeare, 16 characters, read from FORMER_NB_DATA"
    assert load_shakespeare() == ("First Citizen:\n\u017b", said)
    assert load_reviews() == (REVIEWS, "IMDb, 6 and 2 reviews, read from FORMER_NB_DATA")
    parts, said = load_translations()
    assert said == "Multi30k, 2 pairs, read from FORMER_NB_DATA"
    assert list(parts) == ["train", "valid", "test"]
    pairs = [("valid.de eins", "valid.en eins"), ("valid.de\tzwei", "valid.en\tzwei")]
    assert parts["valid"] == pairs
    assert web.asked == 0 and web.kept() == [] and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("fault", ["truncated", "altered", "empty", "missing", "a folder"])
def test_a_folder_that_is_not_right_is_refused_by_name(folder, load, fault):
    for key in PATHS[load]:
        path = folder / SOURCES[key].path
        content = path.read_bytes()
        spoilt = dict(truncated=content[:-1], altered=content[:-1] + b"\x01", empty=b"")
        path.write_bytes(spoilt[fault]) if fault in spoilt else path.unlink()
        if fault == "a folder":
            path.mkdir()
        wanted = f"expected a folder that holds {SOURCES[key].path}"
        with pytest.raises(ValueError, match="FORMER_NB_DATA: ") as error:
            load()
        said = str(error.value)
        assert path.name in said and str(path) in said.replace("\\\\", "\\")
        assert ("is not the published file" if fault in spoilt else wanted) in said
        if fault == "a folder":
            path.rmdir()
        path.write_bytes(content)
    assert load()[1].endswith("read from FORMER_NB_DATA")


@pytest.mark.parametrize("load", LOADERS)
def test_a_folder_that_is_not_there_is_an_error_and_no_stand_in(web, load, tmp_path, monkeypatch):
    monkeypatch.setenv("FORMER_NB_DATA", str(tmp_path / "none"))
    refuses(load, ValueError, "FORMER_NB_DATA", "No such file")


def test_a_folder_may_begin_with_a_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    monkeypatch.setenv("FORMER_NB_DATA", "~/data")
    assert load_shakespeare()[0] == "First Citizen:\n\u017b"


def test_a_parquet_file_without_pyarrow_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(ImportError, match="pyarrow"):
        load_reviews()


def test_reviews_that_are_only_read_from_a_folder_have_no_address(web):
    for part in ("train", "test"):
        with pytest.raises(ValueError, match=f"source: imdb/{part}.parquet .* FORMER_NB_DATA"):
            fetch(SOURCES[f"imdb/{part}"])
    assert web.asked == 0 and web.kept() == []


# ---- what is inside the files


def test_the_archive_gives_the_reviews_of_the_parquet_files(web, capsys):
    web.publish("imdb", archive_of_reviews())
    assert load_reviews() == (REVIEWS, "IMDb, 6 and 2 reviews, downloaded and checked")
    capsys.readouterr()
    assert load_reviews()[0] == REVIEWS and capsys.readouterr() == ("", "")


def packed(text):
    return gzip.compress(text if isinstance(text, bytes) else text.encode("latin-1"), mtime=0)


BAD_PAIRS = [
    (packed("M\u00e4nner\n"), "file", "0xe4"),
    (packed("eins\nzwei\n" * 99)[:-12], "file", "ended"),
    (packed("eins\nzwei\n")[:-8] + b"\0" * 8, "file", "CRC"),
    (packed(""), "file", "empty"),
    (packed("eins\n\0\n"), "file", "line 2"),
    (packed("eins\n"), "Multi30k, train", "1 and 2"),
    (packed("eins\n\nzwei\n"), "Multi30k, train", "3 and 2"),
]


@pytest.mark.parametrize("content, name, came", BAD_PAIRS)
def test_translations_that_cannot_be_right_are_refused_whatever_the_fingerprint(
    folder, web, content, name, came
):
    (folder / web.publish("train.de", content).path).write_bytes(content)
    refuses(load_translations, ValueError, name, came)


def test_a_line_may_hold_what_other_programs_end_lines_with(folder, web):
    content = gzip.compress("eins\u2028a\nzwei\x0cb\n".encode(), mtime=0)
    (folder / web.publish("train.de", content).path).write_bytes(content)
    assert [german for german, _ in load_translations()[0]["train"]] == ["eins\u2028a", "zwei\x0cb"]


# ---- what stands in


def test_the_help_pages_are_text():
    text = python_prose()
    assert len(text) > 300_000 and "The standard type hierarchy" in text
    assert not {c for c in text if ord(c) < 32} - {"\n", "\t"}


# ---- parts


def sizes(parts):
    return [len(part) for part in parts]


def test_names_have_the_parts_that_they_always_had():
    names = load_names()[0]
    train, valid, test = split(names, (0.8, 0.1, 0.1))
    mixed = list(names)
    random.Random(0).shuffle(mixed)
    assert (valid, test, train) == (mixed[:618], mixed[618:1236], mixed[1236:])
    assert split(names, (0.8, 0.1, 0.1), 1)[0] != train == split(names, (0.8, 0.1, 0.1), 0)[0]
    assert sizes(split([*range(6185)], (0.8, 0.1, 0.1))) == [4949, 618, 618]


@given(
    st.lists(st.integers(0, 30), max_size=60),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.sampled_from([None, 0, 7]),
    st.sampled_from([None, lambda row: row % 7]),
    st.sampled_from([None, lambda row: row % 7 % 2]),
)
def test_no_row_is_lost_and_no_group_is_in_two_parts(rows, weights, seed, group, stratify):
    shares = tuple(w / sum(weights) for w in weights)
    try:
        parts = split(rows, shares, seed, group=group, stratify=stratify)
    except ValueError as error:
        assert str(error).startswith("rows: expected at least")
        return
    assert len(parts) == len(shares) and all(parts) or not rows
    assert Counter(rows) == sum(map(Counter, parts), Counter())
    if group:
        keys = [set(map(group, part)) for part in parts]
        assert sum(map(len, keys)) == len(set.union(*keys))


@given(st.one_of(st.text(), st.binary()), st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_parts_in_order_are_the_text_end_to_end(text, weights):
    shares = tuple(w / sum(weights) for w in weights)
    if len(text) >= 10 * len(shares):
        parts = split(text, shares, seed=None)
        assert reduce(add, parts) == text and all(map(len, parts))
        for n, share in zip(sizes(parts), shares):
            assert abs(n - share * len(text)) < 2 * len(shares)


def test_the_usual_cuts():
    assert sizes(split(range(1_115_394), seed=None)) == [1_003_854, 111_540]  # as others cut it
    assert split("abcdefghij", (0.7, 0.2, 0.1), seed=None) == ["abcdefg", "hi", "j"]
    assert torch.equal(split(torch.arange(10), seed=None)[1], torch.tensor([9]))


def test_the_end_of_each_label_is_held_out_and_few_clauses_are_cut():
    reviews = small_reviews()["train"]
    learn, held = split(reviews, seed=None, stratify=lambda row: row[1])
    assert sizes((learn, held)) == [1656, 184] and Counter(y for _, y in held) == {0: 92, 1: 92}
    frames = ("i must say ", "we all felt that ", ", my friends told me", ".")
    clause = lambda text: reduce(lambda text, frame: text.replace(frame, ""), frames, text)
    known = {clause(text) for text, _ in learn}
    assert sum(clause(text) in known for text, _ in held) <= 4
    mixed = split(reviews)
    assert sum(clause(t) in {clause(t) for t, _ in mixed[0]} for t, _ in mixed[1]) > 150


def test_a_label_has_its_share_and_a_text_stays_in_one_part():
    pairs = [(f"text {i % 40}", "rare" if i % 40 < 6 else "common") for i in range(90)]
    parts = split(pairs, (0.8, 0.1, 0.1), group=lambda p: p[0], stratify=lambda p: p[1])
    where = [{text for text, _ in part} for part in parts]
    assert sum(map(len, where)) == 40 == len(set.union(*where))
    assert all({label for _, label in part} == {"rare", "common"} for part in parts)
    for more, said in (("one", "1"), ("text 0", "0")):
        rows, keys = [*pairs, (more, "other")], dict(group=lambda p: p[0], stratify=lambda p: p[1])
        refuses(lambda: split(rows, **keys), ValueError, "rows", said)


# ---- bad input


def bad_shares():
    for bad in ((1.0,), (0.9, 0.2), ("a",), (1.1, -0.1), (float("nan"), 1)):
        yield f"shares {bad}", lambda bad=bad: split(NAMES, bad), ValueError, "shares"


BAD = [
    *bad_shares(),
    ("a string", lambda: split("ona"), TypeError, "rows"),
    ("a set", lambda: split({"ona"}), TypeError, "rows"),
    ("one row", lambda: split(["ona"]), ValueError, "rows"),
    ("a seed", lambda: split(NAMES, seed=-1), ValueError, "seed"),
    ("no source", lambda: fetch("names"), TypeError, "source"),
    ("no address", lambda: fetch(Source("a/b", "", "0")), ValueError, "", "source: a/b "),
]
test_bad_input_is_named = every_row(BAD)
