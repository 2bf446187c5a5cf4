"""A plugin of pytest: aiokafka runs on ottla, and what its tests start in Docker is the embedded broker."""

import gc
import importlib
import os
import shlex
import sys
import types
import warnings
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker, Certificates, Listener

# For comparisons: the suite on aiokafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.aiokafka import install

    install()
PATIENCE = 20
SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class Container:
    """The embedded broker with the listeners of aiokafka's image, and the two of Kafka's tools that the tests call."""

    def __init__(self, ports, ssl_folder):
        self.certificates = Certificates()
        client = self.certificates.client("client")
        for name, source in (("ca.crt", client.ca), ("client.crt", client.certificate), ("client.key", client.key)):
            Path(ssl_folder, name).write_bytes(Path(source).read_bytes())
        protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        self.broker = Broker(
            listeners=[Listener(protocol, port=port) for protocol, port in zip(protocols, ports, strict=True)],
            tls=self.certificates,
            users={"admin": "admin", "test": "test"},
            super_users=["admin", "ANONYMOUS"],
            config={"num.partitions": 2, "allow.everyone.if.no.acl.found": True, "auto.create.topics.enable": True},
        ).start()
        self.admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}", "log_level": 0})

    def exec_run(self, command, **_):
        words = shlex.split(command)
        try:
            if words[0].endswith("kafka-acls.sh"):
                self.acls(words)
            elif words[0].endswith("kafka-configs.sh"):
                name = words[words.index("--entity-name") + 1]
                info = [UserScramCredentialUpsertion(name, ScramCredentialInfo(m, 4096), name.encode()) for m in SCRAM]
                for future in self.admin.alter_user_scram_credentials(info).values():
                    future.result(PATIENCE)
        except Exception as error:
            return 1, repr(error).encode()
        return 0, b""

    def acls(self, words):
        if "--list" in words:
            return
        value = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
        allows = "--allow-principal" in words
        principal = value["--allow-principal" if allows else "--deny-principal"]
        kind, name = next(
            (kind, value.get(option, "kafka-cluster") if option != "--cluster" else "kafka-cluster")
            for option, kind in (
                ("--topic", ResourceType.TOPIC),
                ("--group", ResourceType.GROUP),
                ("--transactional-id", ResourceType.TRANSACTIONAL_ID),
                ("--cluster", ResourceType.BROKER),
            )
            if option in words
        )
        operation = AclOperation[value["--operation"].upper()]
        permission = AclPermissionType.ALLOW if allows else AclPermissionType.DENY
        fields = (kind, name, ResourcePatternType.LITERAL, principal, "*", operation, permission)
        calls = (
            self.admin.create_acls([AclBinding(*fields)])
            if "--add" in words
            else self.admin.delete_acls([AclBindingFilter(*fields)])
        )
        for future in calls.values():
            future.result(PATIENCE)

    def stop(self):
        del self.admin
        self.broker.stop()
        self.certificates.close()


class Containers:
    @staticmethod
    def run(*, environment=None, volumes=None, command=None, **_):
        if command is not None:
            return types.SimpleNamespace(exec_run=lambda *_, **__: (0, b""), stop=lambda: None)
        names = ("PORT", "SSL_PORT", "SASL_PLAINTEXT_PORT", "SASL_SSL_PORT")
        return Container([environment[f"ADVERTISED_{name}"] for name in names], next(iter(volumes)))


docker = types.ModuleType("docker")
docker.from_env = lambda: types.SimpleNamespace(
    images=types.SimpleNamespace(pull=lambda _: None), containers=Containers, close=lambda: None
)
docker.models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=Container))
sys.modules["docker"] = docker


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.option.docker_image, config.option.no_pull = "embedded:4.4.0", True


def pytest_sessionstart():
    # A keytab of the container's Kerberos.
    utilities = importlib.import_module("tests._testutil")
    utilities.KerberosUtils.create_keytab = lambda self: setattr(self, "keytab", Path("none"))


FAILED = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.failed:
        FAILED.add(item.nodeid)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """What a test that failed did not close is no failure of the tests after it."""
    if item.nodeid in FAILED:
        sys.last_exc = sys.last_value = sys.last_traceback = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
