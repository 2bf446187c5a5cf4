"""Writes from Spark's memory: keys of 8 digits and values of 100 bytes, each write to a new topic."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from broker import warm
from on_spark import Session, source, watch
from scenarios import WRITE_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from report import Measured
    from scenarios import Scenario, Way

TASKS = 2


def writes(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """Writes, also exactly once."""
    frame = session.spark.range(0, scenario.records, 1, TASKS).selectExpr(
        "lpad(CAST(id AS STRING), 8, '0') AS key",
        f"rpad(concat('{{\"id\": ', id, '}}'), {scenario.size}, ' ') AS value",
    )
    frame = frame.persist()
    frame.count()
    session.at_end.callback(frame.unpersist)
    numbers = itertools.count()

    def write(way: Way) -> Measured:
        to = f"{topic}-{next(numbers)}"
        options = {**session.options(way), "topic": to}
        if way == WRITE_ONCE:
            options |= {"exactlyOnce": "true", "appId": to, "shards": str(TASKS), "version": "0"}
        session.broker.create(to, scenario.partitions)
        try:
            warm(session.broker.bootstrap, to, scenario.partitions)
            with watch(session.broker, scenario.records) as measured:
                frame.write.format(source(way)).options(**options).mode("append").save()
        finally:
            session.broker.delete(to)
        return measured

    return write
