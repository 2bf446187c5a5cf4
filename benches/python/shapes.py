"""Other shapes of work: many topics, partitions and clients, small batches, large values, wide schemas, idle clients.

`run.py --only shape` measures them. Each scenario has ours, the best ways of the peer, and the floor, which is the
kernel's copy of the same bytes and their checksum (`clients/floor.py`).
"""

from __future__ import annotations

from dataclasses import replace

from scenarios import (
    COLUMNS,
    CONSUME,
    CONSUME_TUNED,
    PRODUCE_BATCH_TUNED,
    RDKAFKA_BATCH,
    RDKAFKA_FETCH,
    READ,
    READY_MADE,
    SEND_ARROW,
    SEND_MANY,
    SPARK_AVRO,
    SPARK_JSON,
    Goal,
    Properties,
    Scenario,
    Way,
    ours,
)

BUDGET = 3.0
"""Seconds, longer than elsewhere: a client that begins with a thousand topics is not judged by its first second."""
CLIENTS = 50
IDLE_SECONDS = 10.0
TINY = 256
"""Bytes of a batch: two records of 100 bytes."""
READ_COMMITTED: Properties = (("isolation.level", "read_committed"),)

FLOOR_READ = Way("floor", "copy and checksum", "floor.consume", role="limit")
FLOOR_WRITE = Way("floor", "copy and checksum", "floor.produce", role="limit")
BATCH_ERRORS_TUNED = Way(
    "confluent-kafka", "produce_batch, errors only, tuned", "confluent.produce_batch_errors", RDKAFKA_BATCH
)
READS = (COLUMNS, CONSUME, CONSUME_TUNED, FLOOR_READ)
WRITES = (SEND_MANY, SEND_ARROW, PRODUCE_BATCH_TUNED, BATCH_ERRORS_TUNED, FLOOR_WRITE)


def _in_turn(own: Properties, tuned: Properties) -> tuple[Way, ...]:
    """Producers that write to each partition of each topic in turn: defaults for the first three, and what is tuned."""
    floor = replace(FLOOR_WRITE, properties=own)
    theirs = tuple((name.replace("_", "."), value) for name, value in own)
    return (
        ours("send", "send_in_turn", own),
        ours("send_many", "send_many_in_turn", own),
        ours("send_arrow", "send_arrow_in_turn", own),
        Way("confluent-kafka", "produce", "confluent.produce_in_turn", theirs),
        Way("confluent-kafka", "produce, tuned", "confluent.produce_in_turn", tuned),
        Way("confluent-kafka", "produce_batch, tuned", "confluent.produce_batch_in_turn", tuned),
        Way("confluent-kafka", "produce_batch, errors only, tuned", "confluent.produce_batch_errors_in_turn", tuned),
        floor,
    )


# The queue of librdkafka stays as it is by default: with more it takes a minute to send what it took in a second.
TINY_BATCH: Properties = (("linger.ms", 20), ("batch.size", TINY), ("batch.num.messages", 100_000))

TOPICS_READ = Scenario(
    "shape-1000-topics-consume", "consume", 100, 2_000_000, READS, partitions=1, topics=1_000, budget=BUDGET
)
TOPICS_WRITTEN = Scenario(
    "shape-1000-topics-produce",
    "produce",
    100,
    2_000_000,
    _in_turn((), RDKAFKA_BATCH),
    partitions=1,
    topics=1_000,
    budget=BUDGET,
)
TOPICS_FIRST = Scenario(
    "shape-1000-topics-first",
    "produce",
    100,
    1_000,
    (
        ours("first send to each topic", "first_to_each"),
        Way("confluent-kafka", "first produce to each topic", "confluent.first_to_each"),
    ),
    partitions=1,
    topics=1_000,
)
TINY_WRITTEN = Scenario(
    "shape-tiny-batches-produce",
    "produce",
    100,
    400_000,
    _in_turn((("batch_size", TINY),), TINY_BATCH),
    partitions=16,
    budget=BUDGET,
)
TINY_READ = Scenario(
    "shape-tiny-batches-consume", "consume", 100, 400_000, READS, partitions=16, batch=TINY, budget=BUDGET
)
WIDE_JSON = Scenario(
    "shape-wide-json",
    "consume",
    2_065,
    200_000,
    (
        ours("columns, decoded", "typed_columns"),
        ours("read, decoded", "typed_read"),
        Way("confluent-kafka", "consume, tuned, and polars.read_ndjson", "confluent.typed_polars", RDKAFKA_FETCH),
        Way("confluent-kafka", "consume, tuned, and pyarrow.json", "confluent.typed_pyarrow", RDKAFKA_FETCH),
        FLOOR_READ,
    ),
    content="json",
    budget=BUDGET,
)
WIDE_AVRO = replace(
    WIDE_JSON,
    name="shape-wide-avro",
    size=697,
    ways=(
        *WIDE_JSON.ways[:2],
        Way("confluent-kafka", "consume, tuned, and polars.read_avro", "confluent.typed_polars", RDKAFKA_FETCH),
        Way("confluent-kafka", "consume, tuned, and fastavro", "confluent.typed_fastavro", RDKAFKA_FETCH),
        FLOOR_READ,
    ),
    content="avro",
)
WIDE_JSON_SPARK = Scenario(
    "shape-wide-json-spark",
    "consume",
    2_065,
    200_000,
    (READ, SPARK_JSON, READY_MADE),
    ahead=2,
    spark=True,
    content="json",
)
WIDE_AVRO_SPARK = replace(
    WIDE_JSON_SPARK, name="shape-wide-avro-spark", size=697, ways=(READ, SPARK_AVRO, READY_MADE), content="avro"
)

