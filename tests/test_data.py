"""The data sets: what is downloaded, checked, gone on with, refused, and what stands in. The only server is on this machine."""

import gzip
import hashlib
import inspect
import io
import os
import random
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from former_nb import data_sets
from former_nb.toy_data import NAMES, english_number, german_number, number_pairs, small_reviews
from former_nb.data_sets import (
    SOURCES,
    Source,
    fetch,
    load_enwik8,
    load_names,
    load_reviews,
    load_shakespeare,
    load_translations,
    python_prose,
    read_names,
    read_text,
    resuming,
    split,
)

FILE = ("name\n" + "\n".join(NAMES) + "\n").encode()  # 5 kB: five blocks of 1,024 bytes and a bit
LOADERS = [load_names, load_shakespeare, load_enwik8, load_reviews, load_translations]
KIB = 1024


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        web, content, asked = (
            self.server.web,
            self.server.web.files.get(self.path),
            self.headers["Range"],
        )
        with web.lock:
            web.asked.append(asked)
            limit = web.limits.pop(0) if web.limits else None
        time.sleep(web.wait)
        start = int(asked[6:-1]) if asked and web.knows_range else 0
        if content is None or web.status:
            return self.reply(web.status or 404, b"", {"Content-Length": 0})
        if start and start >= len(content):
            return self.reply(
                416, b"", {"Content-Length": 0, "Content-Range": f"bytes */{len(content)}"}
            )
        begin = start if web.begins_at is None else web.begins_at
        headers = {"Content-Length": len(content) - begin} if web.gives_length else {}
        if start:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self.reply(206 if start else 200, content[begin:][:limit], headers)
        if limit is not None and web.stalls:
            self.wfile.flush()
            web.released.wait(10)

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Web:
    "A server that does what a test tells it to."

    def __init__(self, monkeypatch, cache):
        self.monkeypatch, self.cache, self.lock, self.released = (
            monkeypatch,
            cache,
            threading.Lock(),
            threading.Event(),
        )
        self.files, self.asked, self.limits = (
            {},
            [],
            [],
        )  # limits: bytes after which each reply breaks off, then none
        self.knows_range, self.gives_length, self.begins_at, self.stalls, self.status, self.wait = (
            True,
            True,
            None,
            False,
            None,
            0,
        )
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.web = self
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def address(self, name):
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def publish(self, key, content, sha256=None):
        "Let `content` be what is published as SOURCES[key]; returns the source."
        source = Source(
            SOURCES[key].path, self.address(key), sha256 or hashlib.sha256(content).hexdigest()
        )
        self.files[f"/{key}"] = content
        self.monkeypatch.setitem(SOURCES, key, source)
        return source

    def close_the_network(self):
        "Every address is one where nobody answers."
        for key, source in list(SOURCES.items()):
            self.monkeypatch.setitem(
                SOURCES,
                key,
                Source(source.path, source.url and "http://127.0.0.1:9/", source.sha256),
            )

    def part(self, source):
        return self.cache / f"{source.path}.part"

    def kept(self):
        "What lies in the cache, without the locks, which are empty."
        files = (
            [file for file in self.cache.rglob("*") if file.is_file()]
            if self.cache.is_dir()
            else []
        )
        return sorted(
            file.name for file in files if not (file.suffix == ".lock" and not file.stat().st_size)
        )


@pytest.fixture
def web(tmp_path, monkeypatch):
    "A server on this machine in place of the real ones, an empty cache, and no data folder."
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("FORMER_NB_DATA", raising=False)
    web = Web(monkeypatch, tmp_path / "cache")
    yield web
    web.released.set()
    web.server.shutdown()
    web.server.server_close()


# ---- downloads


