"""kafkarrow, which reads into Arrow batches with librdkafka; it does not write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measurement import Job, Stopwatch


def poll(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Each polled batch, always in order of timestamps. Connecting counts: it is part of the first poll."""
    import pyarrow.compute as pc
    from kafkarrow import ConsumerManager, SourceTopic

    count = size = 0
    watch.start()
    consumer = ConsumerManager(
        {"bootstrap.servers": job.bootstrap, **job.properties}, [SourceTopic.from_earliest(job.topic)]
    )
    while job.wants_more(count, watch):
        batch = consumer.poll(timeout_ms=1000)
        count += batch.num_rows
        size += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
    watch.stop()
    return count, size
