"""`ottla broker` with security, as a user starts it."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys

import pytest

from tests.pace import patience
from tests.python.test_cli import ottla_command
from tests.wire import Connection


def test_broker_makes_certificates_and_tells_its_listeners(tmp_path):
    command = [
        *(sys.executable, "-m", "ottla", "broker", "--topic", "t", "--make-certificates", str(tmp_path / "tls")),
        *(
            "--listener",
            "SASL_SSL://127.0.0.1:0 mechanisms=PLAIN",
            "--listener",
            "SSL name=MUTUAL client-auth=required",
        ),
        *("--user", "alice:alice-secret", "--client-certificate", "bob", "--acl", "alice describe topic:t"),
        *("--super-user", "CN=bob", "--quota", "user:alice producer_byte_rate=1048576"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ca = re.match(r"clients trust (.*ca\.pem)", process.stdout.readline())[1]
        bob = re.match(r"bob has (\S+) and (\S+)", process.stdout.readline())
        told = re.findall(r"(127\.0\.0\.1:\d+) \((\w+)\)", process.stdout.readline())
        listeners = {name: address for address, name in told}
        tls = ssl.create_default_context(cafile=ca)
        with Connection(listeners["SASL_SSL"], tls) as alice:
            assert alice.authenticate("PLAIN", b"\0alice\0alice-secret")["error_code"] == 0
            assert [topic["name"] for topic in alice.ask("Metadata", 9, {"topics": None})["topics"]] == ["t"]
        tls.load_cert_chain(bob[1], bob[2])
        with Connection(listeners["MUTUAL"], tls) as root:
            entries = root.ask("DescribeClientQuotas", 1, {"components": [], "strict": False})["entries"]
            assert [value["value"] for entry in entries for value in entry["values"]] == [1048576.0]
    finally:
        process.terminate()
        out, err = process.communicate(timeout=patience(30))
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--user", "alice"], 2, "alice:alice-secret"),
        (["--user", ":hush"], 2, "a name, a colon and a secret"),
        (["--client-certificate", "bob"], 1, "needs --make-certificates"),
        (["--listener", "SASL_SSL://127.0.0.1:0"], 1, "TLS needs a certificate"),
        (["--listener", "SASL_PLAINTEXT://127.0.0.1:0"], 1, "needs users"),
        (["--listener", "PLAINTEXT ssl=yes"], 1, "PROTOCOL"),
        (["--acl", "alice topic:t"], 1, "PRINCIPAL OPERATION"),
        (["--quota", "alice fast"], 1, "KEY=VALUE"),
        (["--jwks", "/no/such/file"], 1, "No such file"),
        (["--tls", "/no/such/file", "/no/such/key"], 1, "No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, code, what):
    status, out, err = ottla_command("broker", "--port", "0", *arguments)
    assert (status, out) == (code, "")
    assert what in err
    assert "Traceback" not in err
    assert "hush" not in err


def test_help_teaches():
    _, out, _ = ottla_command("broker", "--help")
    for word in ("--make-certificates ./tls", "client-auth=required", 'topic:flights-*"', "producer_byte_rate=1048576"):
        assert word in out
