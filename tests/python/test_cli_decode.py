"""`ottla decode`, as a user starts it."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ottla import protocol
from ottla.cli.decode import source, text
from ottla.errors import ArgumentError
from tests.pace import patience

REQUEST = bytes.fromhex("0000000f 0012 0000 00000007 0005 6f74746c61")
SHOWN = 'ApiVersions request, version 0, correlation id 7, client id "ottla"\n  (no fields)\n'
XXD = """\
00000000: 0000 000f 0012 0000 0000 0007 0005 6f74  ..............ot
00000010: 746c 61                                  tla
"""
HEXDUMP = """\
00000000  00 00 00 0f 00 12 00 00  00 00 00 07 00 05 6f 74  |..............ot|
00000010  74 6c 61                                          |tla|
00000013
"""
TCPDUMP = """\
\t0x0000:  0000 000f 0012 0000 0000 0007 0005 6f74  ..............ot
\t0x0010:  746c 61                                  tla
"""

# Seconds that a command may take.
DEADLINE = patience(30)


def decode(*arguments, data=None, timeout=DEADLINE):
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "decode", *(a if isinstance(a, bytes) else str(a) for a in arguments)],
        input=data,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def failure(*arguments, data=None):
    """The one line that says what is wrong."""
    code, _, err = decode(*arguments, data=data)
    assert code == 1, err
    assert err.startswith("ottla: ")
    assert err.count("\n") == 1, err
    return err


# --- how bytes are written ---


@pytest.mark.parametrize(
    "written",
    [
        REQUEST.hex(),
        REQUEST.hex(" "),
        REQUEST.hex("\n", 4),
        REQUEST.hex().upper(),
        "0x" + REQUEST.hex(),
        base64.b64encode(REQUEST).decode(),
        base64.urlsafe_b64encode(REQUEST).decode(),
        base64.encodebytes(REQUEST).decode(),
        XXD,
        HEXDUMP,
        TCPDUMP,
    ],
)
def test_a_frame_proves_how_it_is_written(written, tmp_path):
    def fits(data):
        return data == REQUEST

    path = tmp_path / "frame"
    path.write_text(written)
    assert source.read(str(path), None, fits, "a request") == REQUEST
    assert source.read(written, None, fits, "a request") == REQUEST
    path.write_bytes(REQUEST)
    assert source.read(str(path), None, fits, "a request") == REQUEST


@pytest.mark.parametrize("written", ["AAAA", "deadbeef", "00000000"])
def test_what_nothing_proves_must_be_said(written, tmp_path):
    """`AAAA` is two bytes of hex, three of base64, or four letters."""
    path = tmp_path / "message"
    path.write_text(written)
    with pytest.raises(ArgumentError, match="--raw or --hex or --base64"):
        source.read(str(path), None, None, "a message")
    with pytest.raises(ArgumentError, match="--hex or --base64"):
        source.read(written, None, None, "a message")
    assert source.read(str(path), "raw", None, "a message") == written.encode()
    assert source.read(str(path), "hex", None, "a message") == bytes.fromhex(written)
    assert source.read(written, "base64", None, "a message") == base64.b64decode(written)


def test_bytes_that_are_no_text_are_raw(tmp_path):
    path = tmp_path / "message"
    path.write_bytes(b"\x00\x01\xff")
    assert source.read(str(path), None, None, "a message") == b"\x00\x01\xff"


@pytest.mark.parametrize(
    ("given", "encoding", "message"),
    [
        ("no/such-file.bin", None, "there is no file 'no/such-file.bin'$"),
        ("no/such/file", None, "there is no file 'no/such/file'; if it is the bytes themselves, add --base64"),
        ("012", "hex", "it is not hex either"),
        ("0 1 zz", "hex", "it is not hex either"),
        ("AAA", "base64", "it is not base64 either"),
        ("0000", "raw", "there is no file"),
    ],
)
def test_text_that_is_nothing_is_refused(given, encoding, message):
    with pytest.raises(ArgumentError, match=message):
        source.read(given, encoding, None, "a message")


# --- frames and messages ---


@pytest.mark.parametrize("written", [REQUEST.hex(), XXD, HEXDUMP, base64.b64encode(REQUEST).decode()])
def test_requests(written, tmp_path):
    assert decode(data=written.encode()) == (0, SHOWN, "")
    assert decode(written) == (0, SHOWN, "")
    path = tmp_path / "request.bin"
    path.write_bytes(REQUEST * 2)
    assert decode(path) == (0, SHOWN * 2, "")
    code, out, err = decode("--format", "json", "-", data=REQUEST)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "api": "ApiVersions",
        "kind": "request",
        "version": 0,
        "correlationId": 7,
        "clientId": "ottla",
        "message": {},
    }


def test_hex_longer_than_the_name_of_any_file():
    frame = protocol.encode_request("ApiVersions", 0, {}, client_id="x" * 3000)
    for written in (frame.hex(), base64.b64encode(frame).decode()):
        assert decode(written) == (0, SHOWN.replace("id 7", "id 0").replace("ottla", "x" * 3000), "")


def test_a_pipe_with_a_name(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[REQUEST], daemon=True)
    writer.start()
    assert decode(pipe) == (0, SHOWN, "")
    writer.join(10)


def test_nothing_is_no_frame(tmp_path):
    nothing = tmp_path / "nothing"
    nothing.touch()
    assert failure(nothing) == "ottla: frame: 4 bytes of length wanted, 0 there\n"
    assert "there is no file ''" in failure("", data=REQUEST)
    assert decode("--message", "ApiVersionsRequest", "--version", 0, nothing)[0] == 0


def test_letters_that_the_terminal_lacks(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    frame = protocol.encode_request("ApiVersions", 0, {}, client_id="é€")
    assert decode(frame.hex())[1].startswith(
        r'ApiVersions request, version 0, correlation id 0, client id "\xe9\u20ac"'
    )
    assert json.loads(decode("--format", "json", frame.hex())[1])["clientId"] == "é€"


def batch(value, key=b"k", timestamp=1_700_000_000_000, *, offset=0, compression=0, headers=()):
    """A batch as aiokafka writes it."""
    state = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "batch_size": 2**20}
    builder = DefaultRecordBatchBuilder(2, compression_type=compression, is_transactional=0, **state)
    assert builder.append(0, timestamp, key, value, headers=list(headers))
    return struct.pack(">q", offset) + bytes(builder.build())[8:]


def test_a_response_with_records_and_errors(tmp_path):
    records = batch(b"the value", offset=5, compression=1, headers=[("h", b"\xff")])
    response = {
        "throttleTimeMs": 3,
        "responses": [
            {
                "topic": "orders",
                "partitions": [
                    {"partitionIndex": 0, "errorCode": 0, "highWatermark": 6, "records": records + records[:20]},
                    {"partitionIndex": 1, "errorCode": 6, "highWatermark": -1, "records": b"\xff" * 30},
                ],
            }
        ],
    }
    path = tmp_path / "response.bin"
    path.write_bytes(protocol.encode_response("Fetch", 4, response, correlation_id=9))
    flags = ("--response", "--api", "fetch", "--version", "4", path)
    code, out, err = decode(*flags)
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "Fetch response, version 4, correlation id 9"
    assert "errorCode: 0 (NONE)" in lines
    assert "errorCode: 6 (NOT_LEADER_OR_FOLLOWER)" in lines
    assert '5  2023-11-14T22:13:20.000Z  key "k"  value "the value"  headers {"h": 0xff}' in lines
    assert any(line.startswith("batch at 0: offset 5, 1 record, ") and "gzip" in line for line in lines)
    assert "20 bytes left: cut short, as a fetch may" in lines
    assert any(line.startswith("30 bytes left: at byte 0: ") for line in lines)

    code, out, err = decode(*flags, "--format", "json")
    assert (code, err) == (0, "")
    partitions = json.loads(out)["message"]["responses"][0]["partitions"]
    record = partitions[0]["records"][0]["records"][0]
    assert record == {
        "offset": 5,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "the value",
        "headers": [["h", {"base64": "/w=="}]],
    }
    assert partitions[0]["records"][1]["reason"].startswith("cut short")
    assert "at byte 0" in partitions[1]["records"][0]["reason"]
    assert decode("--response", "--api", "1", "--version", "4", path)[0] == 0, "an API by its number"


def test_records_before_damage_are_shown():
    good = batch(b"good")
    bad = bytearray(batch(b"bad", offset=1))
    bad[-2] ^= 1
    response = {"responses": [{"topic": "t", "partitions": [{"records": good + bytes(bad) + good}]}]}
    frame = protocol.encode_response("Fetch", 4, response).hex()
    code, out, err = decode("--response", "--api", "Fetch", "--version", 4, frame)
    assert (code, err) == (0, "")
    shown = [line.strip() for line in out.splitlines()]
    assert sum(line.startswith("batch at ") for line in shown) == 1
    assert any(line.endswith('value "good"') for line in shown)
    left = len(bad) + len(good)
    assert any(line.startswith(f"{left} bytes left: at byte {len(good)}: ") and "CRC" in line for line in shown)


def test_a_message_says_times_names_and_bytes():
    data = protocol.encode(
        "ApiVersionsResponse", 0, {"errorCode": 35, "apiKeys": [{"apiKey": 3, "minVersion": 0, "maxVersion": 13}]}
    )
    code, out, _ = decode("--message", "apiversionsresponse", "--version", "0", "--hex", data.hex())
    assert code == 0
    assert out.splitlines() == [
        "ApiVersionsResponse version 0",
        "  errorCode: 35 (UNSUPPORTED_VERSION)",
        "  apiKeys:",
        "  - apiKey: 3 (Metadata)",
        "    minVersion: 0",
        "    maxVersion: 13",
    ]
    topic = uuid.UUID(bytes=bytes(range(16)))
    data = protocol.encode("TopicRecord", 0, {"name": "t\x1b[31m", "topicId": topic})
    code, out, _ = decode("--message", "TopicRecord", "--version", "0", "--base64", base64.b64encode(data).decode())
    assert code == 0
    assert '  name: "t\\u001b[31m"' in out.splitlines(), "no terminal is told anything by what is decoded"
    assert "  topicId: AAECAwQFBgcICQoLDA0ODw" in out.splitlines()


def test_what_consumers_tell_each_other_is_decoded():
    subscription = b"\0\0" + protocol.encode(
        "ConsumerProtocolSubscription", 0, {"topics": ["orders"], "userData": None}
    )
    join = {
        "groupId": "g",
        "sessionTimeoutMs": 1,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}, {"name": "odd", "metadata": b"\0\0odd"}],
    }
    code, out, err = decode(protocol.encode_request("JoinGroup", 0, join).hex())
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert "metadata: ConsumerProtocolSubscription version 0" in lines
    assert 'topics: ["orders"]' in lines
    assert "metadata: 0x00006f6464" in lines
    other = protocol.encode_request("JoinGroup", 0, {**join, "protocolType": "connect"})
    assert "ConsumerProtocol" not in decode(other.hex())[1]


def test_a_record_of_an_internal_topic():
    key, value = "00010002673100017400000000", "00030000000000000007ffffffff00000000018bcfe56800"
    given = ("--topic", "__consumer_offsets", "--hex", "--key", key)
    code, out, err = decode(*given, "--value", value)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "OffsetCommit",
        "  key: OffsetCommitKey version 0",
        '    group: "g1"',
        '    topic: "t"',
        "    partition: 0",
        "  value: OffsetCommitValue version 3",
        "    offset: 7",
        "    leaderEpoch: -1",
        '    metadata: ""',
        "    commitTimestamp: 1700000000000 (2023-11-14T22:13:20.000Z)",
    ]
    assert decode(*given)[1].splitlines()[-1] == "  value: null"
    shown = json.loads(decode(*given, "--format", "json")[1])
    assert shown["key"]["data"] == {"group": "g1", "topic": "t", "partition": 0}
    assert shown["value"] is None
    unknown = decode("--topic", "__consumer_offsets", "--hex", "--key", "7fff61", "--value", "000162")[1]
    assert unknown.splitlines() == ["type 32767", '  key: unknown version 0: "a"', '  value: unknown version 1: "b"']


# --- segments ---


@pytest.fixture
def segment(tmp_path):
    """Three batches in a folder that is named as a broker names it."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    batches = [batch(f"value {i}".encode(), offset=i) for i in range(3)]
    path.write_bytes(b"".join(batches))
    return path


