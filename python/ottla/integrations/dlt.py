"""A topic as a resource of dlt, which goes on in each run where the last one ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import dlt
import pyarrow as pa

from ottla import read
from ottla.errors import OffsetOutOfRangeError
from ottla.integrations.ranges import ranges_of

# dlt makes a table of its own of lists, so that headers are only loaded if they are wanted.
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


def topic_resource(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    name: str | None = None,
    columns: Iterable[str] = COLUMNS,
    write_disposition: Literal["append", "merge"] = "append",
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Make a resource that loads the records that a topic has got since the last run.

    The offsets to go on at are in the resource's state, which dlt stores together with the rows: a run that fails loads
    its records again, and no record is left out. A run ends at the offsets that the topic has when it begins.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        name: The name of the resource and its table; None takes the topic's.
        columns: The columns to load: those of `Batch.to_arrow`.
        write_disposition: "append", or "merge" by topic, partition and offset, for which `columns` needs these three.
        config: Properties of the consumer by Kafka's names.
        **options: The bounds of `ottla.read` for the first run, and properties as keywords.

    Returns:
        A `dlt` resource.

    Raises:
        OffsetOutOfRangeError: In a run, a partition ends before the offset of the state: the topic was recreated, or
            lost records.
        KafkaError: In a run, what `ottla.read` raises.

    Example:
        ```python
        pipeline = dlt.pipeline("flights", destination="duckdb")
        pipeline.run(topic_resource("localhost:9092", "flights"))
        ```
    """
    chosen = list(columns)
    key = ("topic", "partition", "offset") if write_disposition == "merge" else None

    @dlt.resource(name=name or topic, write_disposition=write_disposition, primary_key=key)  # type: ignore[untyped-decorator]
    def records() -> Iterator[Any]:
        # JSON, which a state is stored as, has texts as keys.
        state: dict[str, int] = dlt.current.resource_state().setdefault("offsets", {})
        ranges = ranges_of(bootstrap_servers, topic, config=config, **options)
        for number, span in ranges.items():
            start = state.get(str(number), span.start)
            if start > span.stop:
                raise _gone(topic, number, start, span.stop)
            ranges[number] = range(max(start, span.start), span.stop)
        # The bounds were applied above.
        rest = {each: value for each, value in options.items() if each not in {"since", "until", "offsets"}}
        needed = list(dict.fromkeys([*chosen, "partition", "offset"]))
        for batch in read(bootstrap_servers, topic, offsets=ranges, stream=True, columns=needed, config=config, **rest):
            # A batch that dlt takes is loaded, even if dlt takes no more of them (`add_limit`).
            last = pa.Table.from_batches([batch]).group_by("partition").aggregate([("offset", "max")]).to_pylist()
            state.update({str(row["partition"]): row["offset_max"] + 1 for row in last})
            yield batch.select(chosen)
        # Behind the last records there may be markers of transactions.
        state.update({str(number): span.stop for number, span in ranges.items()})

    return records


def _gone(topic: str, partition: int, offset: int, end: int) -> OffsetOutOfRangeError:
    error = OffsetOutOfRangeError(
        f"{topic}[{partition}] ends at {end}, before offset {offset}, where the last run ended: the topic was "
        f"recreated or lost records. To load it from its beginning, run the pipeline with refresh='drop_resources'"
    )
    error.topic, error.partition = topic, partition
    return error