def test_a_download_is_checked_and_kept(web, capsys):
    web.publish("names", FILE)
    assert load_names() == (NAMES, "674 Lithuanian names, downloaded and checked")
    out, err = capsys.readouterr()
    assert not out and "vardai.csv" in err  # the progress bar
    web.server.shutdown()
    assert load_names() == (NAMES, "674 Lithuanian names, downloaded and checked")  # from the cache
    assert web.asked == [None] and web.kept() == ["vardai.csv"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "content",
    [FILE[:-20], FILE.replace(b"jonas", b"Jonas"), b"", b"<html>sign in</html>", FILE + b"x"],
)
def test_what_is_not_the_published_file_is_refused_and_not_kept(web, content):
    source = web.publish("names", content, hashlib.sha256(FILE).hexdigest())
    with pytest.raises(ValueError, match="vardai.csv"):
        fetch(source)
    assert web.kept() == []
    names, said = load_names()
    assert names == NAMES and said.endswith(
        "instead of the full set (what arrived is not the published file)"
    )


def test_a_cached_file_that_was_altered_is_downloaded_again(web):
    source = web.publish("names", FILE)
    fetch(source).write_bytes(FILE[:-1])
    assert fetch(source).read_bytes() == FILE and len(web.asked) == 2


def test_a_connection_that_breaks_off_is_gone_on_with(web):
    source = web.publish("names", FILE)
    web.limits = [2 * KIB, KIB + 300, KIB]
    assert fetch(source).read_bytes() == FILE
    assert (
        web.asked[:2] == [None, "bytes=2048-"]
        and len(web.asked) == 4
        and web.kept() == ["vardai.csv"]
    )


def test_a_run_that_was_cut_off_is_gone_on_with_by_the_next(web):
    source = web.publish("names", FILE)
    web.limits = [2 * KIB, 0]
    with pytest.raises(OSError):
        fetch(source)
    assert web.part(source).read_bytes() == FILE[: 2 * KIB] and web.kept() == ["vardai.csv.part"]
    assert fetch(source).read_bytes() == FILE
    assert web.asked == [None, "bytes=2048-", "bytes=2048-"] and web.kept() == ["vardai.csv"]


def test_a_server_without_ranges_starts_again(web):
    source = web.publish("names", FILE)
    web.knows_range, web.limits = False, [2 * KIB, 3 * KIB]
    assert fetch(source).read_bytes() == FILE and len(web.asked) == 3


def test_a_server_without_ranges_that_gets_no_further_is_given_up(web):
    source = web.publish("names", FILE)
    web.knows_range, web.limits = False, [2 * KIB] * 9
    with pytest.raises(OSError):
        fetch(source)
    assert len(web.asked) == 2 and web.kept() == ["vardai.csv.part"]


def test_a_server_that_continues_at_another_place_is_not_believed(web):
    source = web.publish("names", FILE)
    web.limits, web.begins_at = (
        [2 * KIB],
        0,
    )  # asked for byte 2048, it sends the file from the start, as 206
    assert fetch(source).read_bytes() == FILE


def test_a_part_that_is_longer_than_the_file_starts_again(web):
    source = web.publish("names", FILE)
    web.part(source).parent.mkdir(parents=True)
    web.part(source).write_bytes(FILE * 2)
    assert fetch(source).read_bytes() == FILE
    assert web.asked == [f"bytes={2 * len(FILE)}-", None] and web.kept() == ["vardai.csv"]


def test_a_part_that_is_whole_is_not_downloaded_again(web):
    source = web.publish("names", FILE)
    web.part(source).parent.mkdir(parents=True)
    web.part(source).write_bytes(FILE)
    assert fetch(source).read_bytes() == FILE and web.asked == [f"bytes={len(FILE)}-"]


def test_a_part_of_another_file_is_forgotten(web):
    source = web.publish("names", FILE)
    web.part(source).parent.mkdir(parents=True)
    web.part(source).write_bytes(b"x" * KIB)
    assert (
        fetch(source).read_bytes() == FILE
        and web.asked == ["bytes=1024-", None]
        and web.kept() == ["vardai.csv"]
    )


def test_a_cut_that_nobody_announced_is_refused(web):
    source = web.publish("names", FILE)
    web.gives_length, web.limits = False, [2 * KIB]
    with pytest.raises(ValueError, match="vardai.csv"):
        fetch(source)
    assert web.kept() == []


