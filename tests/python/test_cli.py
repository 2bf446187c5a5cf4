"""The command line, as a user starts it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla import _ottla
from ottla.testing import Broker
from tests.pace import patience

# An address for documentation (RFC 5737), which no machine has.
ELSEWHERE = "203.0.113.9"


# Seconds that a command may take.
DEADLINE = patience(30)
# Seconds without a record after which `consume` ends: enough for the first contact.
IDLE = str(patience(4))


def ottla_command(*arguments, data=None, timeout=DEADLINE):
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments], input=data, capture_output=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_topics(address):
    assert ottla_command("topics", "create", "-b", address, "cli-a:3", "cli-b") == (
        0,
        "topic cli-a: created\ntopic cli-b: created\n",
        "",
    )
    code, out, _ = ottla_command("topics", "list", "-b", address)
    assert code == 0
    assert {"cli-a", "cli-b"} <= set(out.splitlines())
    code, out, _ = ottla_command("topics", "describe", "-b", address, "cli-a")
    assert code == 0
    assert "3 partitions" in out
    code, out, err = ottla_command("topics", "delete", "-b", address, "cli-a", "cli-b")
    assert (code, out, err) == (0, "topic cli-a: deleted\ntopic cli-b: deleted\n", "")
    code, _, err = ottla_command("topics", "delete", "-b", address, "cli-a")
    assert code == 1
    assert err.startswith("ottla: ")
    assert "cli-a" in err
    assert err.count("\n") == 1, "one line, no traceback"


def test_produce_and_consume(address, topic):
    lines = b"a=1\nb=2\nno key\n\xff=\xfe\n"
    code, _, err = ottla_command("produce", "-b", address, "-t", topic, "--key-separator", "=", data=lines)
    assert (code, err) == (0, f"4 records sent to {topic}\n")
    read = ("consume", "-b", address, "-t", topic, "--beginning")
    code, out, err = ottla_command(*read, "--max", "4", "--format", "json")
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    found = {(str(r["key"]), str(r["value"])) for r in records}
    base64 = ("{'base64': '/w=='}", "{'base64': '/g=='}")
    assert found == {("a", "1"), ("b", "2"), ("None", "no key"), base64}
    assert set(records[0]) == {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *read, "--idle", IDLE], capture_output=True, timeout=DEADLINE, check=True
    )
    assert sorted(done.stdout.splitlines()) == [b"1", b"2", b"no key", b"\xfe"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broker_prints_its_address_and_ends_by_a_signal(number):
    command = [sys.executable, "-m", "ottla", "broker", "--port", "0", "--topic", "t:2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())[0]
        with ottla.Admin(address) as admin:
            assert admin.list_topics() == ["t"]
        process.send_signal(number)
        _, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (0, "")


def values(*arguments):
    """The values that `consume` prints, in order of the topics' names and offsets."""
    code, out, err = ottla_command("consume", "--beginning", "--format", "json", *arguments)
    assert (code, err) == (0, "")
    records = sorted((json.loads(line) for line in out.splitlines()), key=lambda r: (r["topic"], r["offset"]))
    return [(r["topic"], r["value"]) for r in records]


def test_consume_reads_several_topics(address):
    both = ("several-a", "several-b")
    assert ottla_command("topics", "create", "-b", address, *both)[0] == 0
    for name in both:
        code, _, err = ottla_command("produce", "-b", address, "-t", name, data=name.encode())
        assert (code, err) == (0, f"1 record sent to {name}\n")
    wanted = [(name, name) for name in both]
    assert values("-b", address, "-t", both[0], "-t", both[1], "--max", "2") == wanted
    assert values("-b", address, "-t", ",".join(both), "--max", "2") == wanted
    assert values("-b", address, "-t", both[1], "--topic", both[1], "--idle", IDLE) == wanted[1:]


def test_produce_sends_to_one_topic(address):
    for given in (["-t", "a,b"], ["-t", "a", "-t", "b"]):
        code, _, err = ottla_command("produce", "-b", address, *given, data=b"x\n")
        assert (code, err) == (1, "ottla: produce sends to one topic, and there are 2: a, b\n")


