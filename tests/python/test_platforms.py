"""What other platforms lack or have besides, simulated on this one in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

import ottla
from tests.pace import patience

pytestmark = pytest.mark.skipif(os.name == "nt", reason="simulates Windows")

DEADLINE = patience(60)

# Takes from `os`, `signal` and the importable modules what Windows lacks, after the standard library has made its choices.
AS_WINDOWS = """
import asyncio, concurrent.futures, http.client, importlib.metadata, json, logging, multiprocessing, selectors, shutil
import os, signal, socket, ssl, subprocess, sys, sysconfig, tempfile, urllib.request

sysconfig.get_config_vars()

for name in ("fork", "register_at_fork", "getuid", "geteuid", "pread", "pipe2", "sched_getaffinity", "uname", "WNOHANG"):
    delattr(os, name)
for name in ("SIGHUP", "SIGUSR2", "SIGKILL", "SIGALRM", "SIGCHLD", "setitimer", "pthread_sigmask"):
    delattr(signal, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
# Ctrl-Break: a number that has no handler yet.
signal.SIGBREAK = signal.SIGUSR1
sys.platform = "win32"

class Loop(asyncio.SelectorEventLoop):
    def add_reader(self, *_):
        raise NotImplementedError
    def add_signal_handler(self, *_):
        raise NotImplementedError
"""


def started(script, *arguments, **streams):
    return subprocess.Popen([sys.executable, "-c", AS_WINDOWS + script, *arguments], **streams)


def run(script, *arguments):
    with started(script, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert process.returncode == 0, err
    return out


def test_every_module_can_be_imported_and_a_record_makes_the_round():
    """`import ottla` failed on Windows: six modules called `os.register_at_fork` at import."""
    script = """
import importlib, pkgutil
import ottla, ottla.aio, ottla.testing
for module in pkgutil.walk_packages(ottla.__path__, "ottla."):
    if not module.name.startswith(("ottla.spark", "ottla.integrations")) and not module.name.endswith(("__main__", "otel", "pytest_plugin", "_botocore")):
        importlib.import_module(module.name)

async def main(address):
    async with ottla.aio.Producer(address) as producer:
        await (await producer.send("t", b"value"))
    async with ottla.aio.Consumer(address, topics="t", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            return record.value

with ottla.testing.Broker(topics=["t"]) as broker, asyncio.Runner(loop_factory=Loop) as runner:
    print(runner.run(main(broker.bootstrap_servers)))
    print([record.value for record in ottla.read(broker.bootstrap_servers, "t")])
"""
    assert run(script) == "b'value'\n[b'value']\n"


def test_ctrl_break_ends_the_broker_as_ctrl_c_does():
    """SIGBREAK ended the process at once. It is the one that a program of Windows can send to another."""
    script = "from ottla import cli; sys.exit(cli.main(['broker', '--port', '0', '--topic', 't']))"
    with started(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())[0]
            with ottla.Admin(address) as admin:
                assert admin.list_topics() == ["t"]
            process.send_signal(signal.SIGUSR1)
            _, err = process.communicate(timeout=DEADLINE)
            assert (process.returncode, err) == (0, "")
        finally:
            process.kill()


def test_ctrl_break_leaves_the_group(address, topic):
    with ottla.Producer(address) as producer:
        producer.send(topic, b"first").result(DEADLINE)
    script = "from ottla import cli; sys.exit(cli.main(sys.argv[1:]))"
    read = ("consume", "-b", address, "-t", topic, "--beginning", "--config", f"group.id={topic}")
    with started(script, *read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "first\n"
            process.send_signal(signal.SIGUSR1)
            _, err = process.communicate(timeout=DEADLINE)
            assert (process.returncode, err) == (143, "")
        finally:
            process.kill()
    with ottla.Admin(address) as admin:
        assert admin.describe_groups([topic])[topic].members == []


def test_ctrl_break_lets_the_running_micro_batch_of_a_job_end():
    pytest.importorskip("pyspark")
    script = """
from ottla.spark.ingest import job
stop = job.Stop()
with job._signals(stop):
    signal.raise_signal(signal.SIGBREAK)
print(stop.softly.is_set(), stop.at_once.is_set(), signal.getsignal(signal.SIGBREAK) == signal.SIG_DFL)
"""
    assert run(script) == "True False True\n"


def test_kerberos_is_an_error_that_says_so():
    script = """
import ottla
try:
    ottla.Producer("127.0.0.1:1", security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI")
except ottla.errors.ConfigError as error:
    print(error)
"""
    assert "GSSAPI is not supported on Windows" in run(script)


def test_nothing_depends_on_the_locales_encoding(tmp_path):
    """PEP 597: Python warns where a text file is opened in the encoding of the locale."""
    script = """
import ottla, sys
from ottla import cli, testing
certificates = testing.Certificates(sys.argv[1])
with testing.Broker(topics=["t"], listeners=["SSL"], tls=certificates, data_dir=sys.argv[1] + "/data") as broker:
    settings = {"security_protocol": "SSL", "ssl_ca_location": str(certificates.ca)}
    with ottla.Producer(broker.bootstrap_servers, **settings) as producer:
        producer.send("t", b"v").result(60)
"""
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
    done = subprocess.run(
        [sys.executable, *strict, "-c", script, tmp_path], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
