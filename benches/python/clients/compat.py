"""The programs for confluent-kafka, on ottla by one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients import confluent

if TYPE_CHECKING:
    from collections.abc import Callable

    from measurement import Job, Stopwatch

    Program = Callable[[Job, Stopwatch], tuple[int, int]]


def _on_ottla(program: Program) -> Program:
    def run(job: Job, watch: Stopwatch) -> tuple[int, int]:
        from ottla.compat.confluent_kafka import install

        install()
        return program(job, watch)

    return run


produce = _on_ottla(confluent.produce)
produce_polled = _on_ottla(confluent.produce_polled)
produce_batch = _on_ottla(confluent.produce_batch)
aio_produce = _on_ottla(confluent.aio_produce)
consume_some = _on_ottla(confluent.consume_some)
consume_lengths = _on_ottla(confluent.consume_lengths)
poll = _on_ottla(confluent.poll)