@pytest.mark.parametrize(
    ("separator", "line", "key", "value"),
    [
        (r"\t", b"k\tv\tw", "k", "v\tw"),
        ("\t", b"k\tv", "k", "v"),
        (r"\x1f", b"k\x1fv", "k", "v"),
        (r"\\", rb"k\v", "k", "v"),
        ("\\", rb"k\tv", "k", "tv"),
        (r"\d", rb"1\d2", "1", "2"),
        ("→", "k→v".encode(), "k", "v"),
    ],
)
def test_the_separator_of_keys(address, topic, separator, line, key, value):
    code, _, err = ottla_command("produce", "-b", address, "-t", topic, "--key-separator", separator, data=line)
    assert code == 0, err
    _, out, _ = ottla_command("consume", "-b", address, "-t", topic, "--beginning", "--max", "1", "--format", "json")
    record = json.loads(out)
    assert (record["key"], record["value"]) == (key, value)


def test_options_stand_before_the_verb_or_after_it(address, topic):
    """Wherever they stand, and the last address counts."""
    nobody = "127.0.0.1:1"
    for given in (
        ["-b", address, "topics"],
        ["topics", "-b", address],
        ["-b", address, "topics", "list"],
        ["topics", "-b", address, "list"],
        ["-b", nobody, "topics", "list", "-b", address],
    ):
        code, out, err = ottla_command(*given)
        assert (code, err) == (0, "")
        assert topic in out.splitlines()
    code, _, err = ottla_command("--config", "a=1", "topics", "--config", "default.api.timeout.ms=1000", "-b", nobody)
    assert code == 1
    assert '"a"' in err or "a:" in err, "what stands before the verb is not lost"
    for stray in (["-b", address], ["--config", "a=1"]):
        code, _, err = ottla_command(*stray, "decode", "00")
        assert code == 2
        assert f"{stray[0]} is not an option of `ottla decode`" in err


def test_ctrl_c_ends_consume(address, topic):
    with ottla.Producer(address) as producer:
        producer.send(topic, b"it reads").result(20)
    command = [sys.executable, "-m", "ottla", "consume", "-b", address, "-t", topic, "--beginning"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "it reads\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (130, "")


def test_a_reader_that_has_seen_enough(address, topic):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"x" * 1000] * 1000)
    command = f"{sys.executable} -m ottla consume -b {address} -t {topic} --beginning --max 1000 | head -1 | wc -c"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert (done.stdout.strip(), done.stderr) == ("1001", "")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["topics", "list", "-b", "127.0.0.1:1", "--config", "default.api.timeout.ms=1000"], 1, "127.0.0.1:1"),
        (["topics", "list", "-b", "localhost"], 1, "host:port"),
        (["topics", "list", "--config", "lingerms=5"], 1, "lingerms"),
        (["topics", "list", "--config", "lingerms"], 2, "KEY=VALUE"),
        (["topics", "create", "a:b"], 2, "NAME:PARTITIONS"),
        (["consume", "-t", "t", "--max", "0"], 2, "from 1 up"),
        (["consume"], 2, "-t"),
        (["consume", "-t", "a,,b"], 2, "empty name"),
        (["consume", "-t", "t", "--idle", "nan"], 2, "not a duration"),
        (["produce", "-t", "t", "--key-separator", ""], 2, "separator is empty"),
        (["produce", "-t", "t", "--key-separator", r"\n"], 2, "line break"),
        (["broker", "--port", "70000"], 2, "from 0 to 65535"),
        (["broker", "--port", "-1"], 2, "from 0 to 65535"),
        (["broker", "--topic", "t:0"], 2, "partitions"),
        (["broker", "--host", ELSEWHERE, "--port", "0"], 1, "this machine has no such address"),
        (["topics", "create", "t", "--replication", "99999"], 2, "from 0 to 32767"),
        (["nothing"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
        (["broker", "--config", "num.partition=1"], 1, "num.partitions"),
    ],
)
def test_errors_are_one_line(arguments, code, text):
    got, _, err = ottla_command(*arguments)
    assert got == code
    assert text in err
    assert "Traceback" not in err


def test_a_port_that_is_taken_hints_at_another_broker(address):
    host, port = address.split(":")
    code, _, err = ottla_command("broker", "--host", host, "--port", port)
    assert code == 1
    assert "another broker" in err


def test_unknown_topics_are_named(address):
    limit = ("--config", "max.block.ms=1000")
    code, _, err = ottla_command("produce", "-b", address, "-t", "no-such", *limit, data=b"x\n")
    assert code == 1
    assert "no-such" in err


