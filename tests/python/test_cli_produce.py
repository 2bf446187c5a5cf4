"""`ottla produce`: inputs, what becomes of bad ones, and that it reads what `consume` writes. In this process."""

from __future__ import annotations

import io
import itertools
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ottla
from ottla.cli import signals
from ottla.cli.formats import template_input
from ottla.cli.formats.template import TemplateError
from ottla.errors import ArgumentError
from ottla.testing import Broker
from tests.python.shell import run

NUMBERS = itertools.count()
BEGIN = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker):
    with ottla.Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def new(admin):
    """Make a topic."""

    def make(partitions=1, **config):
        name = f"produced-{next(NUMBERS)}"
        admin.create_topics([ottla.NewTopic(name, partitions, config=config)])
        return name

    return make


@pytest.fixture
def produce(broker):
    def produce(*arguments, data=b""):
        return run("produce", "-b", broker.bootstrap_servers, *arguments, data=data)

    return produce


@pytest.fixture
def read(broker):
    return lambda topic: ottla.read(broker.bootstrap_servers, topic)


def values(batch):
    return [record.value for record in batch]


def test_many_lines_are_sent_in_order(produce, new, read):
    topic = new()
    lines = [b"%d" % number for number in range(50_000)]
    assert produce(topic, data=b"\n".join(lines)) == (0, b"", f"50000 records sent to {topic}\n")
    assert values(read(topic)) == lines


def test_many_lines_with_keys_and_returns(produce, new, read):
    topic = new()
    data = b"".join(b"k%d=v%d\r\n" % (number, number) for number in range(100)) + b"none\n=empty\nlast=\r"
    assert produce(topic, "--key-separator", "=", data=data).code == 0
    found = [(record.key, record.value) for record in read(topic)]
    assert found[99:] == [(b"k99", b"v99"), (None, b"none"), (b"", b"empty"), (b"last", b"\r")]


def test_what_each_record_gets(produce, new, read):
    topic = new(3)
    done = produce(topic, "-k", "key", "-p", "2", "-H", "a=1", "-H", "a=2", "-Z", data=b"x\n\ny")
    assert done.code == 0
    found = [(record.key, record.value, record.partition, record.headers) for record in read(topic)]
    headers = [("a", b"1"), ("a", b"2")]
    assert found == [(b"key", value, 2, headers) for value in (b"x", None, b"y")]


def test_a_tombstone_without_input(produce, new, read):
    topic = new()
    assert produce(topic, "--key", "k", "--null-value").code == 0
    assert [(record.key, record.value) for record in read(topic)] == [(b"k", None)]


def test_a_file(produce, new, read, tmp_path):
    topic, path = new(), tmp_path / "lines"
    path.write_bytes(b"a\nb\n")
    assert produce(topic, "--file", path).code == 0
    assert values(read(topic)) == [b"a", b"b"]
    done = produce(topic, "--file", tmp_path / "none")
    assert done.code == 1
    assert "No such file" in done.err


def test_report_prints_where_records_are(produce, new):
    topic = new()
    assert produce(topic, "--report", data=b"a\nb\n").out == f"{topic}\t0\t0\n{topic}\t0\t1\n".encode()
    many = produce(topic, "--report", data=b"x\n" * 100)
    assert many.lines == [f"{topic}\t0\t{offset}".encode() for offset in range(2, 102)]


def test_a_rate_slows_it_down(produce, new, read):
    topic = new()
    start = time.monotonic()
    assert produce(topic, "--rate", "100", data=b"x\n" * 31).code == 0
    assert time.monotonic() - start >= 0.29
    assert len(read(topic)) == 31


# --- what is bad ---


def test_a_bad_line_ends_the_input(produce, new, read):
    topic = new()
    done = produce(topic, "--format", "json-values", data=b'{"a": 1}\n2\n{\n3\n')
    assert done.code == 1
    assert done.err.splitlines()[0] == f"2 records sent to {topic}"
    assert done.err.splitlines()[1].startswith("ottla: line 3: this is not JSON")
    assert values(read(topic)) == [b'{"a": 1}', b"2"]


def test_continue_goes_on(produce, new, read):
    topic = new()
    done = produce(topic, "--format", "json-values", "--continue", data=b'{"a": 1}\n2\n{\n\n3\nx')
    assert done.code == 1
    bad, other, sent, last = done.err.splitlines()
    assert bad.startswith("ottla: line 3: this is not JSON")
    assert other.startswith("ottla: line 6: this is not JSON")
    assert sent == f"3 records sent to {topic}"
    assert last == "ottla: 2 lines could not be sent"
    assert values(read(topic)) == [b'{"a": 1}', b"2", b"3"]


