"""`ottla consume`: windows, limits, filters and formats, in this process."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla.cli import filters, windows
from ottla.cli.formats import template
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT
from tests.python.shell import run

NOW = 1_800_000_000.0
# Of the records of `times`: its offsets 0 to 9 are a minute apart.
MINUTE = 60_000
BEGIN = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker():
    config = {"group.initial.rebalance.delay.ms": "0", **EMBEDDED_KEPT}
    topics = {"times": 1, "two": 2, "json": 1, "empty": 2, "bytes": 1, "other": 1}
    with Broker(topics=topics, config=config) as running:
        with ottla.Producer(running.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("times", b"%d" % number, timestamp=BEGIN + number * MINUTE)
            for number in range(20):
                producer.send("two", b"%d" % number, partition=number % 2, key=b"k%d" % number)
            for value in ({"id": 1, "tags": ["a", "b"], "user": {"name": "Ann"}}, {"id": 2, "ok": True}, {"id": 3.5}):
                producer.send("json", json.dumps(value).encode(), key=b'{"n": %d}' % value["id"])
            producer.send("json", b"no json", headers=[("kind", b"text"), ("kind", None)])
            producer.send("bytes", b"\xff\x00", key=b"\xfe", headers=[("a", b"\xfd"), ("a", None), ("a", b"")])
            producer.send("bytes", None, key=b"")
            producer.send("bytes", b'"\\\n\t, \xc3\xbc', timestamp=BEGIN)
            producer.send("other", b"x")
        yield running


@pytest.fixture
def consume(broker):
    def consume(*arguments):
        done = run("consume", "-b", broker.bootstrap_servers, *arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.lines

    return consume


# --- windows ---


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("start", (5, None)),
        ("beginning", (5, None)),
        ("end", (20, None)),
        ("start+5", (10, None)),
        ("end-3", (17, None)),
        ("+2", (7, None)),
        ("-3", (17, None)),
        ("12", (12, None)),
        ("12:", (12, None)),
        ("2", (5, None)),
        ("99", (20, None)),
        ("8:12", (8, 12)),
        ("12:8", (12, 12)),
        (":end", (5, 20)),
        (":end-3", (5, 17)),
        (":end+3", (5, 23)),
        (":8", (5, 8)),
        (":99", (5, 20)),
        ("8:end", (8, 20)),
        ("-5:-2", (15, 18)),
        ("8:+4", (8, 12)),
        ("@1799999000", (10, None)),
        ("@1799999000:", (10, None)),
        ("@1799999000000:1799999500000", (10, 15)),
        ("@1799999000000000000:+500s", (10, 15)),
        ("@-1000s:-500s", (10, 15)),
        ("@-1000s:@-500s", (10, 15)),
        ("@-16m40s:@now", (10, 20)),
        ("@-1000s:end", (10, 20)),
        ("@:-500s", (5, 15)),
        (":@-500s", (5, 15)),
        ("@2027-01-15T07:43:20Z:2027-01-15T07:51:40Z", (10, 15)),
        ("@2027-01-15T07:43:20", (10, None)),
        ("@2027-01-15T08:43:20+01:00:end", (10, 20)),
        ("@2027-01-15", (5, None)),
        ("@-1d", (5, None)),
    ],
)
def test_windows(text, wanted):
    """The partition has offsets 5 to 19, of which offset 10 is 1,000 seconds ago, and each next one 100 s later."""

    def at_time(moment):
        offset = 10 + -(-(moment - 1_799_999_000_000) // 100_000)
        return max(offset, 5) if offset < 20 else None

    assert windows.parse(text, NOW).resolve(5, 20, at_time) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (":", "not an offset"),
        ("x", "not an offset"),
        ("1:x", "'x' is not an offset"),
        ("@", "not a time"),
        ("@12345", "9 or 10 digits"),
        ("@2024-13-01", "not a time"),
        ("@1969-12-31", "before 1970"),
        ("@2100-01-01", "in the future"),
        ("@-1h:@2100-01-01", "in the future"),
        (str(2**63), "not an offset"),
    ],
)
def test_what_is_no_window(text, reason):
    with pytest.raises(windows.WindowError, match=reason):
        windows.parse(text, NOW)


@pytest.mark.parametrize(
    ("window", "numbers"),
    [
        (":end", range(10)),
        ("3:6", range(3, 6)),
        ("-2:end", range(8, 10)),
        ("+8:end", range(8, 10)),
        (f"@{BEGIN + 3 * MINUTE}:{BEGIN + 5 * MINUTE}", range(3, 5)),
        (f"@{BEGIN + 3 * MINUTE - 1}:+2m", range(3, 5)),
        ("@:2023-11-14T22:15:20Z", range(2)),
        ("@-1h:@now", range(0)),
        ("99:100", range(0)),
    ],
)
def test_a_window_is_read_and_the_command_ends(consume, window, numbers):
    assert consume("times", f"--offset={window}") == [b"%d" % number for number in numbers]


def test_exit_ends_where_the_partitions_end(consume):
    assert consume("-t", "times", "--beginning", "--exit") == [b"%d" % number for number in range(10)]
    assert consume("-t", "times", "-o", "-2", "-e") == [b"8", b"9"]
    assert consume("-t", "empty", "--beginning", "-e") == []
    assert consume("-t", "times", "-e") == []


def test_partitions(consume):
    assert consume("two", "-p", "1", "-o", ":end") == [b"%d" % number for number in range(1, 20, 2)]
    assert sorted(consume("two", "-p", "0-1", "-o", "2:4")) == [b"4", b"5", b"6", b"7"]
    assert consume("two", "-p", "1", "--last", "2") == [b"17", b"19"]


def test_a_partition_that_does_not_exist(broker):
    done = run("consume", "-b", broker.bootstrap_servers, "two", "-p", "7", "-o", ":end")
    assert (done.code, done.out) == (1, b"")
    assert done.err == "ottla: topic two has no partition 7: it has 2, from 0 to 1\n"


def test_an_open_transaction_and_its_markers_end_a_window(broker):
    """A marker takes an offset, and no record comes for it."""
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("transactions", 1)])
    with ottla.Producer(broker.bootstrap_servers, config={"transactional.id": "tx"}) as producer:
        with producer.transaction():
            producer.send("transactions", b"in")
        producer.begin_transaction()
        producer.send("transactions", b"out")
        producer.flush()
        producer.abort_transaction()
        read = ("-b", broker.bootstrap_servers, "transactions", "-e", "--beginning")
        assert run("consume", *read, "--read-committed") == (0, b"in\n", "")
        assert run("consume", *read) == (0, b"in\nout\n", "")
        producer.begin_transaction()
        producer.send("transactions", b"open")
        producer.flush()
        assert run("consume", *read, "--read-committed").out == b"in\n"
        assert run("consume", *read).out == b"in\nout\nopen\n"
        producer.abort_transaction()


def test_max_counts_records_that_match(consume):
    assert consume("times", "--beginning", "-n", "3") == [b"0", b"1", b"2"]
    assert consume("times", "--beginning", "-n", "2", "-G", "v:[5-9]") == [b"5", b"6"]
    assert sorted(consume("two", "-o", ":end", "--max-per-partition", "1")) == [b"0", b"1"]


def test_idle_ends_a_read(consume):
    assert consume("times", "--beginning", "--idle", "0.1") == [b"%d" % number for number in range(10)]


def test_patterns(consume):
    assert consume("-r", "-t", "time.", "-o", "-1:end") == [b"9"]
    assert sorted(consume("-r", "-t", "times,oth.*", "-o", "-1:end")) == [b"9", b"x"]


def test_a_pattern_that_matches_nothing(broker):
    done = run("consume", "-b", broker.bootstrap_servers, "-r", "tim", "-o", ":end")
    assert done.code == 1
    assert done.err.startswith("ottla: no topic matches tim as a whole")


def test_tail_goes_on_with_what_comes(broker):
    """The newest that are there, then those that come, each once."""
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("tail", 2)])
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for number in range(6):
            producer.send("tail", b"%d" % number, partition=number % 2, timestamp=BEGIN + number)
        producer.flush()
        assert sorted(run("consume", "-b", broker.bootstrap_servers, "tail", "--tail", "3", "-e").lines) == [
            b"3",
            b"4",
            b"5",
        ]
        read = ("consume", "-b", broker.bootstrap_servers, "tail", "--tail", "3", "-n", "4")
        import threading

        later = threading.Timer(0.5, lambda: producer.send("tail", b"6", partition=0))
        later.start()
        assert sorted(run(*read).lines) == [b"3", b"4", b"5", b"6"]
        later.join()


# --- groups ---


def committed(broker, group):
    with ottla.Admin(broker.bootstrap_servers) as admin:
        found = admin.list_group_offsets(group)
    return {at: each.offset for at, each in found[group].items()}


def test_a_group_commits_what_is_printed(broker):
    read = ("consume", "-b", broker.bootstrap_servers, "times", "-g", "printed", "--beginning")
    assert run(*read, "-n", "4").lines == [b"0", b"1", b"2", b"3"]
    assert committed(broker, "printed") == {("times", 0): 4}
    assert run(*read, "-e").lines == [b"%d" % number for number in range(4, 10)]
    assert run(*read, "-e").lines == []


def test_a_group_commits_no_record_that_a_filter_did_not_see(broker):
    read = ("consume", "-b", broker.bootstrap_servers, "times", "-g", "filtered", "--beginning", "-G", "v:[27]")
    assert run(*read, "-n", "1").lines == [b"2"]
    assert committed(broker, "filtered") == {("times", 0): 3}
    assert run(*read, "-n", "1").lines == [b"7"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-g", "g", "-o", "5"), "committed offsets"),
        (("-g", "g", "-p", "0"), "exclude each other"),
        (("-g", "g", "--last", "5"), "exclude each other"),
        (("--share-group", "s", "-o", ":end"), "exclude each other"),
        (("--share-group", "s", "-g", "g"), "exclude each other"),
        (("--share-group", "s", "-e"), "exclude each other"),
        (("--ack", "accept"), "add --share-group"),
        (("--from", "/tmp", "--last", "3"), "exclude each other"),
        (("--last", "3", "--max", "1"), "leave --max and --idle out"),
        (("-f", "%v", "--format", "json"), "leave --format out"),
        (("--columns", "key"), "--columns is for"),
        (("--without", "key"), "--without is for"),
        (("--registry", "http://127.0.0.1:1"), "add --decode-value"),
        (("--decode-value", "registry"), "needs --registry"),
        (("--decode-value", "xml:f"), "names no schema"),
        (("--decode-value", "avro:/no/such"), "cannot be read"),
    ],
)
def test_options_that_exclude_each_other(broker, arguments, reason):
    done = run("consume", "-b", broker.bootstrap_servers, "times", *arguments)
    assert (done.code, done.out) == (1, b"")
    assert reason in done.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-o", "x"), "not an offset"),
        (("-p", "a"), "no partition"),
        (("-p", "3-1"), "no partition"),
        (("-G", "z:x"), "not a filter"),
        (("-G", "k:("), "regular expression"),
        (("-G", "j:"), "no path"),
        (("-f", "%z"), "means nothing"),
        (("-f", "%x"), "not there"),
        (("-f", "%v{xml}"), "no way to write text"),
        (("-f", "%p{hex3}"), "no way to write numbers"),
        (("-f", "%h"), "needs braces"),
        (("-f", "%"), "ends in the middle"),
        (("-o", "start", "--beginning"), "not allowed with"),
        (("--format", "xml"), "invalid choice"),
    ],
)
def test_wrong_usage(arguments, reason):
    done = run("consume", "times", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert reason in done.err


def test_no_topic_is_wrong_usage():
    done = run("consume")
    assert done.code == 2
    assert "-t/--topic" in done.err


# --- share groups ---


def shared(broker, *arguments):
    return run("consume", "-b", broker.bootstrap_servers, "--share-group", *arguments)


def test_share_groups_accept_release_and_reject(broker):
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("jobs", 1)])
        groups = [("GROUP", group) for group in ("looking", "working", "refusing")]
        admin.incremental_alter_configs({group: {"share.auto.offset.reset": "earliest"} for group in groups})
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("jobs", [b"1", b"2", b"3"]).result(20)
    every = ("jobs", "--idle", "0.3")
    assert sorted(shared(broker, "looking", "jobs", "-n", "3", "--ack", "release").lines) == [b"1", b"2", b"3"]
    assert sorted(shared(broker, "looking", "jobs", "-n", "3", "-f", "%v %D\n").lines) == [b"1 2", b"2 2", b"3 2"]
    assert shared(broker, "working", "jobs", "-n", "1").lines == [b"1"]
    assert sorted(shared(broker, "working", *every).lines) == [b"2", b"3"]
    assert shared(broker, "working", *every).lines == []
    assert sorted(shared(broker, "refusing", *every, "--ack", "reject").lines) == [b"1", b"2", b"3"]
    assert shared(broker, "refusing", *every).lines == []


# --- filters ---


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        (["j:id"], [0, 1, 2]),
        (["!j:id"], [3]),
        (["j:id=1"], [0]),
        (["j:id=3.5"], [2]),
        (["j:id!=1"], [1, 2]),
        (["j:id>1"], [1, 2]),
        (["j:id>=2", "j:id<3"], [1]),
        (["j:ok=true"], [1]),
        (["j:ok=1"], []),
        (["j:$.user.name=Ann"], [0]),
        (["j:user['name']~^A"], [0]),
        (["j:tags[1]=b"], [0]),
        (["j:tags[*]=b"], [0]),
        (["j:tags[7]"], []),
        (["kj:n=2"], [1]),
        (["v:^no"], [3]),
        (["k:."], [0, 1, 2]),
        (["!k:."], [3]),
        (["hk:^ki"], [3]),
        (["hv:text"], [3]),
        (["h:kind=te.t"], [3]),
        (["h:other=."], []),
        (["t:json"], [0, 1, 2, 3]),
        (["t:json", "!v:1", "!v:no"], [1, 2]),
    ],
)
def test_filters(consume, given, offsets):
    arguments = [part for each in given for part in ("-G", each)]
    assert consume("json", "-o", ":end", "-f", r"%o\n", *arguments) == [b"%d" % offset for offset in offsets]


def test_a_filter_without_an_operator_it_knows():
    with pytest.raises(filters.FilterError, match="stopped at"):
        filters.parse("j:a b")


# --- formats ---


def test_the_envelope_keeps_bytes(consume):
    first, second, third = map(json.loads, consume("bytes", "-o", ":end", "--format", "json"))
    assert (first["key"], first["value"]) == ({"base64": "/g=="}, {"base64": "/wA="})
    assert first["headers"] == [["a", {"base64": "/Q=="}], ["a", None], ["a", ""]]
    assert (second["key"], second["value"], second["headers"]) == ("", None, [])
    assert (third["value"], third["timestamp"]) == ('"\\\n\t, ü', BEGIN)
    (line,) = consume("bytes", "-o", "2:3", "--format", "json", "--without", "value,headers")
    assert set(json.loads(line)) == {"topic", "partition", "offset", "timestamp", "key"}


def test_lines_by_columns_are_those_by_records(broker):
    """The fast way is the slow one, or leaves it to that."""
    from ottla.cli.formats.envelope import EnvelopeSink, lines_by_columns
    from ottla.cli.formats.rows import Rows

    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("lines", 1)])
    with ottla.Producer(broker.bootstrap_servers) as producer:
        texts = ["", '"', "\\", '{"a": "\\\\"}', "ü", "\x7f", "\u2028", "😀"]
        producer.send_many("lines", [None, *texts], keys=[*texts, None]).result(20)
        producer.send("lines", b"\n").result(20)
        producer.send("lines", b"\xff").result(20)
        producer.send("lines", b"", headers=[("a", b"b")]).result(20)
    batch = ottla.read(broker.bootstrap_servers, "lines")

    def slow(rows):
        out = io.BytesIO()
        sink = EnvelopeSink(out, lambda _: {})
        sink.write(rows)
        return out.getvalue()

    plain = Rows(batch[:9])
    assert bytes(lines_by_columns(plain)) == slow(plain)
    some = Rows(batch, [0, 3, 8])
    assert bytes(lines_by_columns(some)) == slow(some)
    assert bytes(lines_by_columns(Rows(batch[:0]))) == b""
    for row in (9, 10, 11):
        assert lines_by_columns(Rows(batch[row : row + 1])) is None


def test_raw_by_columns_is_raw_by_records(broker, monkeypatch):
    from ottla.cli.formats import raw
    from ottla.cli.formats.rows import Rows

    batch = ottla.read(broker.bootstrap_servers, "bytes")
    found = []
    for has_arrow in (True, False):
        out = io.BytesIO()
        sink = raw.RawSink(out, b"|")
        sink._has_arrow = has_arrow
        sink.write(Rows(batch))
        sink.write(Rows(batch, [0, 2]))
        sink.write(Rows(batch[:0]))
        found.append(out.getvalue())
    assert found[0] == found[1] == b'\xff\x00||"\\\n\t, \xc3\xbc|\xff\x00|"\\\n\t, \xc3\xbc|'


def test_csv(consume):
    lines = consume("bytes", "-o", ":2", "--format", "csv")
    assert lines[0] == b'"topic","partition","offset","timestamp","key","value","headers","base64"'
    assert lines[1].endswith(
        b',"/g==","/wA=","[[""a"", {""base64"": ""/Q==""}], [""a"", null], [""a"", """"]]","key value"'
    )
    assert lines[2].endswith(b',"",,,'), "an empty key is quoted, and what is missing is not"
    assert consume("times", "-o", ":2", "--format", "csv", "--columns", "offset,value") == [
        b'"offset","value"',
        b'0,"0"',
        b'1,"1"',
    ]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_tables(broker, consume, form, tmp_path):
    path = tmp_path / "records"
    assert consume("bytes", "-o", ":end", "--format", form, "-O", path) == []
    table = pa.ipc.open_stream(path.read_bytes()).read_all() if form == "arrow" else pq.read_table(path)
    assert table.to_pylist() == ottla.read(broker.bootstrap_servers, "bytes").to_arrow().to_pylist()
    done = run("consume", "-b", broker.bootstrap_servers, "bytes", "-o", ":end", "--format", form)
    assert done.out == path.read_bytes()
    assert consume("bytes", "-o", ":end", "--format", form, "--columns", "value,key", "-O", path) == []
    table = pa.ipc.open_stream(path.read_bytes()).read_all() if form == "arrow" else pq.read_table(path)
    assert table.column_names == ["value", "key"]