def test_a_segment(segment):
    code, out, err = decode(segment)
    assert (code, err) == (0, "")
    assert [line.split("  ")[-1] for line in out.splitlines()[1::2]] == [f'value "value {i}"' for i in range(3)]
    code, out, err = decode("--format", "json", segment)
    assert (code, err) == (0, "")
    batches = [json.loads(line) for line in out.splitlines()]
    assert [batch["baseOffset"] for batch in batches] == [0, 1, 2]
    assert [batch["position"] for batch in batches] == [0, *(sum(b["size"] for b in batches[:n]) for n in (1, 2))]
    content = segment.read_bytes()
    assert decode("--segment", "--format", "json", data=content) == (0, out, "")
    assert decode("--segment", "--format", "json", "--hex", data=content.hex().encode()) == (0, out, "")
    assert decode("--records", "--format", "json", data=content) == (0, out, "")
    assert decode("--records", "--format", "json", data=content.hex(" ").encode()) == (0, out, "")


def test_records_that_a_fetch_cut_short(segment):
    content = segment.read_bytes()
    whole = len(content) // 3 * 2
    code, out, err = decode("--records", "-", data=content[:-3])
    assert code == 0
    assert out.count("batch at") == 2
    assert err == f"ottla: {len(content) - 3 - whole} bytes after the last whole batch, at {whole}\n"