@pytest.mark.parametrize("others", [3, 100])
def test_a_record_that_a_broker_refuses(produce, new, read, others):
    topic = new(**{"max.message.bytes": "5000"})
    lines = [b"x"] * others + [b"y" * 6000] + [b"z"] * others
    config = ("--config", "batch.size=1")
    done = produce(topic, *config, "--continue", data=b"\n".join(lines))
    assert done.code == 1
    assert done.err.splitlines()[0].startswith(f"ottla: line {others + 1}: ")
    assert done.err.splitlines()[1:] == [f"{2 * others} records sent to {topic}", "ottla: 1 line could not be sent"]
    assert sorted(values(read(topic))) == [b"x"] * others + [b"z"] * others
    done = produce(topic, *config, data=b"\n".join(lines))
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"ottla: line {others + 1}: ")


def test_a_line_that_is_too_large_stops_those_after_it(produce, new, read):
    topic = new()
    data = b"a\n" * 100 + b"y" * 2_000_000 + b"\n" + b"b\n" * 100
    done = produce(topic, data=data)
    assert done.code == 1
    assert done.err.splitlines()[0] == f"100 records sent to {topic}"
    assert done.err.splitlines()[1].startswith("ottla: line 101: a record of ")
    assert values(read(topic)) == [b"a"] * 100


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "but a list"),
        (b'{"value": "x", "tme": 1}', "'tme' is no field"),
        (b'{"partition": "x"}', "partition is a whole number"),
        (b'{"partition": true}', "partition is a whole number"),
        (b'{"topic": 1}', "topic is text"),
        (b'{"headers": 1}', "headers are a list of pairs"),
        (b'{"headers": [["a"]]}', "a header is a pair"),
        (b'{"value": {"base64": "?"}}', "value is not base64"),
        (b'{"value": "\\ud800"}', "half of a surrogate pair"),
        (b'{"value": "x", "partition": 7}', "partition"),
        (b'{"value": "x", "timestamp": -5}', "timestamp"),
    ],
)
def test_a_bad_envelope(produce, new, read, line, reason):
    topic = new()
    done = produce(topic, "--format", "json", "--config", "max.block.ms=500", data=b'{"value": "before"}\n' + line)
    assert done.code == 1
    assert "ottla: line 2: " in done.err
    assert reason in done.err
    assert values(read(topic)) == [b"before"]


def test_an_envelope_needs_a_topic(produce):
    done = produce("--format", "json", data=b'{"value": "x"}\n')
    assert done.code == 1
    assert done.err.splitlines()[-1] == "ottla: line 1: the record names no topic: add -t TOPIC"


def test_envelopes_of_several_topics(produce, new, read):
    one, two = new(), new()
    lines = [json.dumps({"topic": [one, two][number % 2], "value": number}) for number in range(50)]
    assert produce("--format", "json", data="\n".join(lines).encode()) == (0, b"", "50 records sent\n")
    assert values(read(one)) == [b"%d" % number for number in range(0, 50, 2)]
    assert values(read(two)) == [b"%d" % number for number in range(1, 50, 2)]


def test_ignored_fields(produce, new, read):
    topic = new()
    line = {"topic": "none", "partition": 9, "timestamp": 5, "key": "k", "value": "v", "headers": {"a": "b"}}
    ignored = ("--ignore", "topic,partition,timestamp,key,headers")
    assert produce(topic, "--format", "json", *ignored, data=json.dumps(line).encode()).code == 0
    (record,) = read(topic)
    assert (record.key, record.value, record.headers) == (None, b"v", [])
    assert record.timestamp > 5


# --- transactions ---


def test_a_transaction_around_it(broker, produce, new):
    topic = new()
    read = ("consume", "-b", broker.bootstrap_servers, topic, "--beginning", "-e", "--read-committed")
    identity = ("--transactional-id", "import")
    assert produce(topic, *identity, data=b"a\nb\n") == (0, b"", f"2 records sent to {topic}\n")
    assert run(*read).lines == [b"a", b"b"]
    done = produce(topic, *identity, "--format", "json-values", data=b"1\n2\n{\n")
    assert done.code == 1
    assert done.err.splitlines()[0] == f"0 records sent to {topic}: the transaction was aborted"
    assert run(*read).lines == [b"a", b"b"]