@pytest.mark.parametrize("form", ["csv", "arrow", "parquet"])
def test_a_table_of_no_records_has_columns(consume, broker, form, tmp_path):
    path = tmp_path / "records"
    consume("empty", "-o", ":end", "--format", form, "-O", path)
    if form == "csv":
        assert path.read_bytes().startswith(b'"topic"')
    else:
        table = pa.ipc.open_stream(path.read_bytes()).read_all() if form == "arrow" else pq.read_table(path)
        assert (table.num_rows, table.column_names[:2]) == (0, ["key", "value"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"%t[%p]@%o %K %V %T %H\n", b"bytes[0]@0 1 2 5 3\n"),
        (r"%v{hex} %v{base64} %v{base64raw} %k{hex}", b"ff00 /wA= /wA fe"),
        (r"%h{%k=%v{hex}(%V),}", b"a=fd(1),a=(0),a=(0),"),
        (r"%%%{%}\x41\t\\", b"%{}A\t\\"),
        (
            r"%o{hex8}%o{hex}%V{big16}%V{little32}%V{byte}%V{bool}%o{bool}",
            b"000" + b"\0\2" + b"\2\0\0\0" + b"\2" + b"truefalse",
        ),
        (r"%v{unpack{B}} %v{unpack[bB]} %v{unpack##<H##} %v{unpack{>h$}}", b"255 -10 255 -256"),
        (r"%v{unpack{I}}|%v{unpack{B$}}", b" (2 bytes are missing)|255 (1 bytes are left)"),
        (r"%i %D %a{timestamp-type}", b"1 0 0"),
    ],
)
def test_templates(broker, text, wanted):
    done = run("consume", "-b", broker.bootstrap_servers, "bytes", "-o", ":1", "-f", text)
    assert (done.code, done.out, done.err) == (0, wanted, "")


