"""What the tests of random schemas share: how many cases they take, and one batch of many values.

`OTTLA_CASES=20000 pytest tests/property/test_avro.py` takes that many cases, each a schema and a value; `OTTLA_SEED=N`
takes others.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CASES = int(os.environ.get("OTTLA_CASES", "300"))
_SEED = int(os.environ.get("OTTLA_SEED", "20261129"))
# More of them tell no more.
_SHOWN = 10


def rng(name: str) -> random.Random:
    """A source of chance of its own for each test."""
    return random.Random(f"{name} {_SEED}")


def batch_of(values: Sequence[bytes]) -> ottla.Batch:
    """The values as the records of one batch."""
    with Broker() as broker, ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("cases", values).result(120)
        with ottla.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([ottla.TopicPartition("cases", 0, 0)])
            batch = consumer.poll(20, max_records=len(values))
            while left := len(values) - len(batch):
                batch += consumer.poll(20, max_records=left)
    return batch


def outcome(read: Callable[[], Any]) -> tuple[str, Any]:
    """What a reader makes of a value, or that it refuses it."""
    try:
        return "read", read()
    except (errors.ArgumentError, errors.DecodeError) as error:
        return "refused", str(error)


def differences(cases: Sequence[Any], check: Callable[[int, Any], str | None]) -> None:
    """Fail with the first cases for which `check` returns what differs."""
    found = [(number, said) for number, case in enumerate(cases) if (said := check(number, case))]
    shown = "\n\n".join(f"case {number}: {said}" for number, said in found[:_SHOWN])
    print(f"{len(cases)} cases, {len(found)} differences")
    assert not found, f"{len(found)} of {len(cases)} cases differ:\n{shown}"
