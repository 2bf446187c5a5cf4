"""The source of the bytes, and their encoding: raw, hex or base64.

The encoding is not guessed where a wrong guess could go unnoticed. Bytes that are written as text are recognised only
if exactly one encoding gives the wanted structure, as the lengths in a frame prove; otherwise the encoding must be
given.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN = "-"
# A line of `xxd` or `tcpdump -X`, and one of `hexdump -C`: an offset, pairs of digits, the same as text.
NUMBERED = re.compile(r"\s*(?:0x)?[0-9a-f]{4,16}:\s+(?P<digits>(?:[0-9a-f]{2,4}(?: |$))+)(?: .*)?", re.IGNORECASE)
CANONICAL = re.compile(r"[0-9a-f]{6,16}(?:  (?P<digits>(?:[0-9a-f]{2} *)+)\|.*\|)?\s*", re.IGNORECASE)


def read(given: str, encoding: str | None, fits: Callable[[bytes], bool] | None, wanted: str) -> bytes:
    """The bytes that the command line names.

    Args:
        given: `-` for standard input, a file, or hex or base64 itself.
        encoding: `"raw"`, `"hex"`, `"base64"`; None to recognise it.
        fits: Returns whether bytes have the wanted structure; None if nothing in them proves it.
        wanted: What is wanted, for errors.

    Raises:
        ArgumentError: There is no such file, the text is not of the encoding, or the encoding must be given.
    """
    if given == STDIN:
        content, name, literal = sys.stdin.buffer.read(), "standard input", False
    elif _is_readable(given):
        content, name, literal = Path(given).read_bytes(), given, False
    else:
        content, name, literal = os.fsencode(given), _short(given), True
    ways = _ways(content, literal=literal)
    if encoding is not None:
        if encoding not in ways:
            raise ArgumentError(
                f"there is no file {name}, and it is not {encoding} either" if literal else f"{name} is not {encoding}"
            )
        return ways[encoding]
    if not literal and len(set(ways.values())) == 1:
        return content
    fitting = [way for way, data in ways.items() if fits is not None and fits(data)]
    if len(fitting) == 1:
        return ways[fitting[0]]
    flags = " or ".join(f"--{way}" for way in fitting or ways)
    if literal:
        raise ArgumentError(
            f"there is no file {name}" + (f"; if it is the bytes themselves, add {flags}" if ways else "")
        )
    why = "could be read in several ways" if fitting or fits is None else f"is not {wanted} in any way of reading it"
    raise ArgumentError(f"{name} {why}: add {flags}")


def text(given: str, encoding: str | None, name: str) -> bytes:
    """The bytes of an argument that is hex or base64 itself.

    Raises:
        ArgumentError: It is neither, or it could be both and the encoding was not given.
    """
    ways = _ways(os.fsencode(given), literal=True)
    if encoding is not None:
        ways = {way: data for way, data in ways.items() if way == encoding}
    if not ways:
        raise ArgumentError(f"{name} is not {encoding or 'hex or base64'}: {_short(given)}")
    if len(set(ways.values())) > 1:
        raise ArgumentError(f"{name} could be read in several ways: add --hex or --base64")
    return next(iter(ways.values()))


def _is_readable(given: str) -> bool:
    """Whether it names a file or a pipe."""
    # Path raises for what is too long for any name, as hex may be.
    return os.path.exists(given) and not os.path.isdir(given)  # noqa: PTH110, PTH112


def _ways(content: bytes, *, literal: bool) -> dict[str, bytes]:
    """Every way to read the content, with the bytes that come of it."""
    ways = {} if literal else {"raw": content}
    try:
        written = content.decode("ascii")
    except UnicodeDecodeError:
        return ways
    for way, of in (("hex", _of_hex), ("base64", _of_base64)):
        data = of(written)
        if data is not None:
            ways[way] = data
    return ways


def _of_hex(written: str) -> bytes | None:
    """The bytes of hex digits with any white space between them, or of a dump with offsets."""
    lines = [line for line in written.splitlines() if line.strip()]
    for dump in (NUMBERED, CANONICAL):
        found = [dump.fullmatch(line) for line in lines]
        if found and all(found) and any(match and match["digits"] for match in found):
            lines = [match["digits"] or "" for match in found if match]
            break
    digits = "".join("".join(lines).split()).removeprefix("0x")
    # fromhex alone would take other white space than this.
    return bytes.fromhex(digits) if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", digits) else None


def _of_base64(written: str) -> bytes | None:
    """The bytes of base64, the url-safe alphabet too, with any white space between."""
    letters = "".join(written.split()).translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(letters, validate=True)
    except ValueError:
        return None


def _short(given: str) -> str:
    return repr(given if len(given) <= 40 else given[:37] + "...")
