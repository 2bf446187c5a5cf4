"""The command line, as a user starts it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import ottla


def ottla_command(*arguments, data=None, timeout=30):
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments], input=data, capture_output=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_topics(address):
    assert ottla_command("topics", "create", "-b", address, "cli-a:3", "cli-b") == (0, "", "")
    code, out, _ = ottla_command("topics", "list", "-b", address)
    assert code == 0
    assert {"cli-a", "cli-b"} <= set(out.splitlines())
    code, out, _ = ottla_command("topics", "describe", "-b", address, "cli-a")
    assert code == 0
    assert "3 partitions" in out
    assert ottla_command("topics", "delete", "-b", address, "cli-a", "cli-b") == (0, "", "")
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
        [sys.executable, "-m", "ottla", *read, "--idle", "1"], capture_output=True, timeout=30, check=True
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
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (0, "")


def test_ctrl_c_ends_consume(address, topic):
    command = [sys.executable, "-m", "ottla", "consume", "-b", address, "-t", topic]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (130, "")


def test_a_reader_that_has_seen_enough(address, topic):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"x" * 1000] * 1000)
    command = f"{sys.executable} -m ottla consume -b {address} -t {topic} --beginning --max 1000 | head -1 | wc -c"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=True)
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


def test_unknown_topics_are_named(address):
    limit = ("--config", "max.block.ms=1000")
    code, _, err = ottla_command("produce", "-b", address, "-t", "no-such", *limit, data=b"x\n")
    assert code == 1
    assert "no-such" in err
    code, _, err = ottla_command("consume", "-b", address, "-t", "no-such", "--config", "default.api.timeout.ms=1000")
    assert code == 1
    assert "no-such" in err


def test_config_prints_the_table():
    code, out, _ = ottla_command("config")
    assert code == 0
    assert "linger.ms  (producer)" in out
    assert "default 30000" in out
    code, out, _ = ottla_command("config", "consumer")
    assert "auto.offset.reset" in out
    assert "linger.ms" not in out


@pytest.mark.parametrize("command", ["", "broker", "topics create", "produce", "consume", "config"])
def test_help_teaches_by_examples(command):
    code, out, _ = ottla_command(*command.split(), "--help")
    assert code == 0
    assert "  ottla " in out


def test_version():
    assert ottla_command("--version") == (0, f"ottla {ottla.__version__}\n", "")