def test_times_of_templates(broker):
    form = r"%d{strftime[%F %T]} %d{strftime##%H##} %d %d{hex}\n"
    done = run("consume", "-b", broker.bootstrap_servers, "times", "-o", ":1", "-f", form)
    assert done.out == b"2023-11-14 22:13:20 22 1700000000000 18bcfe56800\n"


def test_a_template_needs_what_it_names():
    with pytest.raises(template.TemplateError, match="Go's forms"):
        template.check("%d{go##2006##}")


# --- log folders ---


def test_folders_are_read_as_brokers_are(tmp_path):
    with Broker(topics={"a": 2, "b": 1}, data_dir=tmp_path / "data") as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("a", b"%d" % number, partition=number % 2, timestamp=BEGIN + number * MINUTE)
            producer.send("b", b"b")
        addresses = ("-b", broker.bootstrap_servers)
        live = {}
        for arguments in (
            ("a", "-o", ":end"),
            ("a", "-o", "1:3"),
            ("a", "-p", "1", "-o", "-2:end"),
            ("a", "-o", f"@{BEGIN + 3 * MINUTE}:+3m"),
        ):
            live[arguments] = sorted(run("consume", *addresses, *arguments, "--format", "json").lines)
            assert len(live[arguments]) in {2, 3, 4, 10}
    (segment,) = (tmp_path / "data").rglob("a-1/*.log")
    folder = segment.parent.parent
    for arguments, lines in live.items():
        assert sorted(run("consume", "--from", folder, *arguments, "--format", "json").lines) == lines
    assert run("consume", "--from", folder, "-n", "2").lines == [b"0", b"2"]
    assert run("consume", "--from", segment).lines == [b"1", b"3", b"5", b"7", b"9"]
    assert sorted(run("consume", "--from", folder, "-r", "[ab]").lines) == [*(b"%d" % n for n in range(10)), b"b"]
    done = run("consume", "--from", folder, "c")
    assert (done.code, done.out) == (1, b"")
    assert "no folder of a partition of topic c" in done.err
    other = tmp_path / "x.log"
    other.write_bytes(segment.read_bytes())
    done = run("consume", "--from", other)
    assert done.code == 1
    assert "is not a segment in the folder of its partition" in done.err