SHAPES = (
    TOPICS_READ,
    TOPICS_WRITTEN,
    TOPICS_FIRST,
    Scenario(
        "shape-10000-partitions-consume",
        "consume",
        100,
        1_000_000,
        READS,
        partitions=1_000,
        topics=10,
        budget=BUDGET,
    ),
    TINY_READ,
    TINY_WRITTEN,
    Scenario("shape-1KB-consume", "consume", 1_000, 600_000, READS, budget=BUDGET),
    Scenario("shape-1KB-produce", "produce", 1_000, 400_000, WRITES, budget=BUDGET),
    Scenario("shape-10KB-consume", "consume", 10_000, 60_000, READS, budget=BUDGET),
    Scenario("shape-10KB-produce", "produce", 10_000, 40_000, WRITES, budget=BUDGET),
    *(
        Scenario(f"shape-{codec}-{name}", kind, 100, 3_000_000, ways, codec, budget=BUDGET)
        for codec in ("lz4", "zstd")
        for name, kind, ways in (("consume", "consume", READS), ("produce", "produce", WRITES))
    ),
    Scenario("shape-tls-consume", "consume", 100, 3_000_000, READS, protocol="SSL", budget=BUDGET),
    Scenario("shape-tls-produce", "produce", 100, 3_000_000, WRITES, protocol="SSL", budget=BUDGET),
    Scenario(
        "shape-read-committed",
        "consume",
        100,
        600_000,
        (
            ours("columns", "columns", (("isolation_level", "read_committed"),)),
            Way("confluent-kafka", "consume", "confluent.consume", READ_COMMITTED),
            Way("confluent-kafka", "consume, tuned", "confluent.consume", (*RDKAFKA_FETCH, *READ_COMMITTED)),
            FLOOR_READ,
        ),
        aborted=3,
        budget=BUDGET,
    ),
    Scenario(
        "shape-50-consumers",
        "consume",
        100,
        2_000_000,
        (
            ours("columns", "many_consumers"),
            Way("confluent-kafka", "consume", "confluent.many_consumers"),
            Way("confluent-kafka", "consume, tuned", "confluent.many_consumers", RDKAFKA_FETCH),
            FLOOR_READ,
        ),
        partitions=CLIENTS,
        budget=BUDGET,
    ),
    *(
        Scenario(
            f"shape-idle-{what}",
            "idle",
            100,
            CLIENTS,
            (ours(what, f"idle_{what}"), Way("confluent-kafka", what, f"confluent.idle_{what}")),
            ahead=0,
            budget=IDLE_SECONDS,
        )
        for what in ("consumers", "producers")
    ),
    Scenario(
        "shape-startup",
        "latency",
        100,
        20,
        (
            Way("ottla", "process to first record", "startup.ottla", role="ours"),
            Way("confluent-kafka", "process to first record", "startup.confluent"),
            Way("Python", "process that does nothing", "startup.interpreter", role="limit"),
        ),
    ),
    WIDE_JSON,
    WIDE_AVRO,
    WIDE_JSON_SPARK,
    WIDE_AVRO_SPARK,
)


def _twice(scenario: Scenario) -> list[Goal]:
    """At least twice the rate of each way of a peer, and at most half of its processor time, for each of our ways that
    is the counterpart of that call."""
    goals = []
    for mine in (way for way in scenario.ways if way.role == "ours"):
        for peer in (way for way in scenario.ways if way.role == "peer" and _alike(mine, way)):
            rate = f"2 x {peer.client} {peer.label}"
            goals += [
                Goal(scenario.name, rate, "records per second", mine.label, peer.name, 2),
                Goal(
                    scenario.name, f"CPU per record: half of {peer.label}", "CPU per record", mine.label, peer.name, 0.5
                ),
            ]
    return goals


def _alike(mine: Way, peer: Way) -> bool:
    """`send` is compared with `produce`, and a call that takes many records with `produce_batch`; all else with all.
    `read` is not compared: it keeps the whole topic in memory, as no way of a peer does."""
    if mine.label == "read, decoded":
        return False
    singly = peer.label.startswith("produce") and not peer.label.startswith("produce_batch")
    return not peer.label.startswith("produce") or singly == (mine.label == "send")


SHAPE_GOALS = [
    goal
    for scenario in (
        TOPICS_READ,
        TOPICS_WRITTEN,
        TOPICS_FIRST,
        TINY_READ,
        TINY_WRITTEN,
        WIDE_JSON,
        WIDE_AVRO,
        WIDE_JSON_SPARK,
        WIDE_AVRO_SPARK,
    )
    for goal in _twice(scenario)
]