@pytest.mark.parametrize("status", [403, 404, 416, 500, 503])
def test_an_error_of_the_server_is_not_asked_for_twice(web, status):
    source = web.publish("names", FILE)
    web.status = status
    with pytest.raises(requests.HTTPError, match=str(status)):
        fetch(source)
    assert len(web.asked) == 1 and web.kept() == []
    assert load_names()[1].endswith("instead of the full set (no download)")


def test_a_server_that_falls_silent_is_waited_for_and_gone_on_with(web, monkeypatch):
    source, get = web.publish("names", FILE), requests.get
    monkeypatch.setattr(
        requests,
        "get",
        lambda url, **how: get(url, **how | ({} if web.asked else {"timeout": (3, 1)})),
    )  # 10 s is long for a test
    web.stalls, web.limits = True, [2 * KIB]
    assert fetch(source).read_bytes() == FILE and web.asked == [None, "bytes=2048-"]


def test_a_download_has_time_limits(web, monkeypatch):
    seen, get = [], requests.get
    monkeypatch.setattr(
        requests, "get", lambda url, **how: seen.append(how["timeout"]) or get(url, **how)
    )
    fetch(web.publish("names", FILE))
    assert seen == [(3, 10)]


def test_stopping_by_hand_keeps_the_part(web, monkeypatch):
    class Impatient(data_sets.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n >= 3 * KIB:
                raise KeyboardInterrupt

    source = web.publish("names", FILE)
    with monkeypatch.context() as patch:
        patch.setattr(data_sets, "tqdm", Impatient)
        with pytest.raises(KeyboardInterrupt):
            load_names()
    assert web.part(source).read_bytes() == FILE[: 3 * KIB] and web.kept() == ["vardai.csv.part"]
    assert load_names()[0] == NAMES and web.asked[1] == "bytes=3072-"


# ---- no network, no cache


def test_without_a_network_every_stand_in_serves_at_once(web, capsys):
    web.close_the_network()
    asked, get = [], requests.get
    web.monkeypatch.setattr(
        requests, "get", lambda url, **how: asked.append(url) or get(url, **how)
    )
    web.monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("somebody waits"))
    said = [load()[1] for load in LOADERS]
    assert (
        0 < len(asked) <= sum(bool(source.url) for source in SOURCES.values())
    )  # nobody is asked twice
    assert all(
        sentence.endswith("(no download)") and " instead of " in sentence and "\n" not in sentence
        for sentence in said
    )
    assert load_names()[0] == NAMES and load_names()[0] is not NAMES
    assert load_shakespeare()[0] == python_prose() and load_enwik8()[0] == python_prose().encode()
    assert load_reviews()[0] == small_reviews() and load_translations()[0] == number_pairs()
    assert capsys.readouterr() == ("", "") and web.kept() == []


def test_a_network_that_swallows_everything_is_not_waited_for(web, monkeypatch):
    asked, answered = [], []

    def never(*args, **kwargs):
        asked.append(args)
        answered.append(web.released.wait(60))
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", never)
    monkeypatch.setattr(data_sets, "_PATIENCE", 0.2)
    assert load_names()[1].endswith("(no download)") and len(asked) == 1 and not answered


def test_patience_is_short():
    assert data_sets._PATIENCE <= 5


def test_a_cache_that_cannot_be_written_is_named_in_one_sentence(web):
    web.publish("names", FILE)
    web.cache.write_text("a file where a folder should be")
    names, said = load_names()
    assert (
        names == NAMES
        and "no download, the cache folder cannot be used: " in said
        and "\n" not in said
        and str(web.cache) not in said
    )


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user whom folders can shut out"
)
def test_a_folder_without_permission(web):
    web.publish("names", FILE)
    web.cache.mkdir(mode=0o500)
    assert load_names()[1].endswith("the cache folder cannot be used: Permission denied)")