def test_damage_ends_or_is_skipped(segment):
    data = bytearray(segment.read_bytes())
    size = len(data) // 3
    data[data.index(b"value 1")] ^= 1
    segment.write_bytes(data)
    code, out, err = decode(segment)
    assert code == 1
    assert out.count("batch at") == 1
    assert f"{size} bytes at byte {size} are damaged: " in err
    assert "--skip-damaged" in err
    assert err.count("\n") == 1
    code, out, err = decode("--skip-damaged", segment)
    assert code == 0
    assert out.count("batch at") == 2
    assert f"{size} bytes at byte {size} are damaged: " in err
    code, out, err = decode("--no-crc", segment)
    assert (code, err) == (0, "")
    assert out.count("batch at") == 3


def test_records_of_an_internal_topic_by_the_folders_name(tmp_path):
    data = batch(None, bytes.fromhex("00010002673100017400000000"), 5)
    for folder in ("__consumer_offsets-12", "__consumer_offsets-3.0123456789abcdef0123456789abcdef-delete"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "00000000000000000000.log"
        path.write_bytes(data)
        code, out, _ = decode(path)
        assert code == 0
        assert "OffsetCommit" in out
        assert '      group: "g1"' in out.splitlines()
    other = tmp_path / "copy.log"
    other.write_bytes(data)
    assert "OffsetCommit" not in decode(other)[1]
    assert "OffsetCommit" in decode("--topic", "__consumer_offsets", other)[1]
    # The wrong topic: the record is shown as it is, with the reason.
    code, out, _ = decode("--topic", "__cluster_metadata", other)
    assert code == 0
    assert "key: 13 bytes left over" in out


def test_a_reader_that_has_seen_enough(segment):
    segment.write_bytes(segment.read_bytes() * 3000)
    command = f"{sys.executable} -m ottla decode {segment} | head -1 | wc -l"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_ctrl_c(segment):
    segment.write_bytes(segment.read_bytes() * 100_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "decode", str(segment)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (130, b"")


def test_progress_is_for_a_terminal_that_the_output_does_not_go_to(segment):
    segment.write_bytes(segment.read_bytes() * 20_000)
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "ottla", "decode", str(segment)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        drawn = b""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                part = os.read(ours, 4096)
            except OSError:  # what Linux says where the other side is closed
                break
            if not part:
                break
            drawn += part
        assert process.wait(10) == 0
    finally:
        os.close(ours)
    assert b"% , " in drawn or b"%, " in drawn
    assert drawn.endswith(b"\x1b[K"), "nothing of it stays"


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "data", "message"),
    [
        (["no-such-file.bin"], None, "there is no file 'no-such-file.bin'"),
        (["no-such-file.log"], None, "No such file"),
        (["--response", "-"], REQUEST, "--api NAME --version N"),
        (["--response", "--api", "Fetsh", "--version", "4"], REQUEST, "did you mean Fetch?"),
        (["--response", "--api", "999", "--version", "4"], REQUEST, "no API has the number 999"),
        (["--response", "--api", "Fetch", "--version", "99"], REQUEST, "99"),
        (["--api", "Fetch"], REQUEST, "--api is for --response"),
        (["--version", "3"], REQUEST, "--version is for"),
        (["--message", "MetadataResponse"], REQUEST, "--version N"),
        (["--message", "MetadataRespons", "--version", "0"], REQUEST, "did you mean MetadataResponse?"),
        (["--message", "OffsetCommitKey", "--version", "0", "--hex", "0009"], None, "OffsetCommitKey.group"),
        ([], REQUEST[:-1], "14 bytes follow"),
        ([], b"", "4 bytes of length wanted, 0 there"),
        ([b"\xff\xfe"], None, "there is no file"),
        (["--key", "00", "--hex"], None, "--topic NAME"),
        (["--topic", "orders", "--key", "0000", "--hex"], None, "no schema"),
        (["--topic", "__consumer_offsets", "--key", "AAAA"], None, "--hex or --base64"),
        (["--topic", "__consumer_offsets", "--key", "zz", "--hex"], None, "--key is not hex"),
        (["--topic", "__consumer_offsets"], REQUEST, "--topic is for a segment"),
        (["--records"], b"\xff" * 40, "at byte 0"),
    ],
)
def test_errors_are_one_line(arguments, data, message):
    assert message in failure(*arguments, data=data)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("00000000000000000007.index", "an index of a segment by offset"),
        ("00000000000000000007.timeindex", "an index of a segment by time"),
        ("00000000000000000007.txnindex", "an index of a segment's aborted transactions"),
        ("00000000000000000007.snapshot", "what a broker knows of a partition's producers"),
        ("00000000000000000007.index.deleted", "an index of a segment by offset"),
    ],
)
@pytest.mark.parametrize("content", [b"", bytes(12), b"\0\x01" * 40])
def test_files_beside_a_segment_name_it(tmp_path, name, what, content):
    file = tmp_path / name
    file.write_bytes(content)
    wanted = f"ottla: {file} is {what}, and holds no records: decode the segment {tmp_path}/00000000000000000007.log\n"
    assert failure(str(file)) == wanted
    assert failure("--segment", str(file)) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        "quorum-state",
        "recovery-point-offset-checkpoint",
    ],
)
def test_texts_of_a_broker_are_named(tmp_path, name):
    file = tmp_path / name
    file.write_text("0\n1\n0 0\n")
    assert failure(str(file)) == f"ottla: {file} is a text of the broker's, and holds no records: read it as it is\n"


