"""The metrics of our clients against those of Kafka's own, after the same work."""

from __future__ import annotations

import re

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

import ottla
from ottla._ottla import metric_table
from ottla.testing import Broker
from tests.conformance.kafka import NEWEST, needs_kafka, run

# What only Kafka's client has, as docs/reference/metrics.md says why: its I/O thread, texts, and what is not there here.
ONLY_THEIRS = re.compile(
    r"io-(time|wait)-.*|io-(wait-)?ratio|select-(rate|total)|commit-id|version|successful-authentication-no-reauth-total"
    r"|commit-sync-time-ns-total|committed-time-ns-total"
    r"|(application|background)-event.*|unsent-requests-.*|time-between-network-thread-poll-.*"
)
# Java's clients by how they consume, and the role that a client of ours has then.
ROLES = {"classic member": "consumer", "consumer member": "consumer"}
# What a member has done once it has read and committed one record.
MEMBER = {"assigned-partitions": 1, "commit-total": 1, "rebalance-total": 1}
# Values that do not depend on time, and how many bytes a batch of one record of 100 bytes has.
SAME = {
    "producer": {
        "record-send-total": 1,
        "record-error-total": 0,
        "record-retry-total": 0,
        "batch-size-avg": 170,
        "batch-size-max": 170,
        "records-per-request-avg": 1,
        "compression-rate-avg": 1,
        "requests-in-flight": 0,
        "waiting-threads": 0,
        "byte-total": 170,
        "compression-rate": 1,
    },
    "consumer": {
        "records-consumed-total": 1,
        "records-per-request-avg": 1,
        "records-lag": 0,
        "records-lag-max": 0,
        "records-lead": 1,
        "records-lead-min": 1,
        "fetch-throttle-time-max": 0,
    },
    "admin": {"failed-authentication-total": 0, "connection-close-total": 0},
}


@needs_kafka
def test_names_groups_tags_and_values_are_those_of_kafkas_clients() -> None:
    theirs: dict[tuple[str, str, str, str], set[str]] = {}
    names_in_pushes: set[str] = set()
    with Broker(topics=["ours", "theirs"], config={"telemetry.metrics": "*"}) as broker:
        for line in run(NEWEST, "MetricsOracle", broker.bootstrap_servers, "theirs").splitlines():
            client, group, name, tags, value, pushed = line.split("\t")
            theirs.setdefault((ROLES.get(client, client), group, name, tags), set()).add(value)
            if client in ROLES and name in MEMBER:
                assert float(value) == MEMBER[name], (client, name)
            names_in_pushes.add(pushed)
        measured: dict[str, ottla.Metrics] = {}
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("ours", bytes(100), partition=0).result(20)
            producer.client_instance_id(20)
            measured["producer"] = producer.metrics()
        with ottla.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([ottla.TopicPartition("ours", 0, 0)])
            assert len(consumer.poll(20)) == 1
            consumer.client_instance_id(20)
            measured["consumer"] = consumer.metrics()
        for protocol in ("classic", "consumer"):
            member = {"group_id": f"our-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
            with ottla.Consumer(
                broker.bootstrap_servers, topics="ours", enable_auto_commit=False, **member
            ) as consumer:
                assert len(consumer.poll(20)) == 1
                consumer.commit()
                found = {key.name: v for key, v in consumer.metrics().items() if key.name in MEMBER}
                assert found == MEMBER, protocol
        with ottla.Admin(broker.bootstrap_servers) as admin:
            admin.list_topics()
            admin.client_instance_id(20)
            measured["admin"] = admin.metrics()
        pushed_by_us = {
            metric.name
            for push in broker.telemetry()
            for resource in MetricsData.FromString(push.metrics).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    assert len(pushed_by_us) > 100
    assert pushed_by_us <= names_in_pushes
    ours = {(row["role"], row["group"], row["name"], ",".join(row["tags"])) for row in metric_table()}
    assert ours <= theirs.keys()
    missing = {name for _, _, name, _ in theirs.keys() - ours}
    assert {name for name in missing if not ONLY_THEIRS.fullmatch(name)} == set()
    for role, values in SAME.items():
        for name, value in values.items():
            found = {v for key, v in measured[role].items() if key.name == name}
            assert found == {value}, (role, name)
            kafkas = {float(v) for key, all_of in theirs.items() if key[0] == role and key[2] == name for v in all_of}
            assert kafkas == {value}, (role, name)
