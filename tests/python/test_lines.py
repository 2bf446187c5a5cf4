"""Lines of a file, split in Rust as they are read: `ottla produce` sends them without an object each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla import _ottla

PIECES = st.lists(st.text(alphabet="ab\r\n", max_size=40).map(str.encode), max_size=6)
LONG = b"x" * 13  # too long to be part of a view


def split(*pieces: bytes) -> list[bytes]:
    splitter = _ottla.LineSplitter()
    found = [splitter.split(piece) for piece in pieces] + [splitter.finish()]
    return [line for lines in found if lines is not None for line in lines.to_list()]


def expected(text: bytes) -> list[bytes]:
    *whole, last = text.split(b"\n")
    return [line.removesuffix(b"\r") for line in whole] + ([last] if last else [])


@given(PIECES)
def test_lines_do_not_depend_on_how_they_were_read(pieces):
    assert split(*pieces) == expected(b"".join(pieces))


def test_lines_outlive_the_bytes_that_they_are_views_of():
    splitter = _ottla.LineSplitter()
    lines = splitter.split(b"".join([LONG, b"\n", b"short\n", LONG]))
    splitter.split(b"y" * 100 + b"\n")
    assert (lines.to_list(), len(lines), lines.longest) == ([LONG, b"short"], 2, 13)


def test_a_carriage_return_at_the_end_of_a_file_belongs_to_its_line():
    assert split(LONG, b"\r") == [LONG + b"\r"]
    assert split(LONG + b"\r", b"\n") == [LONG]
    assert split() == split(b"") == []