# --- templates ---


def parsed(template, data, chunk=2**20):
    file = io.BytesIO(data)
    reader = template_input.Reader(template, lambda size: file.read(min(size, chunk)), signals.Between())
    found = []
    while (record := reader.next()) is not None:
        found.append(record)
    return found


@pytest.mark.parametrize("chunk", [1, 3, 2**20])
@pytest.mark.parametrize(
    ("template", "data", "wanted"),
    [
        (r"%v\n", b"a\nb\n\nc", [(None, b"a"), (None, b"b"), (None, b""), (None, b"c")]),
        (r"%k\t%v\n", b"a\tb\nc\td\te\n", [(b"a", b"b"), (b"c", b"d\te")]),
        (r"%k\n%v\n", b"a\nb\nc\nd\n", [(b"a", b"b"), (b"c", b"d")]),
        (r"key: %k, value: %v\r\n", b"key: a, value: b\r\nkey: c, value: \r\n", [(b"a", b"b"), (b"c", b"")]),
        (r"%K{big32}%k%V{big16}%v", b"\0\0\0\1a\0\2bc\0\0\0\0\0\0", [(b"a", b"bc"), (b"", b"")]),
        (r"%K{little16}%V{byte}%k%v", b"\1\0\2abc", [(b"a", b"bc")]),
        (r"%K %V %k%v\n", b"1 2 abc\n", [(b"a", b"bc")]),
        (r"%K{3}%V{hex4}%k%v", b"001fa" + b"b" * 15, [(b"a", b"b" * 15)]),
        (r"%v{json} %k\n", b'{"a": [1, "\xc3\xbc"]} k\n12 l\n', [(b"k", '{"a":[1,"ü"]}'.encode()), (b"l", b"12")]),
        (r"%k{re[\d+]}%v{re#[a-z]+#}\n", b"12ab\n3c\n", [(b"12", b"ab"), (b"3", b"c")]),
        (r"%k{hex} %v{base64}\n", b"ff0a eHk=\n", [(b"\xff\n", b"xy")]),
        (r"%%%{%v%}", b"%{a}%{b}", [(None, b"a"), (None, b"b")]),
        (r"%v", b"a\nb", [(None, b"a\nb")]),
    ],
)
def test_templates(template, data, wanted, chunk):
    assert [(record.key, record.value) for record in parsed(template, data, chunk)] == wanted


def test_a_template_with_everything():
    template = r"%t %p %d %o %H{big16}%h{%K{byte}%k%V{byte}%v}%k=%v\n"
    data = b"orders 3 1700000000000 99 \0\2\1a\2bc\1a\0k=v\n"
    (record,) = parsed(template, data)
    assert (record.topic, record.partition, record.timestamp) == ("orders", 3, BEGIN)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"bc"), ("a", b"")))


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("%k%v", "%k has no end"),
        ("x", "reads nothing"),
        ("%h{%k}", "needs %H"),
        ("%V{big32}%v{json}", "finds its own end"),
        ("%v{xml}", "no way to read text"),
        ("%V{hex3}%v", "no way to read numbers"),
        ("%z", "means nothing"),
        ("%v{re[(]}", "regular expression"),
    ],
)
def test_what_is_no_template(template, reason):
    with pytest.raises(TemplateError, match=reason):
        template_input.compiled(template)
    done = run("produce", "t", "-f", template)
    assert done.code == 2
    assert reason in done.err


@pytest.mark.parametrize(
    ("template", "data", "reason"),
    [
        (r"%V{big32}%v", b"\0\0\0\5abc", "3 of 5 bytes"),
        (r"%V%v", b"x", "does not match"),
        (r"a%v\n", b"bc\n", "the template has b'a' here"),
        (r"%k\t%v\n", b"abc", "the input ends in key"),
        (r"%v{hex}\n", b"xx\n", "value is not hex"),
        (r"%V{3}%v", b"x12", "is not a number"),
        (r"%t %v\n", b"\xff x\n", "not UTF-8"),
    ],
)
def test_input_that_does_not_fit(template, data, reason):
    with pytest.raises(ArgumentError, match=reason):
        parsed(template, data)