def test_wrong_usage():
    code, _, err = decode("--hex", "--base64", "00")
    assert code == 2
    assert "not allowed with" in err
    for wrong in (["--message", "MetadataRequest", "--version", 2**70], ["--max-bytes", "-5"], ["--max-bytes", "all"]):
        code, _, err = decode(*wrong, data=REQUEST)
        assert code == 2
        assert f"'{wrong[-1]}' is not a number from 0 to " in err


def test_help_teaches_by_examples(tmp_path):
    """Those that need no file run."""
    code, out, _ = decode("--help")
    assert code == 0
    examples = [line.split("#")[0].split() for line in out.splitlines() if line.startswith("  ottla decode ")]
    assert len(examples) > 8
    ran = 0
    for _, _, *arguments in examples:
        if any(Path(a).suffix in {".bin", ".log"} for a in arguments) or "|" in arguments:
            continue
        assert decode(*arguments)[0] == 0, arguments
        ran += 1
    assert ran == 3


def test_the_page_shows_what_is_printed():
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    shown = re.findall(r"^    \$ ottla decode (.*)\n((?:    (?!\$).*\n)+)", page, re.MULTILINE)
    assert len(shown) == 2
    for arguments, output in shown:
        assert decode(*arguments.split()) == (0, textwrap.dedent(output), "")


def test_texts():
    assert text.quoted('a"\n\x9b\u202e') == '"a\\"\\n\\u009b\\u202e"'
    assert text.printable("häß".encode()) == "häß"
    assert text.printable("häß".encode()[:-1]) is None
    assert text.printable("häß".encode()[:-1], cut=True) == "hä"
    assert text.utc(0) == "1970-01-01T00:00:00.000Z"
    assert text.utc(2**62) == str(2**62)
    shown = list(text.Text(4).frame("t", {"a": b"abcdefgh", "b": b"\xff" * 8, "c": b"abcd", "d": struct.pack(">d", 1)}))
    assert shown[1:] == [
        '  a: "abcd" ... 8 bytes',
        "  b: 0xffffffff ... 8 bytes",
        '  c: "abcd"',
        "  d: 0x3ff00000 ... 8 bytes",
    ]
