"""Where the names come from: a folder, a download that is checked, or the list in the package."""
import hashlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from former_nb import text

FILE = ("name\n" + "\n".join(text.NAMES[:40]) + "\n").encode()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path, monkeypatch):
    "A server on this machine in place of the real one, an empty cache, and no data folder."
    served = tmp_path / "served"
    served.mkdir()
    (served / "vardai.csv").write_bytes(FILE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(text, "NAMES_URL", f"http://127.0.0.1:{server.server_port}/vardai.csv")
    monkeypatch.setattr(text, "NAMES_SHA256", hashlib.sha256(FILE).hexdigest())
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    monkeypatch.delenv("FORMER_NB_DATA", raising=False)
    yield served
    server.shutdown()
    server.server_close()


def test_a_download_is_checked_and_kept(web):
    names, source = text.load_names()
    assert names == text.NAMES[:40] and "downloaded and checked" in source
    (web / "vardai.csv").unlink()
    assert text.load_names()[0] == names  # from the cache


def test_what_is_not_the_published_file_is_not_used(web, tmp_path):
    (web / "vardai.csv").write_bytes(FILE[:-20])
    names, source = text.load_names()
    assert names == text.NAMES and "not the published file" in source
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]  # nothing half-good is kept


def test_without_a_network_the_packages_list_serves(web):
    text.NAMES_URL = "http://127.0.0.1:9/vardai.csv"  # put back by the fixture
    names, source = text.load_names()
    assert names == text.NAMES and "no download" in source


def test_a_folder_takes_the_place_of_the_download(web, tmp_path, monkeypatch):
    monkeypatch.setenv("FORMER_NB_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="FORMER_NB_DATA.*names/vardai.csv"):
        text.load_names()
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "vardai.csv").write_bytes(FILE)
    names, source = text.load_names()
    assert names == text.NAMES[:40] and "FORMER_NB_DATA" in source
    (tmp_path / "names" / "vardai.csv").write_bytes(FILE + b"x")
    with pytest.raises(ValueError, match="not the published file"):
        text.load_names()


@pytest.mark.skipif(not Path(os.environ.get("FORMER_NB_DATA") or "none", "names").is_dir(), reason="FORMER_NB_DATA has no names")
def test_the_real_names():
    names, source = text.load_names()
    assert len(names) == 6185 and "6,185" in source