def test_a_record_that_does_not_fit_is_named(produce, new, read):
    topic = new()
    done = produce(topic, "-f", r"%V{3}%v\n", data=b"001a\n002bc\n00xd\n001e\n")
    assert done.code == 1
    assert done.err.splitlines()[0] == f"2 records sent to {topic}"
    assert done.err.splitlines()[1].startswith("ottla: record 3: the size value is not a number")
    assert values(read(topic)) == [b"a", b"bc"]


def test_what_a_template_writes_another_one_reads(broker, produce, new, read):
    one, two = new(), new()
    assert (
        produce(
            one, "--format", "json", data=b'{"key": {"base64": "/w=="}, "value": "v", "headers": [["a", "b"]]}\n' * 3
        ).code
        == 0
    )
    form = "%K{big32}%k%V{big32}%v%H{big16}%h{%K{big16}%k%V{big16}%v}"
    data = run("consume", "-b", broker.bootstrap_servers, one, "-o", ":end", "-f", form).out
    assert produce(two, "-f", form, data=data).code == 0
    assert contents(read(two)) == contents(read(one))


# --- round trips ---


def contents(batch, *, times=False):
    return [
        (record.key, record.value, record.headers, record.partition, *([record.timestamp] if times else []))
        for record in batch
    ]


texts = st.none() | st.just(b"") | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
names = st.text(st.characters(codec="utf-8"), max_size=5)
records = st.tuples(
    texts,
    texts,
    st.lists(st.tuples(names, texts), max_size=3),
    st.integers(0, 2),
    st.integers(0, BEGIN),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(records, min_size=1, max_size=30), form=st.sampled_from(["json", "csv", "arrow", "parquet"]))
def test_produce_reads_what_consume_writes(broker, produce, new, read, sent, form):
    one, two = new(3), new(3)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for key, value, headers, partition, timestamp in sent:
            producer.send(one, value, key=key, headers=headers, partition=partition, timestamp=timestamp)
    done = run("consume", "-b", broker.bootstrap_servers, one, "-o", ":end", "--format", form)
    assert (done.code, done.err) == (0, "")
    again = produce(two, "--format", form, data=done.out)
    assert again == (0, b"", f"{len(sent)} record{'' if len(sent) == 1 else 's'} sent to {two}\n")
    written = contents(read(one), times=True)
    assert len(written) == len(sent)
    assert contents(read(two), times=True) == written


def test_tables_without_some_columns(produce, new, read, tmp_path):
    topic = new()
    table = pa.table({"value": ["a", None, "c"], "key": [b"1", b"2", None]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert produce(topic, "--format", "parquet", "--file", tmp_path / "t.parquet").code == 0
    assert produce(topic, "--format", "csv", data=b'value,key\nx,\n"","k"\n').code == 0
    found = [(record.key, record.value) for record in read(topic)]
    assert found == [(b"1", b"a"), (b"2", None), (None, b"c"), (None, b"x"), (b"k", b"")]


@pytest.mark.parametrize(
    ("form", "data", "reason"),
    [
        ("csv", b"a,b\n1,2\n", "names a column 'a'"),
        ("csv", b"key\n1\n", "no column 'value'"),
        ("csv", b"value,partition\nx,y\n", "not CSV of records"),
        ("arrow", b"nothing", "not an Arrow stream"),
        ("parquet", b"nothing", "not a Parquet file"),
    ],
)
def test_what_is_no_table(produce, new, form, data, reason):
    done = produce(new(), "--format", form, data=data)
    assert done.code == 1
    assert reason in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ((), 2, "-t/--topic"),
        (("t", "-f", "%v\n", "--format", "csv"), 1, "leave --format out"),
        (("t", "--format", "csv", "--key", "k"), 1, "--key is not for tables"),
        (("t", "--format", "json", "--key-separator", ":"), 1, "is for lines"),
        (("t", "--format", "json-values", "--encode-value", "registry"), 1, "needs --registry"),
        (("t", "--encode-value", "registry"), 1, "add --format json-values"),
        (("t", "--registry", "http://127.0.0.1:1"), 1, "add --encode-value"),
        (("t", "--continue", "--transactional-id", "x"), 1, "exclude each other"),
        (("t", "--rate", "0"), 2, "records in a second"),
        (("t", "--ignore", "value"), 2, "cannot be left out"),
        (("t", "--header", "a"), 2, "KEY=VALUE"),
    ],
)
def test_wrong_options(produce, arguments, code, reason):
    done = produce(*arguments)
    assert done.code == code
    assert reason in done.err
