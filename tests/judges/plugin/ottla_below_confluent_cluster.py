"""A plugin of pytest: confluent_kafka runs on ottla, and the cluster that its tests start by trivup is the embedded broker.

With `BROKERS` in the environment, the tests that need no users run there, such as on real Kafka.
"""

import os
import sys
import types

import pytest
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker, Registry

# For comparisons: the suite on librdkafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.confluent_kafka import install

    install()
# What the tests' own cluster sets, as far as the embedded broker has it.
LOCKS = {f"group.share.{name}record.lock.duration.ms": 1000 for name in ("", "min.")}


class KafkaCluster:
    """The embedded broker and registry with the methods of trivup's cluster that the tests call."""

    def __init__(self, *, sasl_mechanism=None, sasl_users=None, with_sr=False, **_):
        self.registry = Registry() if with_sr else None
        if self.registry is not None:
            self.registry.start()
            self.sr = {"url": self.registry.url}
        config = {**LOCKS, "auto.create.topics.enable": True}
        self.sasl = None
        if sasl_mechanism is None:
            self.broker = Broker(config=config, super_users=["ANONYMOUS"]).start()
            return
        user, _, password = sasl_users.partition("=")
        self.sasl = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": sasl_mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        config["allow.everyone.if.no.acl.found"] = True
        users = {user: password}
        self.broker = Broker(config=config, listeners=["SASL_PLAINTEXT"], users=users, acls=[]).start()

    def wait_operational(self):
        pass

    def client_conf(self):
        return {"bootstrap.servers": self.broker.bootstrap_servers, **(self.sasl or {})}

    def stop(self, cleanup=True):
        self.broker.stop()
        if self.registry is not None:
            self.registry.stop()


trivup = types.ModuleType("trivup")
clusters = types.ModuleType("trivup.clusters")
module = types.ModuleType("trivup.clusters.KafkaCluster")
module.KafkaCluster = KafkaCluster
sys.modules.update({"trivup": trivup, "trivup.clusters": clusters, "trivup.clusters.KafkaCluster": module})


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """A signal that comes after the call it was meant for ends its test, not the run."""
    try:
        return (yield)
    except KeyboardInterrupt:
        raise AssertionError("the test was interrupted") from None