def test_a_full_disk_is_said_and_not_tried_again(web, monkeypatch):
    class Full(data_sets.tqdm):
        def update(self, n=1):
            raise OSError(28, "No space left on device")

    web.publish("names", FILE)
    monkeypatch.setattr(data_sets, "tqdm", Full)
    assert (
        load_names()[1].endswith("the cache folder cannot be used: No space left on device)")
        and len(web.asked) == 1
    )


def test_a_cache_that_can_only_be_read_serves(web, monkeypatch):
    source = web.publish("names", FILE)
    fetch(source)

    def locked_out(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(data_sets, "FileLock", locked_out)
    assert load_names() == (NAMES, "674 Lithuanian names, downloaded and checked")
    fetch(source).unlink()
    assert load_names()[1].endswith("the cache folder cannot be used: Permission denied)")


# ---- several at once


def test_several_threads_download_once(web):
    source, web.wait = web.publish("names", FILE), 0.2
    with ThreadPoolExecutor(4) as pool:
        assert all(path.read_bytes() == FILE for path in pool.map(fetch, [source] * 4))
    assert web.asked == [None]


def test_a_process_waits_for_the_download_of_another(web):
    source = web.publish("names", FILE)
    place = web.cache / source.path
    place.parent.mkdir(parents=True)
    code = f"""import filelock, pathlib, time
with filelock.FileLock({str(place) + ".lock"!r}):
    print("begun", flush=True)
    time.sleep(0.5)
    pathlib.Path({str(place)!r}).write_bytes({FILE!r})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "begun\n"
        assert fetch(source).read_bytes() == FILE
    assert web.asked == [] and web.kept() == ["vardai.csv"]


# ---- FORMER_NB_DATA

PATHS = {
    load_names: ["names"],
    load_shakespeare: ["tinyshakespeare"],
    load_enwik8: ["enwik8"],
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
        "names": FILE,
        "tinyshakespeare": "First Citizen:\r\nZ\u0307".encode(),
        "enwik8": zipped(b"\xff<wiki>" * 9),
    }
    contents |= {f"imdb/{part}": parquet(pandas, rows) for part, rows in REVIEWS.items()}
    contents |= {
        key: gzip.compress(f"{key} eins\n{key}\tzwei \n".encode())
        for key in PATHS[load_translations]
    }
    for key, content in contents.items():
        path = folder / web.publish(key, content).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.setenv("FORMER_NB_DATA", str(folder))
    return folder


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("enwik8", content)
    return file.getvalue()


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
    members = [
        (
            f"aclImdb/{part}/{'pos' if y else 'neg'}/{text.split(',')[1].split()[0]}_{7 if y else 2}.txt",
            text,
        )
        for part, rows in REVIEWS.items()
        for text, y in rows
    ]
    members += [
        ("aclImdb/README", "read me"),
        ("aclImdb/train/unsup/0_0.txt", "no label"),
        ("aclImdb/train/urls_neg.txt", "http://"),
    ]
    members += [
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
    assert load_names() == (NAMES, "674 Lithuanian names, read from FORMER_NB_DATA")
    assert load_shakespeare() == (
        "First Citizen:\n\u017b",
        "tinyshakespeare, 16 characters, read from FORMER_NB_DATA",
    )
    assert load_enwik8() == (b"\xff<wiki>" * 9, "enwik8, 63 bytes, read from FORMER_NB_DATA")
    assert load_reviews() == (REVIEWS, "IMDb, 6 and 2 reviews, read from FORMER_NB_DATA")
    parts, said = load_translations()
    assert said == "Multi30k, 2 pairs, read from FORMER_NB_DATA" and list(parts) == [
        "train",
        "valid",
        "test",
    ]
    assert parts["valid"] == [
        ("valid.de eins", "valid.en eins"),
        ("valid.de\tzwei", "valid.en\tzwei"),
    ]
    assert web.asked == [] and web.kept() == [] and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize(
    "fault", ["truncated", "altered", "empty", "longer", "another encoding", "missing", "a folder"]
)
def test_a_folder_that_is_not_right_is_refused_by_name(folder, load, fault):
    for key in PATHS[load]:
        path = folder / SOURCES[key].path
        content = path.read_bytes()
        spoilt = {
            "truncated": content[:-1],
            "altered": content[:-1] + b"\x01",
            "empty": b"",
            "longer": content + b"\n",
        }
        spoilt["another encoding"] = "adel\u0117".encode("utf-16")
        if fault in spoilt:
            path.write_bytes(spoilt[fault])
        else:
            path.unlink()
        if fault == "a folder":
            path.mkdir()
        with pytest.raises(ValueError, match="FORMER_NB_DATA: ") as error:
            load()
        assert path.name in str(error.value) and str(path) in str(error.value).replace("\\\\", "\\")
        assert (
            "is not the published file"
            if fault in spoilt
            else f"expected a folder that holds {SOURCES[key].path}"
        ) in str(error.value)
        if fault == "a folder":
            path.rmdir()
        path.write_bytes(content)
    assert load()[1].endswith("read from FORMER_NB_DATA")


@pytest.mark.parametrize("load", LOADERS)
def test_a_folder_that_is_not_there_is_an_error_and_no_stand_in(web, load, tmp_path, monkeypatch):
    monkeypatch.setenv("FORMER_NB_DATA", str(tmp_path / "none"))
    with pytest.raises(
        ValueError,
        match="FORMER_NB_DATA: expected a folder that holds .* cannot be read: No such file",
    ):
        load()


def test_a_folder_may_begin_with_a_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    monkeypatch.setenv("FORMER_NB_DATA", "~/data")
    assert load_names()[0] == NAMES


def test_a_parquet_file_without_pyarrow_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(
        ImportError, match="FORMER_NB_DATA: imdb/train.parquet .*pip install pyarrow"
    ):
        load_reviews()


def test_reviews_that_are_only_read_from_a_folder_have_no_address(web):
    for part in ("train", "test"):
        with pytest.raises(
            ValueError, match=f"source: imdb/{part}.parquet is not downloaded.*FORMER_NB_DATA"
        ):
            fetch(SOURCES[f"imdb/{part}"])
    assert web.asked == [] and web.kept() == []


# ---- what is inside the files


def test_the_archive_gives_the_reviews_of_the_parquet_files(web, capsys):
    web.publish("imdb", archive_of_reviews())
    assert load_reviews() == (REVIEWS, "IMDb, 6 and 2 reviews, downloaded and checked")
    capsys.readouterr()
    assert load_reviews()[0] == REVIEWS and capsys.readouterr() == ("", "")


def test_enwik8_is_unpacked(web):
    web.publish("enwik8", zipped(b"<mediawiki>\xff\x00"))
    assert load_enwik8() == (b"<mediawiki>\xff\x00", "enwik8, 13 bytes, downloaded and checked")


@pytest.mark.parametrize(
    "content, said",
    [
        (
            gzip.compress("M\u00e4nner\n".encode("latin-1")),
            r"train.de.gz' is not UTF-8 text: byte 1 is 0xe4",
        ),
        (
            gzip.compress(b"eins\nzwei\n" * 99)[:-12],
            r"train.de.gz' is broken, gzip cannot unpack it",
        ),
        (
            gzip.compress(b"eins\nzwei\n")[:-8] + b"\0" * 8,
            r"train.de.gz' is broken, gzip cannot unpack it",
        ),
        (gzip.compress(b""), r"train.de.gz': expected text, got an empty file"),
        (
            gzip.compress(b"eins\n\0\n"),
            r"train.de.gz', line 2: expected text, got the control character",
        ),
        (
            gzip.compress(b"eins\n"),
            "Multi30k, train: expected as many German lines as English ones, got 1 and 2",
        ),
        (
            gzip.compress(b"eins\n\nzwei\n"),
            "Multi30k, train: expected as many German lines as English ones, got 3 and 2",
        ),
    ],
)
def test_translations_that_cannot_be_right_are_refused_whatever_the_fingerprint(
    folder, web, content, said
):
    (folder / web.publish("train.de", content).path).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        load_translations()


def test_a_line_may_hold_what_other_programs_end_lines_with(folder, web):
    content = gzip.compress("eins\u2028a\nzwei\x0cb\n".encode())
    (folder / web.publish("train.de", content).path).write_bytes(content)
    assert [german for german, _ in load_translations()[0]["train"]] == ["eins\u2028a", "zwei\x0cb"]


# ---- what stands in


def test_the_generated_reviews_have_the_structure_of_the_real_ones():
    parts = small_reviews()
    assert parts == small_reviews() and {part: len(rows) for part, rows in parts.items()} == {
        "train": 1840,
        "test": 464,
    }
    clauses = {}
    for part, rows in parts.items():
        assert [y for _, y in rows] == sorted(y for _, y in rows) and sum(
            y for _, y in rows
        ) * 2 == len(rows)
        frames = [rows[i : i + 4] for i in range(0, len(rows), 4)]
        clauses[part] = {four[0][0].rstrip(".") for four in frames}
        assert all(
            four[0][0].rstrip(".") in text for four in frames for text, _ in four
        )  # neighbours share the clause
        for text, label in rows:
            good = any(word in text for word in "good great moving clever funny beautiful".split())
            turned = any(
                words in text for words in (" was not ", " is never ", " was anything but ")
            )
            assert label == (good != turned)
    assert not clauses["train"] & clauses["test"] and len(clauses["train"]) == 460


def from_german(words):
    "The number that German words spell, read by another road: the largest unit first."
    if "tausend" in words:
        high, _, low = words.partition("tausend")
        return 1000 * from_german(high) + from_german(low)
    if "hundert" in words:
        high, _, low = words.partition("hundert")
        return 100 * from_german(high) + from_german(low)
    small = {
        "": 0,
        "null": 0,
        "ein": 1,
        "eins": 1,
        "zwei": 2,
        "drei": 3,
        "vier": 4,
        "f\u00fcnf": 5,
        "sechs": 6,
        "sieben": 7,
        "acht": 8,
    }
    small |= {"neun": 9, "zehn": 10, "elf": 11, "zw\u00f6lf": 12, "sechzehn": 16, "siebzehn": 17}
    small |= {word + "zehn": 10 + n for word, n in small.items() if n in (3, 4, 5, 8, 9)}
    tens = {
        "zwanzig": 20,
        "drei\u00dfig": 30,
        "vierzig": 40,
        "f\u00fcnfzig": 50,
        "sechzig": 60,
        "siebzig": 70,
        "achtzig": 80,
        "neunzig": 90,
    }
    ones, und, ten = words.rpartition("und")
    return small[words] if words in small else tens[ten] + small[ones]


def from_english(words):
    "The number that English words spell."
    values = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    values = {word: n for n, word in enumerate(values.split())}
    values |= {
        word: 10 * n
        for n, word in enumerate(
            "twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2
        )
    }
    total = group = 0
    for word in words.replace(" and ", " ").replace("-", " ").split():
        if word == "thousand":
            total, group = 1000 * group, 0
        else:
            group = 100 * group if word == "hundred" else group + values[word]
    return total + group


def test_number_words_are_read_back():
    numbers = [*range(1200), 999_999, *random.Random(1).sample(range(1_000_000), 4000)]
    for n in numbers:
        assert from_german(german_number(n)) == from_english(english_number(n)) == n


def test_no_number_is_in_two_parts():
    parts = number_pairs()
    assert parts == number_pairs() and {part: len(rows) for part, rows in parts.items()} == {
        "train": 9000,
        "valid": 500,
        "test": 500,
    }
    numbers = {part: {from_german(german) for german, _ in rows} for part, rows in parts.items()}
    assert all(
        {from_english(english) for _, english in rows} == numbers[part]
        for part, rows in parts.items()
    )
    assert len(set.union(*numbers.values())) == 10_000 and set(range(100)) <= numbers["train"]


def test_the_help_pages_are_text():
    text = python_prose()
    assert (
        len(text) > 300_000
        and "The standard type hierarchy" in text
        and not {c for c in text if ord(c) < 32} - {"\n", "\t"}
    )


# ---- bad input: every public name


def spoilt_text(content):
    def call(function):
        def run(tmp_path):
            file = tmp_path / "file.txt"
            file.write_bytes(content)
            return function(file)

        return run

    return call


def path_rows(f):
    "What is wrong for every reader of a file."
    return [
        ("no path", lambda tmp: f(3), (TypeError, "file: expected a path", "got int")),
        ("None", lambda tmp: f(None), (TypeError, "file: expected a path", "got NoneType")),
        (
            "no such file",
            lambda tmp: f(tmp / "none"),
            (ValueError, "file: ", "cannot be read: No such file"),
        ),
        ("a folder", lambda tmp: f(tmp), (ValueError, "file: ", "cannot be read")),
        ("no name of a file", lambda tmp: f("\0"), (ValueError, "file: ", "cannot be read")),
        ("empty", spoilt_text(b"")(f), (ValueError, "file: ", "expected text, got an empty file")),
        (
            "blank",
            spoilt_text(b" \r\n\t\n")(f),
            (ValueError, "file: ", "expected text, got an empty file"),
        ),
        (
            "Latin-1",
            spoilt_text("adel\u00e9".encode("latin-1"))(f),
            (ValueError, "file: ", "is not UTF-8 text: byte 4 is 0xe9"),
        ),
        (
            "UTF-16",
            spoilt_text("adel\u0117".encode("utf-16"))(f),
            (ValueError, "file: ", "is not UTF-8 text: byte 0 is 0xff"),
        ),
        (
            "binary",
            spoilt_text(b"a\nb\0c")(f),
            (ValueError, "file: ", "line 2: expected text, got the control character '\\x00'"),
        ),
        (
            "half a zip",
            spoilt_text(gzip.compress(FILE)[:-9])(f),
            (ValueError, "file: ", "is broken, gzip cannot unpack it"),
        ),
        (
            "no zip at all",
            spoilt_text(b"\x1f\x8b and so on")(f),
            (ValueError, "file: ", "is broken, gzip cannot unpack it"),
        ),
    ]


def split_rows():
    share = (ValueError, "held_out: expected a share above 0 and below 0.5")
    return [
        *[
            (
                f"held_out = {x!r}",
                lambda tmp, x=x: split_names(NAMES, held_out=x),
                (*share, f"got {x!r}"),
            )
            for x in (0, 0.5, 1, -0.1, float("nan"), float("inf"), "0.1", None, True)
        ],
        (
            "seed below 0",
            lambda tmp: split_names(NAMES, -1),
            (ValueError, "seed: expected", "got -1"),
        ),
        (
            "seed a float",
            lambda tmp: split_names(NAMES, 0.5),
            (TypeError, "seed: expected", "got 0.5"),
        ),
        (
            "no seed",
            lambda tmp: split_names(NAMES, None),
            (TypeError, "seed: expected", "got None"),
        ),
        (
            "a string",
            lambda tmp: split_names("ona"),
            (TypeError, "names: expected a list of strings", "'ona'"),
        ),
        (
            "a set",
            lambda tmp: split_names({"ona", "rasa", "jonas"}),
            (TypeError, "names: expected a list of strings", "{"),
        ),
        (
            "numbers",
            lambda tmp: split_names([1, 2, 3]),
            (TypeError, "names: expected a list of strings", "[1, 2, 3]"),
        ),
        (
            "none",
            lambda tmp: split_names([]),
            (ValueError, "names: expected enough different names", "got 0"),
        ),
        (
            "the same",
            lambda tmp: split_names(["Ona", "ona"] * 9),
            (ValueError, "names: expected enough different names", "got 1"),
        ),
        (
            "three",
            lambda tmp: split_names(["ona", "rasa", "jonas"]),
            lambda parts: [len(part) for part in parts] == [1, 1, 1],
        ),
    ]


def number_rows(f):
    return [
        (
            "below 0",
            lambda tmp: f(-1),
            (ValueError, "n: expected a whole number of 0 or more", "got -1"),
        ),
        (
            "a million",
            lambda tmp: f(1_000_000),
            (ValueError, "n: expected 0 to 999,999", "got 1,000,000"),
        ),
        ("a float", lambda tmp: f(2.0), (TypeError, "n: expected a whole number", "got 2.0")),
        ("a string", lambda tmp: f("2"), (TypeError, "n: expected a whole number", "got '2'")),
        ("a bool", lambda tmp: f(True), (TypeError, "n: expected a whole number", "got True")),
    ]


TABLE = {
    "Source": [("nothing but a path", lambda tmp: Source("a"), (TypeError, "", "missing"))],
    "resuming": [
        ("no path", lambda tmp: resuming(3), (TypeError, "part: expected a path", "got int"))
    ],
    "fetch": [
        ("a name", lambda tmp: fetch("names"), (TypeError, "source: expected a Source", "'names'")),
        ("None", lambda tmp: fetch(None), (TypeError, "source: expected a Source", "None")),
        (
            "no address",
            lambda tmp: fetch(Source("a/b.txt", "", "0" * 64)),
            (ValueError, "source: a/b.txt is not downloaded", "FORMER_NB_DATA"),
        ),
    ],
    "read_text": path_rows(read_text)
    + [
        (
            "a mark at the start",
            spoilt_text(b"\xef\xbb\xbfa\r\nb")(read_text),
            lambda text: text == "a\nb",
        ),
        (
            "compressed",
            spoilt_text(gzip.compress("z\u0307\n".encode()))(read_text),
            lambda text: text == "\u017c\n",
        ),
    ],
    "read_names": path_rows(read_names)
    + [
        (
            "too few",
            spoilt_text("\n".join(["name", *NAMES[:9] * 2]).encode())(read_names),
            (ValueError, "file: ", "names, one per line, got 9"),
        ),
        (
            "one line",
            spoilt_text(", ".join(NAMES).encode())(read_names),
            (ValueError, "file: ", "line 1: expected a name of at most 100"),
        ),
        (
            "columns",
            spoilt_text(FILE + b"ona\t12\n")(read_names),
            (ValueError, "file: ", "line 676: expected one name, got columns"),
        ),
        (
            "a hundred characters",
            spoilt_text(FILE + b"a" * 100)(read_names),
            lambda names: len(names[-1]) == 100,
        ),
    ],
    "split_names": split_rows(),
    "german_number": number_rows(german_number),
    "english_number": number_rows(english_number),
}
NO_ARGUMENTS = {load.__name__ for load in LOADERS} | {
    "small_reviews",
    "number_pairs",
    "python_prose",
}


def test_every_public_function_is_in_the_table():
    public = {name for name in data_sets.__all__ if callable(getattr(data_sets, name))}
    assert public == set(TABLE) | NO_ARGUMENTS
    assert all(not inspect.signature(getattr(data_sets, name)).parameters for name in NO_ARGUMENTS)


ROWS = [
    pytest.param(call, wanted, id=f"{name}: {what}")
    for name, rows in TABLE.items()
    for what, call, wanted in rows
]


@pytest.mark.parametrize("call, wanted", ROWS)
def test_bad_input(call, wanted, tmp_path, monkeypatch):
    monkeypatch.delenv("FORMER_NB_DATA", raising=False)
    if callable(wanted):
        assert wanted(call(tmp_path))
        return
    kind, start, more = wanted
    with pytest.raises(kind) as error:
        call(tmp_path)
    assert (
        type(error.value) is kind
        and str(error.value).startswith(start)
        and more in str(error.value)
    )
    assert "\n" not in str(error.value)
