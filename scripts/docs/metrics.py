"""Write docs/reference/metrics.md, the list of all metrics, from the one table in crates/engine.

Run it after the table changed and the extension was built; a test holds the file against the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla._ottla import metric_table

if TYPE_CHECKING:
    from ottla._ottla import MetricRow

TARGET = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
HEAD = """# Metrics

Written by `scripts/docs/metrics.py` from the table in `crates/engine/src/metrics/table.rs`.

`client.metrics()` returns these values under the names, groups and tags of Kafka's Java client. Names that end in
`-total` count from the beginning of the client; `-rate`, `-avg`, `-max`, `-min` and `-ratio` are about the last
`metrics.num.samples` samples of `metrics.sample.window.ms` each. A value is NaN where there is nothing to measure yet.
Every metric has the tag `client-id`; the column *tags* has the others. Requests of a connection's set-up (versions and
authentication) are not counted.

`client.metrics().prometheus_text()` writes them as Prometheus scrapes them: `record-send-total` of
`producer-topic-metrics` is `kafka_producer_topic_record_send_total{client_id="...",topic="..."}`. Further clients are
arguments: `producer.metrics().prometheus_text(consumer.metrics())`; clients without a `client.id` have
ids of their own, such as `producer-1`, `consumer-GROUP-1` and `adminclient-1`.

Metrics of the Java client that are not here:

- `io-time-*`, `io-wait-*`, `io-ratio`, `io-wait-ratio`, `select-rate` and `select-total` measure the thread in which
  one Java client waits for its sockets. Here all clients of a process share a few threads; they belong to none of them.
- `version` and `commit-id` of `app-info` are texts, and each value here is a number. `ottla.__version__` has the
  version.
- `successful-authentication-no-reauth-total` is about peers that cannot authenticate again; this client can.
- `commit-sync-time-ns-total` and `committed-time-ns-total`: here a caller seldom waits in either.
- `application-event-*`, `background-event-*`, `unsent-requests-*` and `time-between-network-thread-poll-*` measure the
  queues between two threads of the Java client. There are no such queues here.

`consumer-coordinator-metrics` are there where `group.id` is set.
"""
ROLES = {"producer": "Producer", "consumer": "Consumer", "share-consumer": "Share consumer", "admin": "Admin client"}


def text() -> str:
    """The page."""
    rows = metric_table()
    return HEAD + "".join(
        _section(title, [row for row in rows if row["role"] == role]) for role, title in ROLES.items()
    )


def _section(title: str, rows: list[MetricRow]) -> str:
    lines = ["", f"## {title}", ""]
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += [f"### {group}", "", "| name | tags | unit | meaning |", "|---|---|---|---|"]
        for row in rows:
            if row["group"] == group:
                tags = ", ".join(tag for tag in row["tags"] if tag != "client-id")
                lines.append(f"| {row['name']} | {tags} | {row['unit']} | {row['doc']} |")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
