"""`ottla decode` prints bytes of the protocol, of logs and of internal topics readably."""

from __future__ import annotations

import difflib
import io
import re
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ottla.cli import arguments, streams
from ottla.errors import ArgumentError, CorruptRecordError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ottla import protocol

# What a broker's data folder has: a segment at work, one on its way out, a snapshot of KRaft's metadata.
SEGMENT_NAME = re.compile(r".*\.(?:log|checkpoint)(?:\.(?:deleted|cleaned|swap|part))?")
PARTITION_FOLDER = re.compile(r"(?P<topic>.+)-\d+(?:\.[0-9a-f]{32}-delete)?")


# What else is there, by the ends of their names.
NEIGHBOURS = {
    "index": "an index of a segment by offset",
    "timeindex": "an index of a segment by time",
    "txnindex": "an index of a segment's aborted transactions",
    "snapshot": "what a broker knows of a partition's producers",
}
NEIGHBOUR_NAME = re.compile(r"(?P<segment>\d+)\.(?P<kind>[a-z]+)(?:\.(?:deleted|cleaned|swap))?")
TEXT_NAME = re.compile(r"[a-z-]+-checkpoint|partition\.metadata|meta\.properties|quorum-state")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "decode",
        "print the bytes of a request, a response, a message, records or a log in readable form",
        """
        ottla decode request.bin                                       # a request contains its API and version
        ottla decode --response --api Fetch --version 4 response.bin   # a response does not
        ottla decode 0000000f001200000000000700056f74746c61           # hex, or base64, in place of a file
        xxd request.bin | ottla decode                                 # dumps with offsets are hex, too
        ottla decode --message OffsetCommitKey --version 0 --base64 AAJnMQABdAAAAAA=
        ottla decode --records batches.bin

        ottla decode data/orders-0/00000000000000000000.log
        ottla decode --skip-damaged data/orders-0/00000000000000000000.log > orders.txt
        ottla decode --format json data/orders-0/00000000000000000000.log | jq '.records[].value'

        ottla decode data/__consumer_offsets-12/00000000000000000000.log
        ottla decode --topic __consumer_offsets --hex --key 00010002673100017400000000
        """,
    )
    parser.add_argument(
        "source",
        nargs="?",
        metavar="INPUT",
        help="a file, - for standard input (the default), or hex or base64 itself where no file has that name",
    )

    what = parser.add_argument_group(
        "what it is", "without any of these: a log segment if INPUT is named so (.log, .checkpoint), otherwise requests"
    ).add_mutually_exclusive_group()
    what.add_argument("--request", action="store_true", help="frames of requests, one after another")
    what.add_argument("--response", action="store_true", help="frames of responses; needs --api and --version")
    what.add_argument(
        "--message", metavar="NAME", help="a message without a header, as MetadataResponse; needs --version"
    )
    what.add_argument("--records", action="store_true", help="record batches or message sets, as in a Fetch response")
    what.add_argument("--segment", action="store_true", help="a log segment")

    details = parser.add_argument_group("details of it")
    details.add_argument("--api", metavar="NAME", help="API of a response, by name or number")
    details.add_argument(
        "--version", type=arguments.number(2**15 - 1), metavar="N", help="version of a response or message"
    )
    details.add_argument(
        "--topic", metavar="NAME", help="topic of a segment or record, if the folder's name does not contain it"
    )
    details.add_argument("--key", metavar="BYTES", help="key of a record of an internal topic, as hex or base64")
    details.add_argument("--value", metavar="BYTES", help="its value; without it the record removes the key")

    written = parser.add_argument_group(
        "how its bytes are written",
        "recognised where lengths inside of it prove it; segments are raw by default",
    ).add_mutually_exclusive_group()
    for encoding, text in (
        ("raw", "as they are"),
        (
            "hex",
            "as hex digits, white space between them does not matter, or as xxd, hexdump -C, tcpdump -X print them",
        ),
        ("base64", "as base64"),
    ):
        written.add_argument(f"--{encoding}", dest="encoding", action="store_const", const=encoding, help=text)

    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="text: indented lines; json: an object on a line for each frame, message or batch (default: %(default)s)",
    )
    output.add_argument(
        "--max-bytes",
        type=arguments.number(2**31 - 1),
        default=200,
        metavar="N",
        help="how many bytes of a value text shows, 0 for all (default: %(default)s)",
    )
    output.add_argument("--skip-damaged", action="store_true", help="report damaged parts of a segment and skip them")
    output.add_argument("--no-crc", action="store_true", help="do not look at the checksums of records")
    parser.set_defaults(run=_decode)


