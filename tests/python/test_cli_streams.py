"""The command line where its streams, signals and brokers are not as usual."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

import ottla
from ottla.testing import Broker
from tests.pace import patience
from tests.waiting import wait_until

DEADLINE = patience(30)


def ottla_command(*arguments, data=None, closed=None, **environment):
    """Run a command; `closed` is the number of a stream that it does not have."""
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=data,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, **environment},
        preexec_fn=None if closed is None else lambda: os.close(closed),
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@contextmanager
def running(*arguments, **streams):
    process = subprocess.Popen([sys.executable, "-m", "ottla", *arguments], **streams)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def values(address, topic):
    return [record.value for record in ottla.read(address, topic)]


# --- consume ---


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_idle_time_begins_when_the_group_has_given_partitions(protocol):
    """Kafka waits `group.initial.rebalance.delay.ms`, 3 s, for other members before the first of a group gets any."""
    config = {"group.initial.rebalance.delay.ms": "1500"}
    with Broker(topics={"t": 2}, config=config) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"there")
        if protocol == "consumer":
            broker.delay("ConsumerGroupHeartbeat", 1.5)
        group = ("--config", "group.id=g", "--config", f"group.protocol={protocol}")
        read = ("consume", "-b", broker.bootstrap_servers, "-t", "t", "--beginning", "--idle", "0.2", *group)
        assert ottla_command(*read) == (0, "there\n", "")


@pytest.mark.parametrize("request_name", ["Fetch", "ListOffsets", "FindCoordinator", "OffsetFetch"])
def test_idle_time_begins_when_partitions_are_read(request_name):
    with Broker(topics=["t"], config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"there")
        broker.delay(request_name, 1.5)
        group = ("--config", "group.id=g") if request_name in {"FindCoordinator", "OffsetFetch"} else ()
        read = ("consume", "-b", broker.bootstrap_servers, "-t", "t", "--beginning", "--idle", "0.2", *group)
        assert ottla_command(*read) == (0, "there\n", "")


def test_a_member_without_partitions_is_idle():
    """Another member of the group has all partitions."""
    with (
        Broker(topics=["t"], config={"group.initial.rebalance.delay.ms": "0"}) as broker,
        ottla.Consumer(broker.bootstrap_servers, topics="t", group_id="g") as first,
    ):
        first.poll(0)
        read = ("consume", "-b", broker.bootstrap_servers, "-t", "t", "--idle", "0.5", "--config", "group.id=g")
        with running(*read, stderr=subprocess.PIPE) as process:
            # The first member goes on polling, so that the group can rebalance.
            wait_until(lambda: first.poll(0.1) is not None and process.poll() is not None, "the command ends")
            assert (process.communicate()[1], process.returncode) == (b"", 0)


def test_idle_is_no_end_while_a_leader_is_away():
    with Broker(nodes=2, topics=["t"]) as broker:
        leader = broker.leader("t")
        other = broker.bootstrap_servers.split(",")[1 - broker.nodes.index(leader)]
        broker.hang("ListOffsets", count=1000, node=leader)
        config = ("--config", "default.api.timeout.ms=1000", "--config", "request.timeout.ms=500")
        code, out, err = ottla_command("consume", "-b", other, "-t", "t", "--idle", "0.1", *config)
        assert (code, out) == (1, "")
        assert err.splitlines()[-1].startswith("ottla: ")
        assert "t" in err


def test_a_reader_that_leaves_an_idle_topic_ends_the_command(address, topic):
    with ottla.Producer(address) as producer:
        producer.send(topic, b"first").result(20)
    with running("consume", "-b", address, "-t", topic, "--beginning", stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"first\n"
        process.stdout.close()
        assert process.wait(DEADLINE) == 0


def test_sigterm_leaves_the_group(address, topic):
    with ottla.Producer(address) as producer:
        producer.send(topic, b"first").result(20)
    group = ("--config", f"group.id={topic}")
    read = ("consume", "-b", address, "-t", topic, "--beginning", *group)
    with running(*read, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE)
        assert (process.returncode, err) == (143, b"")
    with ottla.Admin(address) as admin:
        assert admin.describe_groups([topic])[topic].members == []


# --- produce ---


def test_a_value_keeps_each_carriage_return_but_that_of_the_lines_end(address, topic):
    lines = b"unix\nwindows\r\ntwo\r\r\nin\rside\n\r\n\nlast\r"
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(f"{topic}-one", 1)])
    assert ottla_command("produce", "-b", address, "-t", f"{topic}-one", data=lines)[0] == 0
    assert values(address, f"{topic}-one") == [b"unix", b"windows", b"two\r", b"in\rside", b"", b"", b"last\r"]


def test_a_line_that_cannot_be_sent_is_named_and_those_before_it_are_sent(address, topic):
    lines = b"a\nb\n" + b"c" * 2_000_000 + b"\nd\n"
    slow = ("--config", "linger.ms=60000")
    code, out, err = ottla_command("produce", "-b", address, "-t", topic, *slow, data=lines)
    assert (code, out) == (1, "")
    sent, error = err.splitlines()
    assert sent == f"2 records sent to {topic}"
    assert error.startswith("ottla: line 3: a record of 2000088 bytes is larger than max.request.size")
    assert sorted(values(address, topic)) == [b"a", b"b"]


def test_a_line_that_a_broker_refuses_is_named(address, topic):
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(f"{topic}-small", 1, config={"max.message.bytes": "200"})])
    lines = b"a\n" + b"x" * 500 + b"\n"
    slow = ("--config", "batch.size=1")
    code, _, err = ottla_command("produce", "-b", address, "-t", f"{topic}-small", *slow, data=lines)
    assert code == 1
    assert f"1 record sent to {topic}-small" in err.splitlines()
    assert err.splitlines()[-1].startswith("ottla: line 2: ")


def test_a_log_that_speaks_meanwhile_cuts_no_line(address, topic):
    """A warning of a client's own thread came between the count of records and the end of that line."""
    program = """
import sys
from ottla import cli

class Slow:
    "Another thread writes after each write of this one."
    def write(self, text):
        sys.__stderr__.write(text)
        sys.__stderr__.write("LOG\\n")
    def flush(self):
        sys.__stderr__.flush()

sys.stderr = Slow()
sys.exit(cli.main(sys.argv[1:]))
"""
    lines = b"a\n" + b"c" * 2_000_000 + b"\n"
    done = subprocess.run(
        [sys.executable, "-c", program, "produce", "-b", address, "-t", topic],
        input=lines,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    sent, log, error, last = done.stderr.decode().splitlines()
    assert (done.returncode, sent, log, last) == (1, f"1 record sent to {topic}", "LOG", "LOG")
    assert error.startswith("ottla: line 2: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_sends_the_lines_that_linger(address, topic, number, code):
    """As Kafka's console producer does, which closes its producer at the end, and kcat."""
    script = (
        "import sys, ottla\n"
        "from ottla import cli\n"
        "send = ottla.Producer.send\n"
        "def telling(*args, **options):\n"
        "    delivery = send(*args, **options)\n"
        "    print('taken', flush=True)\n"
        "    return delivery\n"
        "ottla.Producer.send = telling\n"
        f"sys.exit(cli.main(['produce', '-b', '{address}', '-t', '{topic}', '--config', 'linger.ms=60000']))\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        try:
            process.stdin.write(b"one\ntwo\n")
            process.stdin.flush()
            assert [process.stdout.readline() for _ in range(2)] == [b"taken\n"] * 2
            process.send_signal(number)
            err = process.stderr.read()
            assert (process.wait(DEADLINE), err.decode()) == (code, f"2 records sent to {topic}\n")
        finally:
            process.kill()
    assert sorted(values(address, topic)) == [b"one", b"two"]


# --- closed and full streams ---


def test_a_closed_input_is_an_error(address, topic):
    code, _, err = ottla_command("produce", "-b", address, "-t", topic, closed=0)
    assert code == 1
    assert err.splitlines()[-1] == "ottla: standard input is closed: start ottla with it open, or redirect it"
    code, _, err = ottla_command("decode", closed=0)
    assert (code, err) == (1, "ottla: standard input is closed: start ottla with it open, or redirect it\n")


@pytest.mark.parametrize("command", ["topics", "consume", "last", "config", "decode", "example"])
def test_a_closed_output_is_an_error(address, topic, command):
    with ottla.Producer(address) as producer:
        producer.send(topic, b"x").result(20)
    arguments = {
        "topics": ("topics", "-b", address),
        "consume": ("consume", "-b", address, "-t", topic, "--beginning", "--max", "1"),
        "last": ("consume", "-b", address, "-t", topic, "--last", "1"),
        "config": ("config",),
        "decode": ("decode", "0000000f001200000000000700056f74746c61"),
        "example": ("ingest", "--example"),
    }[command]
    code, _, err = ottla_command(*arguments, closed=1)
    assert (code, err) == (1, "ottla: standard output is closed: start ottla with it open, or redirect it\n")


def test_a_command_without_output_needs_none(address, topic):
    code, _, err = ottla_command("produce", "-b", address, "-t", topic, data=b"x\n", closed=1)
    assert (code, err) == (0, f"1 record sent to {topic}\n")


def test_errors_do_not_go_to_the_output_if_there_is_no_other_place(address):
    assert ottla_command("topics", "describe", "-b", address, "no-such", closed=2) == (1, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("command", ["topics", "config"])
def test_a_full_disk_is_one_line(address, topic, command):
    given = [command, "-b", address] if command == "topics" else [command]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *given], stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE, check=False
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"No space left" in done.stderr


# --- encodings ---

ASCII = {"PYTHONIOENCODING": "ascii"}
# A locale without UTF-8, and Python told not to read it as UTF-8 all the same.
C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("environment", [ASCII, C], ids=["output", "locale"])
def test_names_that_the_terminal_lacks_letters_for(address, topic, environment):
    code, _, err = ottla_command("topics", "describe", "-b", address, "übung", **environment)
    assert code == 1
    assert "\\xfcbung" in err
    assert err.count("\n") == 1
    with ottla.Producer(address) as producer:
        producer.send(topic, "für".encode()).result(20)
    group = ("--config", f"group.id=gruppe-ü-{topic}-{len(environment)}", "--max", "1", "--beginning")
    code, out, err = ottla_command("consume", "-b", address, "-t", topic, *group, **environment)
    assert (code, out, err) == (0, "für\n", "")
    with ottla.Admin(address) as admin:
        assert f"gruppe-ü-{topic}-{len(environment)}" in [group.group_id for group in admin.list_groups()]


def test_output_shows_letters_that_the_encoding_lacks_by_number():
    script = (
        "import sys; from ottla import cli; from ottla.cli import config; config._config = lambda _: print('für'); "
        "sys.exit(cli.main(['config']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        timeout=DEADLINE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"f\\xfcr\n", b"")


def test_bytes_of_no_encoding_are_refused():
    code, _, err = ottla_command("topics", "describe", os.fsdecode(b"t-\xff"))
    assert code == 2
    assert "is not UTF-8" in err
    code, _, err = ottla_command("topics", "-b", os.fsdecode(b"\xff:1"))
    assert code == 1
    assert "of the command line is not text" in err
    assert err.count("\n") == 1
