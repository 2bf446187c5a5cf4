"""Compress the files of wheels as far as DEFLATE allows, by libdeflate at its highest level.

Names, order, times, modes and contents stay, so the hashes in RECORD do too. maturin leaves the wheel 5 % larger.
Usage: compress_wheel.py WHEEL...
"""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import deflate

LEVEL = 12
# The parts of the format before names (PKWARE's APPNOTE.TXT): of a file, of its line in the directory, and the end.
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
VERSION = 20
# The name is UTF-8.
UTF8 = 0x800
# The most that the format holds without its extension for large archives.
MOST_FILES, MOST_BYTES = 0xFFFF, 0xFFFFFFFF


def compressed(archive: zipfile.ZipFile) -> bytes:
    """The archive with every file compressed again."""
    out, directory = bytearray(), bytearray()
    files = archive.infolist()
    for info in files:
        data = archive.read(info)
        method, body = zipfile.ZIP_DEFLATED, bytes(deflate.deflate_compress(data, LEVEL))
        if len(body) >= len(data):
            method, body = zipfile.ZIP_STORED, data
        year, month, day, hour, minute, second = info.date_time
        time = hour << 11 | minute << 5 | second // 2
        date = year - 1980 << 9 | month << 5 | day
        name = info.filename.encode()
        facts = (VERSION, UTF8, method, time, date, info.CRC, len(body), len(data), len(name), 0)
        made_by = info.create_system << 8 | VERSION
        attributes = (0, 0, 0, info.external_attr, len(out))
        directory += CENTRAL.pack(b"PK\1\2", made_by, *facts, *attributes) + name
        out += LOCAL.pack(b"PK\3\4", *facts) + name + body
    if len(files) > MOST_FILES or len(out) > MOST_BYTES:
        raise ValueError("the wheel is too large for a plain zip archive")
    end = END.pack(b"PK\5\6", 0, 0, len(files), len(files), len(directory), len(out), 0)
    return bytes(out + directory + end)


def compress(wheel: Path) -> None:
    """Replace a wheel by the smaller one."""
    with zipfile.ZipFile(wheel) as archive:
        before = {info.filename: info.CRC for info in archive.infolist()}
        data = compressed(archive)
    made = wheel.with_suffix(".smaller")
    made.write_bytes(data)
    with zipfile.ZipFile(made) as archive:
        after = {info.filename: info.CRC for info in archive.infolist()}
        if archive.testzip() is not None or before != after:
            raise ValueError(f"{made} does not hold what {wheel} does")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, compressed again {len(data):,}")
    made.replace(wheel)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        compress(Path(argument))