def _decode(options: argparse.Namespace) -> None:
    _check(options)
    _refuse_neighbours(options)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # For any encoding of the terminal: JSON is UTF-8, and text escapes letters that the
        # encoding lacks.
        sys.stdout.reconfigure(encoding="utf-8" if options.format == "json" else None, errors="backslashreplace")
    sys.stdout.writelines(line + "\n" for line in _lines(options))


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not go together, before anything is read."""
    if options.response and (options.api is None or options.version is None):
        raise ArgumentError("a response does not contain its API and version: add --api NAME --version N")
    if options.api is not None and not options.response:
        raise ArgumentError("--api is for --response: a request contains its API")
    if options.message is not None and options.version is None:
        raise ArgumentError("a message does not contain its version: add --version N")
    if options.version is not None and not (options.response or options.message):
        raise ArgumentError("--version is for --response and --message")
    if options.key is not None or options.value is not None:
        if options.topic is None:
            raise ArgumentError("--key and --value are of an internal topic: add --topic NAME")
        if (
            options.source
            or options.request
            or options.response
            or options.message
            or options.records
            or options.segment
        ):
            raise ArgumentError("--key and --value are a record of their own: leave INPUT and what it is away")
    elif options.topic is not None and not _is_segment(options):
        raise ArgumentError("--topic is for a segment, or for --key and --value")


def _refuse_neighbours(options: argparse.Namespace) -> None:
    """Raise for the files next to segments, which hold neither records nor frames."""
    if options.source is None or options.request or options.response or options.message or options.records:
        return
    path = Path(options.source)
    found = NEIGHBOUR_NAME.fullmatch(path.name)
    if found and found["kind"] in NEIGHBOURS and path.is_file():
        what = NEIGHBOURS[found["kind"]]
        raise ArgumentError(
            f"{path} is {what}, and holds no records: decode the segment {path.with_name(found['segment'] + '.log')}"
        )
    if TEXT_NAME.fullmatch(path.name) and path.is_file():
        raise ArgumentError(f"{path} is a text of the broker's, and holds no records: read it as it is")


def _is_segment(options: argparse.Namespace) -> bool:
    if options.segment:
        return True
    if options.request or options.response or options.message or options.records or options.source is None:
        return False
    return SEGMENT_NAME.fullmatch(Path(options.source).name) is not None


def _lines(options: argparse.Namespace) -> Iterator[str]:
    if options.key is not None or options.value is not None:
        return _record(options)
    if _is_segment(options):
        return _segment(options)
    if options.records:
        return _batches(options)
    if options.message is not None:
        return _message(options)
    return _frames(options)


def _read(options: argparse.Namespace, fits: Any, wanted: str) -> bytes:
    from ottla.cli.decode import source

    return source.read(source.STDIN if options.source is None else options.source, options.encoding, fits, wanted)


# --- frames and messages ---


def _frames(options: argparse.Namespace) -> Iterator[str]:
    from ottla import protocol
    from ottla.cli.decode import objects, text, view

    response_to = (_api(options.api), options.version) if options.response else None
    wanted = "a frame" if options.response else "a request"
    data = _read(options, lambda data: data != b"" and all(length is not None for _, length in _cut(data)), wanted)
    for start, length in _cut(data):
        # The decoder reports a length that does not match the bytes.
        frame = protocol.decode_frame(
            data[start:] if length is None else data[start : start + length], response_to=response_to
        )
        kind = "response" if options.response else "request"
        fields = view.message(frame.message)
        if options.format == "json":
            about = {
                "api": frame.api,
                "kind": kind,
                "version": frame.version,
                "correlationId": frame.correlation_id,
                **({} if options.response else {"clientId": frame.client_id}),
                "message": fields,
            }
            yield objects.line(about)
            continue
        client = (
            ""
            if options.response
            else f", client id {text.quoted(frame.client_id) if frame.client_id is not None else 'null'}"
        )
        title = f"{frame.api} {kind}, version {frame.version}, correlation id {frame.correlation_id}{client}"
        yield from text.Text(options.max_bytes).frame(title, fields)


def _cut(data: bytes) -> Iterator[tuple[int, int | None]]:
    """Where frames begin and how long they are, including the length in front; None for one that is not whole."""
    at = 0
    while at < len(data) or at == 0:
        length = struct.unpack_from(">i", data, at)[0] if len(data) - at >= 4 else -1
        if length < 0 or length > len(data) - at - 4:
            yield at, None
            return
        yield at, 4 + length
        at += 4 + length


def _message(options: argparse.Namespace) -> Iterator[str]:
    from ottla import protocol
    from ottla.cli.decode import objects, text, view

    name = _nearest(options.message, protocol.MESSAGES, "message")
    data = _read(options, None, f"a {name}")
    fields = view.message(protocol.decode(name, options.version, data))
    if options.format == "json":
        yield objects.line({"name": name, "version": options.version, "message": fields})
    else:
        yield from text.Text(options.max_bytes).frame(f"{name} version {options.version}", fields)


def _api(given: str) -> str:
    from ottla import protocol

    if given.isdecimal():
        for api in protocol.APIS.values():
            if api.key == int(given):
                return api.name
        raise ArgumentError(f"no API has the number {given}")
    return _nearest(given, protocol.APIS, "API")


def _nearest(given: str, names: Iterable[str], what: str) -> str:
    """The name in its own spelling, for a name in any letter case."""
    known = {name.lower(): name for name in names}
    if given.lower() in known:
        return known[given.lower()]
    near = difflib.get_close_matches(given.lower(), known, n=1)
    hint = f": did you mean {known[near[0]]}?" if near else ""
    raise ArgumentError(f"no {what} is named {given!r}{hint}")


# --- records ---


def _batches(options: argparse.Namespace) -> Iterator[str]:
    from ottla import protocol

    data = _read(options, _holds_records, "a record batch")
    at = 0
    for batch in protocol.decode_records(data, check_crcs=not options.no_crc):
        yield from _batch(options, batch, at, None)
        at += batch.size
    if at < len(data):
        streams.print_error(f"ottla: {len(data) - at} bytes after the last whole batch, at {at}")


def _holds_records(data: bytes) -> bool:
    """Whether the first entry is whole and has a magic that exists."""
    if len(data) < 17:
        return False
    (size,) = struct.unpack_from(">i", data, 8)
    return 14 <= size <= len(data) - 12 and data[16] <= 2


def _segment(options: argparse.Namespace) -> Iterator[str]:
    from ottla import protocol
    from ottla.cli.decode import source
    from ottla.cli.progress import Progress

    given = source.STDIN if options.source is None else options.source
    topic = options.topic or _topic_of(given)
    if topic not in protocol.INTERNAL_TOPICS:
        topic = None

    def report(damage: protocol.Damage) -> None:
        progress.clear()
        streams.print_error(f"ottla: {name}: {damage}; skipped")

    name, file, size = _open_segment(given, options.encoding)
    progress = Progress(size)
    on_damage = report if options.skip_damaged else None
    try:
        for batch in protocol.read_segment(file, on_damage=on_damage, check_crcs=not options.no_crc):
            yield from _batch(options, batch, batch.position, topic)
            progress.at(batch.position + batch.size)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"{name}: {error}; --skip-damaged skips it") from error
    finally:
        progress.clear()


def _open_segment(given: str, encoding: str | None) -> tuple[str, str | BinaryIO, int | None]:
    """What to call the segment, what to read it from, and its size where that is known."""
    from ottla.cli.decode import source

    if encoding not in (None, "raw"):
        data = source.read(given, encoding, None, "a segment")
        return given, io.BytesIO(data), len(data)
    if given == source.STDIN:
        return "standard input", sys.stdin.buffer, None
    return given, given, Path(given).stat().st_size


def _topic_of(given: str) -> str | None:
    """The topic of the folder that a segment is in."""
    found = PARTITION_FOLDER.fullmatch(Path(given).absolute().parent.name)
    return found["topic"] if found else None


def _batch(options: argparse.Namespace, batch: protocol.RecordBatch, position: int, topic: str | None) -> Iterator[str]:
    from ottla.cli.decode import objects, text, view

    shown = view.batch(batch, position, topic)
    if options.format == "json":
        yield objects.line(shown)
    else:
        yield from text.Text(options.max_bytes).batch(shown)


def _record(options: argparse.Namespace) -> Iterator[str]:
    from ottla import protocol
    from ottla.cli.decode import objects, source, text, view

    key, value = (
        None if given is None else source.text(given, options.encoding, name)
        for name, given in (("--key", options.key), ("--value", options.value))
    )
    kind, key_view, value_view = view.internal(protocol.decode_internal(options.topic, key, value))
    if options.format == "json":
        yield objects.line({"type": kind, "key": key_view, "value": value_view})
    else:
        yield from text.Text(options.max_bytes).record(kind, key_view, value_view)
