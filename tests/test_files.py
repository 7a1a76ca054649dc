"""Files of text, and of one name on each line: what is read, and what is refused by its name."""

import gzip

import pytest
from refusals import every_row, refuses

from former_nb.base.files import read_names, read_text
from former_nb.data.data_sets import (
    load_names,
)

NAMES = load_names()[0][::10]
FILE = ("name\n" + "\n".join(NAMES) + "\n").encode()


def a_file(content, tmp):
    (tmp / "f").write_bytes(content)
    return tmp / "f"


BAD_FILES = [
    (b"", "empty"),
    (b" \r\n\t\n", "empty"),
    ("adel\u00e9".encode("latin-1"), "byte 0xe9 in position 4 of line 1"),
    ("adel\u0117".encode("utf-16"), "UTF-16"),
    (b"a\nb\0c", "line 2"),
    (gzip.compress(FILE, mtime=0)[:-9], "ended"),
    (b"\x1f\x8b and so on", "method"),
]
BAD_NAMES = [
    ("\n".join(["name", *NAMES[:9] * 2]).encode(), "9"),
    (", ".join(NAMES).encode(), NAMES[0]),
    (FILE + b"ona\t12\n", "ona"),
]


@pytest.mark.parametrize(
    ("read", "content", "came"),
    [
        *((read_text, *row) for row in BAD_FILES),
        *((read_names, *row) for row in BAD_FILES + BAD_NAMES),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, read, content, came):
    refuses(lambda: read(a_file(content, tmp_path)), ValueError, "file", came)


def test_good_files(tmp_path):
    assert read_text(a_file(b"\xef\xbb\xbfa\r\nb", tmp_path)) == "a\nb"
    assert read_text(a_file(gzip.compress("z\u0307\n".encode(), mtime=0), tmp_path)) == "\u017c\n"
    odd = "one\x85more\nan\x1bother\n"  # a character that others take for a line end
    assert read_text(a_file(odd.encode(), tmp_path)) == odd
    assert len(read_names(a_file(FILE + b"a" * 100, tmp_path))[-1]) == 100


BAD = [
    ("no path", lambda: read_text(3), TypeError, "file"),
    ("no file", lambda: read_text("/no/such/file"), ValueError, "file"),
    ("a folder", lambda: read_text("/"), ValueError, "file"),
    ("no name", lambda: read_text("\0"), ValueError, "file"),
    ("no file of names", lambda: read_names("/no/such/file"), ValueError, "file"),
]
test_bad_input_is_named = every_row(BAD)
