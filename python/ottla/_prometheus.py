"""Metrics in the text format that Prometheus scrapes (exposition format 0.0.4)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, TypeVar

from ottla import _ottla
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# As `ottla.MetricName`: name, group and tags.
K = TypeVar("K", bound="tuple[str, str, tuple[tuple[str, str], ...]]")

CLIENT_ID = "client-id"
TOTAL = "-total"
# The labels of a series, besides those of the client.
LEVELS = (("partition", "partition"), ("topic", "topic"), ("node-id", "node"))
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text(clients: Iterable[Mapping[K, float]]) -> str:
    """The metrics of clients, each name once.

    Raises:
        ArgumentError: Two clients have the same `client.id`, and so the same series.
    """
    docs = {
        (row["group"], row["name"], frozenset(row["tags"]) - {CLIENT_ID}): row["doc"] for row in _ottla.metric_table()
    }
    series: dict[str, dict[str, float]] = {}
    abouts: dict[str, str] = {}
    for metrics in clients:
        for (kafkas, group, tags), value in metrics.items():
            # Where there is nothing to measure yet, Prometheus wants no sample.
            if math.isnan(value):
                continue
            name = _name(kafkas, group, dict(tags))
            labels = ",".join(f'{_plain(tag)}="{held.translate(ESCAPES)}"' for tag, held in tags)
            samples = series.setdefault(name, {})
            if labels in samples:
                raise ArgumentError(
                    f"two of these clients measure {name}{{{labels}}}: give each client a client.id of its own"
                )
            # A rate of nothing may be -0.0.
            samples[labels] = value + 0.0
            abouts.setdefault(name, docs.get((group, kafkas, frozenset(dict(tags)) - {CLIENT_ID}), kafkas))
    return "".join(_family(name, abouts[name], samples) for name, samples in sorted(series.items()))


def _name(name: str, group: str, tags: Mapping[str, str]) -> str:
    """A name for each kind of series: sums over one that has clients and their topics would count twice."""
    group = group.removesuffix("-metrics").removeprefix("kafka-")
    level = next((word for tag, word in LEVELS if tag in tags), "")
    parts = ["kafka", group, level if level not in group.split("-") else "", name]
    return _plain("_".join(part for part in parts if part))


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _family(name: str, about: str, samples: dict[str, float]) -> str:
    kind = "counter" if name.endswith(_plain(TOTAL)) else "gauge"
    about = about.replace("\\", r"\\").replace("\n", r"\n")
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{{{labels}}} {_number(value)}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