@pytest.mark.parametrize("given", [["-t", "typo"], ["-t", "there,typo", "--idle", "4"], ["-t", "typo", "--beginning"]])
def test_consume_refuses_a_topic_that_does_not_exist_and_creates_none(given):
    """Although the broker would create it. No call waits for a timeout: each would take a minute."""
    patience = ("--config", "default.api.timeout.ms=60000")
    with Broker(topics=["there", "types"], config={"auto.create.topics.enable": True}) as broker:
        code, out, err = ottla_command("consume", "-b", broker.bootstrap_servers, *given, *patience)
        assert (code, out) == (1, "")
        assert err == "ottla: topic typo does not exist; did you mean types?\n"
        with ottla.Admin(broker.bootstrap_servers) as admin:
            assert admin.list_topics() == ["there", "types"]


def test_consume_passes_properties_that_only_consumers_have(address, topic):
    code, out, err = ottla_command(
        "consume", "-b", address, "-t", topic, "--idle", "0.1", "--config", "max.poll.records=3"
    )
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ([], ["WARNING ottla.test: w"]),
        (["-v"], ["WARNING ottla.test: w", "INFO ottla.test: i"]),
        (["-vv"], ["WARNING ottla.test: w", "INFO ottla.test: i", "DEBUG ottla.test: d"]),
        (["-v", "config", "-v"], ["WARNING ottla.test: w", "INFO ottla.test: i", "DEBUG ottla.test: d"]),
    ],
)
def test_logs_go_to_standard_error(flags, shown):
    script = (
        "import logging, sys\n"
        "from ottla import cli\n"
        "from ottla.cli import config\n"
        "def say(*_):\n"
        "    log = logging.getLogger('ottla.test')\n"
        "    log.warning('w'), log.info('i'), log.debug('d')\n"
        "config._config = say\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    given = flags if "config" in flags else [*flags, "config"]
    done = subprocess.run(
        [sys.executable, "-c", script, *given], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout == ""
    assert [line.split(" ", 1)[1] for line in done.stderr.splitlines()] == shown


def test_config_lists_the_brokers_settings():
    """Every setting that is listed is taken, at its default."""
    code, out, _ = ottla_command("config", "broker")
    assert code == 0
    assert "auto.create.topics.enable  (broker)" in out
    assert "linger.ms" not in out
    listed = {row["name"]: row["default"] for row in _ottla.broker_properties()}
    assert listed.keys() == set(re.findall(r"^(\S+)  \(broker\)$", out, re.MULTILINE))
    with Broker(config=listed):
        pass
    assert "ottla config broker" in ottla_command("broker", "--help")[1]


def test_config_prints_the_table():
    code, out, _ = ottla_command("config")
    assert code == 0
    assert "linger.ms  (producer)" in out
    assert "default 30000" in out
    code, out, _ = ottla_command("config", "consumer")
    assert "auto.offset.reset" in out
    assert "linger.ms" not in out


@pytest.mark.parametrize("command", ["", "broker", "topics", "topics create", "produce", "consume", "config"])
def test_help_teaches_by_examples(command):
    code, out, _ = ottla_command(*command.split(), "--help")
    assert code == 0
    assert "  ottla " in out


def test_the_page_shows_what_is_printed():
    """As a reader types it in, but for the port and the time of the record."""
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    section = page.split("\n## ")[0]
    (broker, listens), *typed = re.findall(r"^    \$ (.*)\n    (.*)$", section, re.MULTILINE)
    assert len(typed) == 3
    process = subprocess.Popen(
        [sys.executable, "-m", *broker.split(), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        said = process.stdout.readline()
        address = re.search(r"127\.0\.0\.1:\d+", said)[0]
        assert said == listens.replace("127.0.0.1:9092", address) + "\n"
        for line, answer in typed:
            command = line.replace("ottla ", f"{sys.executable} -m ottla -b {address} ", 1)
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=DEADLINE, check=True)
            when = r'(?<="timestamp": )\d+'
            assert re.sub(when, "", done.stdout + done.stderr) == re.sub(when, "", answer) + "\n"
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_version():
    assert ottla_command("--version") == (0, f"ottla {ottla.__version__}\n", "")
