"""A plugin of pytest: the Kafka tests of dlt's verified sources run on the embedded broker, by confluent-kafka itself or by ottla below it.

The suite marks them as skipped, since it has no broker, and loads into PostgreSQL. Here they load into DuckDB.
"""

import os

import dlt
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker

if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.confluent_kafka import install

    install()
BROKER = Broker(listeners=["SASL_PLAINTEXT mechanisms=PLAIN"], users={"dlt": "secret"}).start()
CREDENTIALS = {
    "bootstrap_servers": BROKER.bootstrap_servers,
    "group_id": "dlt",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanisms": "PLAIN",
    "sasl_username": "dlt",
    "sasl_password": "secret",
}
os.environ |= {f"SOURCES__KAFKA__CREDENTIALS__{name.upper()}": value for name, value in CREDENTIALS.items()}
GET = type(dlt.secrets).get


def get(self, key, expected_type=None):
    """The fixtures look for all of them as one secret, which the environment does not have."""
    if key != "sources.kafka.credentials":
        return GET(self, key, expected_type)
    found = expected_type()
    vars(found).update(CREDENTIALS)
    return found


type(dlt.secrets).get = get
PIPELINE = dlt.pipeline


def pipeline(*arguments, destination=None, **options):
    return PIPELINE(*arguments, destination="duckdb" if destination == "postgres" else destination, **options)


dlt.pipeline = pipeline


def pytest_collection_modifyitems(items):
    for item in items:
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "skip"]


def pytest_unconfigure():
    BROKER.stop()
