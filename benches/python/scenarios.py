"""What is compared with what, and what it is to show: one place, for every client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rebalance import BEAT

Properties = tuple[tuple[str, int | str], ...]
Role = Literal["ours", "peer", "limit"]
Protocol = Literal["PLAINTEXT", "SSL", "SASL_SSL"]
Content = Literal["events", "json", "avro"]

# A goal is about ours with its defaults. What is tuned is larger batches and fetches.
OUR_FETCH: Properties = (("fetch_max_bytes", 64 << 20), ("max_partition_fetch_bytes", 8 << 20))
OUR_BATCH: Properties = (("linger_ms", 20), ("batch_size", 1_000_000))
# The quickest of those that were tried: larger fetches or longer queues are slower.
RDKAFKA_FETCH: Properties = (
    ("fetch.queue.backoff.ms", 1),
    ("queued.min.messages", 200_000),
    ("queued.max.messages.kbytes", 256 << 10),
)
RDKAFKA_BATCH: Properties = (
    ("linger.ms", 20),
    ("batch.size", 1_000_000),
    ("batch.num.messages", 100_000),
    ("message.max.bytes", 1_048_576),
    ("queue.buffering.max.messages", 2_000_000),
)
JAVA_FETCH: Properties = (
    ("fetch.max.bytes", 64 << 20),
    ("max.partition.fetch.bytes", 8 << 20),
    ("max.poll.records", 50_000),
    ("receive.buffer.bytes", -1),
)
JAVA_BATCH: Properties = (("linger.ms", 20), ("batch.size", 1_000_000), ("buffer.memory", 64 << 20))
SPARK_FETCH: Properties = (
    ("max.partition.fetch.bytes", 16 << 20),
    ("fetch.max.bytes", 64 << 20),
    ("max.poll.records", 20_000),
    ("receive.buffer.bytes", 1 << 20),
)
KRAFKA_FETCH: Properties = (
    ("max_poll_records", 10_000),
    ("max_buffered_records", 100_000),
    ("max_partition_fetch_bytes", 8 << 20),
)
KRAFKA_BATCH: Properties = (("linger_ms", 20), ("batch_size", 1_000_000))
# How often members in the bench of rebalances hear from the group's coordinator. The default of all clients is 3 s, and
# brokers say 5 s to those of the consumer protocol: a rebalance would be little else than the wait for that.
HEARTBEAT_MS = round(BEAT * 1000)


@dataclass(frozen=True)
class Way:
    """One way of doing the work.

    Attributes:
        client: Whose.
        label: The call that does the work, and how the client is set up.
        function: `module.function` in `clients/`; empty for what Spark does.
        properties: What it is set up with, beyond the library's defaults.
        role: Whether it is ours, a peer's, or what the machine allows.
        python_path: Where Python looks first: a folder that holds another build of ottla.
    """

    client: str
    label: str
    function: str
    properties: Properties = ()
    role: Role = "peer"
    python_path: str = ""

    @property
    def name(self) -> str:
        return f"{self.client} {self.label}"


@dataclass(frozen=True)
class Point:
    """A place in a plot of how cost grows: whether of consuming or producing, what is changed, and to what."""

    kind: str
    axis: str
    x: float | str


@dataclass(frozen=True)
class Scenario:
    """The same work for several ways, which are measured in turn.

    Attributes:
        name: What `--only` looks for, with the ways' names.
        kind: What a measurement starts with: a filled topic, an empty one to write to or to take latencies with, a
            group that starts at the first and only record of each partition, or a topic of clients that are idle.
        size: Bytes of a value.
        records: How many the topic holds, or a way writes at most; or how often a latency is taken, or one more member
            comes and goes; or how many clients are idle.
        codec: What the topic is compressed with.
        partitions: Of the topic, or of each topic.
        batch: Most bytes of a batch that the topic is filled with.
        ahead: How many measurements go ahead and do not count: one of ours and of the limits, which makes the broker
            ready; or several of each way, where a JVM, the broker's or Spark's, compiles what is used often.
        budget: Seconds after which a way stops; slow ones need not do everything to have a rate.
        cores: That a client may use, and the broker; empty for all.
        point: Its place in a plot of how cost grows.
        protocol: Of the broker's listener, where it is not the one that the whole run measures; SASL is SCRAM-SHA-512.
        spark: Whether Spark does the work, as `spark_bench.py` has it, which has no budget.
        topics: How many topics there are.
        content: What the values hold that consumers read: `events`, or 100 columns as `json` or `avro`.
        aborted: The topic is filled by transactions, one of this many of which is aborted; 0 for no transactions.
    """

    name: str
    kind: Literal["consume", "produce", "latency", "rebalance", "idle"]
    size: int
    records: int
    ways: tuple[Way, ...]
    codec: str = "none"
    partitions: int = 4
    batch: int = 128 << 10
    ahead: int = 1
    budget: float = 1.5
    cores: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    point: Point | None = None
    protocol: Protocol | None = None
    spark: bool = False
    topics: int = 1
    content: Content = "events"
    aborted: int = 0


def ours(label: str, function: str, properties: Properties = ()) -> Way:
    return Way("ottla", label, f"ottla.{function}", properties, "ours")


COLUMNS = ours("columns", "columns")
RECORDS = ours("for record", "records")
CONSUME = Way("confluent-kafka", "consume", "confluent.consume")
CONSUME_TUNED = Way("confluent-kafka", "consume, tuned", "confluent.consume", RDKAFKA_FETCH)
GETMANY = Way("aiokafka", "getmany", "aiokafka.getmany")
COLUMNS_AS_MEMBER = ours("columns, in a group", "columns_as_member")
COLUMNS_OF_VIEWS = ours("columns, view=True", "columns_of_views")
JAVA_CONSUME = Way("Java", "perf consumer", "java.consume")
JAVA_CONSUME_TUNED = Way("Java", "perf consumer, tuned", "java.consume", JAVA_FETCH)
KRAFKA_POLL = Way("krafka", "poll, tuned", "krafka.poll", KRAFKA_FETCH)
DRAIN = Way("socket", "drain", "sockets.drain", role="limit")
DECOMPRESSION = Way("one core", "decompression", "decompression.alone", role="limit")

CONSUMERS = (
    COLUMNS,
    COLUMNS_AS_MEMBER,
    COLUMNS_OF_VIEWS,
    ours("columns, tuned", "columns", OUR_FETCH),
    CONSUME,
    CONSUME_TUNED,
    Way("confluent-kafka", "columns, tuned", "confluent.columns", RDKAFKA_FETCH),
    GETMANY,
    Way("kafka-python", "poll", "kafka_python.poll"),
    Way("kafkarrow", "poll", "kafkarrow.poll"),
    JAVA_CONSUME,
    JAVA_CONSUME_TUNED,
    KRAFKA_POLL,
    DRAIN,
)
DECOMPRESSING = (COLUMNS, CONSUME_TUNED, GETMANY, JAVA_CONSUME, KRAFKA_POLL, DRAIN, DECOMPRESSION)

PRODUCE = Way("confluent-kafka", "produce", "confluent.produce")
PRODUCE_TUNED = Way("confluent-kafka", "produce, tuned", "confluent.produce", RDKAFKA_BATCH)
PRODUCE_BATCH = Way("confluent-kafka", "produce_batch", "confluent.produce_batch")
PRODUCE_BATCH_TUNED = Way("confluent-kafka", "produce_batch, tuned", "confluent.produce_batch", RDKAFKA_BATCH)
SEND_MANY = ours("send_many", "send_many")
SEND_ARROW = ours("send_arrow", "send_arrow")
JAVA_PRODUCE = Way("Java", "perf producer", "java.produce")
JAVA_PRODUCE_TUNED = Way("Java", "perf producer, tuned", "java.produce", JAVA_BATCH)
PRODUCE_BATCH_WAYS = (
    PRODUCE_BATCH,
    PRODUCE_BATCH_TUNED,
    *(
        Way("confluent-kafka", f"produce_batch, {how}{tuned}", f"confluent.produce_batch_{name}", properties)
        for how, name in (("errors only", "errors"), ("no callback", "untold"))
        for tuned, properties in (("", ()), (", tuned", RDKAFKA_BATCH))
    ),
)
SENDING = Way("compiled", "batches made before", "compiled.produce", role="limit")
SENDING_TLS = Way("socket", "batches made before", "sockets.produce", role="limit")

PRODUCERS = (
    SEND_MANY,
    SEND_ARROW,
    ours("send_many, tuned", "send_many", OUR_BATCH),
    *PRODUCE_BATCH_WAYS,
    JAVA_PRODUCE,
    JAVA_PRODUCE_TUNED,
    Way("krafka", "enqueue, tuned", "krafka.enqueue", KRAFKA_BATCH),
    SENDING,
)

NO_LINGER: Properties = (("linger.ms", 0),)
# One record at a time.
ONE_BY_ONE = Scenario(
    "latency-produce",
    "latency",
    100,
    2_000,
    (
        ours("send", "latency_produce"),
        ours("async send", "async_latency_produce"),
        Way("confluent-kafka", "produce", "confluent.latency_produce"),
        Way("confluent-kafka", "produce, no linger", "confluent.latency_produce", NO_LINGER),
        Way("aiokafka", "send_and_wait", "aiokafka.latency_produce"),
        Way("socket", "produce", "sockets.latency_produce", role="limit"),
    ),
)
ACKS_ALL = (("acks", -1),)
ONE_BY_ONE_ALL = replace(
    ONE_BY_ONE,
    name="latency-produce-acks-all",
    ways=(
        ours("send", "latency_produce", ACKS_ALL),
        ours("async send", "async_latency_produce", ACKS_ALL),
        Way("confluent-kafka", "produce, no linger", "confluent.latency_produce", (*NO_LINGER, *ACKS_ALL)),
    ),
)
TRANSACTIONS_MADE = Way("socket", "transactions made before", "sockets.transactions", role="limit")
# 1,000 records in each; the time of a commit. A broker compiles what it does for them until it had 15,000.
TRANSACTIONS = Scenario(
    "latency-transactions",
    "latency",
    100,
    600,
    (
        ours("transactions", "transactions"),
        Way("confluent-kafka", "transactions", "confluent.transactions"),
        Way("confluent-kafka", "transactions, no linger", "confluent.transactions", NO_LINGER),
        Way("Java", "transactions", "java.transactions"),
        TRANSACTIONS_MADE,
    ),
    ahead=8,
)
# A new client until it has its first record. librdkafka asks for the topic, and again for its offset.
FIRST = Scenario(
    "latency-first",
    "latency",
    100,
    50,
    (
        ours("new client to first record", "latency_first"),
        Way("confluent-kafka", "new client to first record", "confluent.latency_first"),
        Way("aiokafka", "new client to first record", "aiokafka.latency_first"),
    ),
)
FIRST_PLAINTEXT = replace(FIRST, name="latency-first-plaintext", protocol="PLAINTEXT")
FIRST_SCRAM = replace(FIRST, name="latency-first-scram", protocol="SASL_SSL")


def _rebalance(name: str, ottla: Properties, java: Properties, franz: Properties, confluent: Properties) -> Scenario:
    """10 members on 200 partitions, as one more joins and as it leaves."""
    ways = (
        ours("members", "rebalance", ottla),
        Way("Java", "members", "java.rebalance", java),
        Way("franz-go", "members", "franz.rebalance", franz),
        Way("confluent-kafka", "members", "confluent.rebalance", confluent),
    )
    return Scenario(f"rebalance-{name}", "rebalance", 100, 4, ways, partitions=200)


def _classic_rebalance(assignor: str, java: str) -> Scenario:
    strategy, heartbeat = "partition.assignment.strategy", ("heartbeat.interval.ms", HEARTBEAT_MS)
    return _rebalance(
        assignor,
        (("partition_assignment_strategy", assignor), ("heartbeat_interval_ms", HEARTBEAT_MS)),
        ((strategy, f"org.apache.kafka.clients.consumer.{java}"), heartbeat),
        (("balancer", assignor), ("heartbeat_ms", HEARTBEAT_MS)),
        ((strategy, assignor), heartbeat),
    )


CONSUMER_PROTOCOL: Properties = (("group.protocol", "consumer"),)
REBALANCES = (
    _classic_rebalance("range", "RangeAssignor"),
    _classic_rebalance("cooperative-sticky", "CooperativeStickyAssignor"),
    _rebalance(
        "consumer-protocol",
        (("group_protocol", "consumer"),),
        CONSUMER_PROTOCOL,
        (("balancer", "server-side"),),
        CONSUMER_PROTOCOL,
    ),
)


def _compat(
    name: str, kind: Literal["consume", "produce"], records: int, calls: dict[str, str], *limits: Way
) -> Scenario:
    """Programs for confluent-kafka, as they are and on ottla by one line: both with the defaults of their libraries."""
    ways = [
        way
        for label, function in calls.items()
        for way in (
            Way("ottla", label, f"compat.{function}", (), "ours"),
            Way("confluent-kafka", label, f"confluent.{function}"),
        )
    ]
    return Scenario(f"compat-{name}", kind, 100, records, (*ways, *limits))


FUTURES = Way("asyncio", "coroutines and futures", "event_loop.aio_produce", role="limit")
COMPAT = (
    _compat(
        "produce",
        "produce",
        3_000_000,
        {"produce": "produce", "produce, poll(0)": "produce_polled", "produce_batch": "produce_batch"},
    ),
    _compat("consume", "consume", 5_000_000, {"consume(500)": "consume_some", "consume(500), len": "consume_lengths"}),
    _compat("poll", "consume", 5_000_000, {"poll": "poll"}),
    _compat("aio", "produce", 1_000_000, {"AIOProducer": "aio_produce"}, FUTURES),
)

SCENARIOS = (
    Scenario("consume-100B", "consume", 100, 5_000_000, CONSUMERS),
    Scenario("consume-1KB", "consume", 1_000, 1_000_000, CONSUMERS),
    Scenario(
        "consume-1000-partitions",
        "consume",
        100,
        5_000_000,
        (COLUMNS, COLUMNS_AS_MEMBER, CONSUME_TUNED, JAVA_CONSUME_TUNED, DRAIN),
        partitions=1_000,
    ),
    *(
        Scenario(f"consume-{codec}-{name}", "consume", size, records, DECOMPRESSING, codec)
        for codec in ("lz4", "zstd")
        for name, size, records in (("100B", 100, 5_000_000), ("1KB", 1_000, 1_000_000))
    ),
    Scenario(
        "records-100B",
        "consume",
        100,
        5_000_000,
        (
            RECORDS,
            ours("for record, in a group", "records_as_member"),
            ours("record of batch", "rows_of_batches"),
            CONSUME,
            CONSUME_TUNED,
            Way("kafka-python", "poll", "kafka_python.poll"),
        ),
    ),
    Scenario(
        "async-100B",
        "consume",
        100,
        5_000_000,
        (
            ours("async for record", "async_records"),
            ours("async for batch", "async_batches"),
            COLUMNS,
            GETMANY,
            Way("aiokafka", "async for record", "aiokafka.records"),
            CONSUME_TUNED,
        ),
    ),
    Scenario(
        "send-100B",
        "produce",
        100,
        3_000_000,
        (
            ours("send", "send"),
            ours("async send", "async_send"),
            PRODUCE,
            PRODUCE_TUNED,
            Way("aiokafka", "send", "aiokafka.send"),
            Way("aiokafka", "send, tuned", "aiokafka.send", (("linger_ms", 20), ("max_batch_size", 1 << 20))),
            Way("kafka-python", "send", "kafka_python.send"),
        ),
    ),
    Scenario("produce-100B", "produce", 100, 5_000_000, PRODUCERS),
    Scenario("produce-1KB", "produce", 1_000, 600_000, PRODUCERS),
    ONE_BY_ONE,
    ONE_BY_ONE_ALL,
    TRANSACTIONS,
    FIRST,
    Scenario(
        "latency-end-to-end",
        "latency",
        100,
        2_000,
        (
            ours("send to poll", "latency_end_to_end"),
            ours("async send to poll", "async_latency_end_to_end"),
            Way("confluent-kafka", "produce to poll", "confluent.latency_end_to_end"),
            Way("confluent-kafka", "produce to poll, no linger", "confluent.latency_end_to_end", NO_LINGER),
            Way("aiokafka", "send to getone", "aiokafka.latency_end_to_end"),
            Way("socket", "produce to fetch", "sockets.latency_end_to_end", role="limit"),
        ),
    ),
    *REBALANCES,
    *COMPAT,
)


Figure = Literal[
    "records per second", "CPU per record", "p50", "p99", "memory", "join", "leave", "wake-ups", "connections"
]


@dataclass(frozen=True)
class Goal:
    """What a scenario is to show: a bound on the ratio of a figure of ours to another's, on their difference, or on the
    figure itself.

    Attributes:
        scenario: Its name.
        text: The goal in words.
        figure: What is compared.
        ours: The label of our way.
        other: The name of the other way; None for a bound on the figure itself.
        bound: At least for records per second, else at most; bytes for memory.
        difference: Whether it is by how much ours may be above the other's.
    """

    scenario: str
    text: str
    figure: Figure
    ours: str
    other: str | None
    bound: float
    difference: bool = False


def _rate(scenario: str, label: str, other: Way, bound: float, text: str) -> Goal:
    return Goal(scenario, text, "records per second", label, other.name, bound)


def _cpu(scenario: str, label: str, other: Way) -> Goal:
    return Goal(scenario, "CPU per record: half of confluent's", "CPU per record", label, other.name, 0.5)


def _goals() -> list[Goal]:
    goals = [
        _rate("consume-100B", "columns", DRAIN, 0.6, "60 % of the drain"),
        _rate("consume-100B", "columns", CONSUME_TUNED, 7, "7 x confluent tuned"),
        _rate("consume-100B", "columns", JAVA_CONSUME, 5, "5 x Java"),
        _rate("consume-100B", "columns", JAVA_CONSUME_TUNED, 5, "5 x Java, tuned"),
        _rate("consume-100B", COLUMNS_AS_MEMBER.label, COLUMNS, 0.97, "in a group: 97 % of without"),
        _rate("consume-1KB", COLUMNS_AS_MEMBER.label, COLUMNS, 0.97, "in a group: 97 % of without"),
        _rate("consume-1000-partitions", COLUMNS_AS_MEMBER.label, COLUMNS, 0.97, "in a group: 97 % of without"),
        _rate("consume-1000-partitions", "columns", DRAIN, 0.6, "60 % of the drain"),
        _rate("consume-1000-partitions", "columns", JAVA_CONSUME_TUNED, 5, "5 x Java, tuned"),
        _rate("consume-100B", COLUMNS_OF_VIEWS.label, DRAIN, 0.8, "80 % of the drain"),
        _rate("consume-1KB", COLUMNS_OF_VIEWS.label, DRAIN, 0.8, "80 % of the drain"),
        _cpu("consume-100B", "columns", CONSUME_TUNED),
        Goal(
            "consume-100B", "CPU: 40 ns above the drain", "CPU per record", "columns", DRAIN.name, 0.04, difference=True
        ),
        Goal("consume-100B", "memory under 100 MB", "memory", "columns", None, 100e6),
        _rate("consume-1KB", "columns", DRAIN, 0.7, "70 % of the drain"),
        _rate("consume-1KB", "columns", CONSUME_TUNED, 3, "3 x confluent tuned"),
        _cpu("consume-1KB", "columns", CONSUME_TUNED),
    ]
    for scenario in [f"consume-{codec}-{size}" for codec in ("lz4", "zstd") for size in ("100B", "1KB")]:
        goals += [
            _rate(scenario, "columns", DECOMPRESSION, 0.85, "85 % of decompression alone"),
            _rate(scenario, "columns", CONSUME_TUNED, 2, "2 x confluent tuned"),
            _cpu(scenario, "columns", CONSUME_TUNED),
            Goal(scenario, "memory under 100 MB", "memory", "columns", None, 100e6),
        ]
    goals += [
        _rate("records-100B", "for record", CONSUME_TUNED, 4, "4 x confluent tuned"),
        _rate("records-100B", "for record, in a group", RECORDS, 0.97, "in a group: 97 % of without"),
        _cpu("records-100B", "for record", CONSUME_TUNED),
        _rate("async-100B", "async for record", GETMANY, 4, "4 x aiokafka's getmany"),
        _rate("async-100B", "async for batch", COLUMNS, 0.9, "as columns: 90 % at least"),
        _cpu("async-100B", "async for record", CONSUME_TUNED),
        _cpu("async-100B", "async for batch", CONSUME_TUNED),
        _rate("send-100B", "send", PRODUCE, 3, "3 x confluent's produce"),
        _rate("send-100B", "send", PRODUCE_TUNED, 3, "3 x confluent's produce, tuned"),
        _cpu("send-100B", "send", PRODUCE_TUNED),
    ]
    for way in (SEND_MANY, SEND_ARROW):
        goals += [
            *(_rate("produce-100B", way.label, other, 4, f"4 x {other.label}") for other in PRODUCE_BATCH_WAYS),
            _rate("produce-100B", way.label, JAVA_PRODUCE, 4, "4 x Java"),
            _rate("produce-100B", way.label, JAVA_PRODUCE_TUNED, 4, "4 x Java, tuned"),
            _rate("produce-100B", way.label, SENDING, 0.9, "90 % of the socket"),
            _cpu("produce-100B", way.label, PRODUCE_BATCH_TUNED),
        ]
    for scenario in (ONE_BY_ONE, ONE_BY_ONE_ALL):
        peer = "confluent-kafka produce, no linger"
        goals += [
            Goal(scenario.name, "p50 at most 0.8 x confluent-kafka's", "p50", "send", peer, 0.8),
            Goal(scenario.name, "p99 at most confluent-kafka's", "p99", "send", peer, 1),
        ]
    for label in ("transactions", "transactions, no linger"):
        peer = Way("confluent-kafka", label, "")
        goals.append(_rate(TRANSACTIONS.name, "transactions", peer, 3, f"3 x confluent's {label}"))
    goals.append(_rate(TRANSACTIONS.name, "transactions", TRANSACTIONS_MADE, 0.9, "90 % of the socket"))
    goals += [
        Goal(TRANSACTIONS.name, f"commit: {figure} at most Java's", figure, "transactions", "Java transactions", 1)
        for figure in ("p50", "p99")
    ]
    for figure in ("p50", "p99"):
        goals.append(Goal(ONE_BY_ONE.name, f"{figure} at most aiokafka's", figure, "send", "aiokafka send_and_wait", 1))
    goals += [
        Goal("latency-end-to-end", f"{figure} at most {bound} x {other}", figure, "send to poll", other, bound)
        for figure, other, bound in (
            ("p50", "confluent-kafka produce to poll, no linger", 0.9),
            ("p99", "confluent-kafka produce to poll, no linger", 0.9),
            ("p50", "aiokafka send to getone", 1),
            ("p99", "aiokafka send to getone", 1),
            ("p50", "socket produce to fetch", 1.3),
        )
    ]
    goals += [
        Goal(scenario.name, f"a member {cause}s: at most {client}'s", cause, "members", f"{client} members", 1)
        for scenario in REBALANCES
        for cause in ("join", "leave")
        for client in ("Java", "franz-go")
    ]
    goals += [
        _rate(name, label, Way("confluent-kafka", label, ""), bound, f"{bound} x confluent's")
        for name, label, bound in (
            ("compat-produce", "produce", 1.5),
            ("compat-produce", "produce, poll(0)", 1.5),
            ("compat-consume", "consume(500)", 4),
            ("compat-poll", "poll", 1.5),
            ("compat-aio", "AIOProducer", 3),
        )
    ]
    aio, third = Way("confluent-kafka", "AIOProducer", ""), "CPU per record: a third of confluent's"
    goals.append(Goal("compat-aio", third, "CPU per record", aio.label, aio.name, 1 / 3))
    return goals + _first_goals(FIRST)


def _first_goals(scenario: Scenario) -> list[Goal]:
    mine, *others = scenario.ways
    return [Goal(scenario.name, f"p50 at most {way.client}'s", "p50", mine.label, way.name, 1) for way in others]


GOALS = _goals()


# Both sides check each batch's checksum, which librdkafka does not do by default.
CONSUME_CHECKED = Way(
    "confluent-kafka", "consume, tuned, checksums", "confluent.consume", (*RDKAFKA_FETCH, ("check.crcs", 1))
)
TLS_SCENARIOS = (
    *(
        Scenario(name, "consume", size, records, (COLUMNS, CONSUME_CHECKED, DRAIN))
        for name, size, records in (("consume-100B", 100, 5_000_000), ("consume-1KB", 1_000, 1_000_000))
    ),
    Scenario(
        "produce-100B",
        "produce",
        100,
        5_000_000,
        (SEND_MANY, SEND_ARROW, PRODUCE_TUNED, PRODUCE_BATCH, PRODUCE_BATCH_TUNED, SENDING_TLS),
    ),
    FIRST,
    FIRST_PLAINTEXT,
    FIRST_SCRAM,
)
TLS_GOALS = [
    _rate("consume-100B", "columns", CONSUME_CHECKED, 4, "4 x confluent tuned, with checksums"),
    _cpu("consume-100B", "columns", CONSUME_CHECKED),
    *(
        _rate("produce-100B", "send_many", way, 4, f"4 x {way.label}")
        for way in (PRODUCE_TUNED, PRODUCE_BATCH, PRODUCE_BATCH_TUNED)
    ),
    _cpu("produce-100B", "send_many", PRODUCE_BATCH_TUNED),
    *(goal for scenario in (FIRST, FIRST_PLAINTEXT, FIRST_SCRAM) for goal in _first_goals(scenario)),
]


READ, WRITE = (Way("ottla", label, "", role="ours") for label in ("read", "write"))
WRITE_ONCE = Way("ottla", "write, exactly once", "", role="ours")
MICRO_BATCH = Way("ottla", "micro-batch", "", role="ours")
MICRO_BATCH_JOINED = Way("ottla", "micro-batch, one task", "", role="ours")
SPARK, SPARK_TUNED = Way("Spark", "kafka", ""), Way("Spark", "kafka, tuned", "", SPARK_FETCH)
SPARK_JSON, SPARK_AVRO = (Way("Spark", f"kafka, tuned, {call}", "", SPARK_FETCH) for call in ("from_json", "from_avro"))
SPARK_WRITE_TUNED = Way("Spark", "kafka, tuned", "", JAVA_BATCH)
READY_MADE = Way("PySpark", "ready-made batches", "", role="limit")
SPARK_SCENARIOS = (
    Scenario("spark-rows", "consume", 100, 5_000_000, (READ, SPARK, SPARK_TUNED, READY_MADE), ahead=2, spark=True),
    Scenario("spark-json", "consume", 126, 2_000_000, (READ, SPARK_JSON, READY_MADE), ahead=2, spark=True),
    Scenario("spark-avro", "consume", 50, 2_000_000, (READ, SPARK_AVRO, READY_MADE), ahead=2, spark=True),
    Scenario(
        "spark-batches", "latency", 100, 40, (MICRO_BATCH, MICRO_BATCH_JOINED, SPARK, READY_MADE), ahead=2, spark=True
    ),
    Scenario(
        "spark-sink", "produce", 100, 2_000_000, (WRITE, WRITE_ONCE, SPARK, SPARK_WRITE_TUNED), ahead=2, spark=True
    ),
)
SPARK_GOALS = [
    _rate("spark-rows", READ.label, SPARK_TUNED, 2, "2 x Spark's own, tuned"),
    _rate("spark-rows", READ.label, SPARK, 3.5, "3.5 x Spark's own"),
    *(
        Goal(scenario, f"CPU per record: {text}", "CPU per record", READ.label, other.name, bound)
        for scenario, other, bound, text in (
            ("spark-rows", SPARK_TUNED, 0.6, "0.6 of Spark's own, tuned"),
            ("spark-json", SPARK_JSON, 1 / 4, "a quarter of from_json's"),
            ("spark-avro", SPARK_AVRO, 1 / 3, "a third of from_avro's"),
        )
    ),
    *(
        Goal("spark-batches", "p50 at most 30 ms above Spark's own", "p50", way.label, SPARK.name, 0.03, True)
        for way in (MICRO_BATCH, MICRO_BATCH_JOINED)
    ),
    _rate("spark-sink", WRITE.label, SPARK, 1.2, "1.2 x Spark's own"),
    _rate("spark-sink", WRITE.label, SPARK_WRITE_TUNED, 1.2, "1.2 x Spark's own, tuned"),
    *(
        _rate("spark-sink", WRITE_ONCE.label, other, 1 / 1.3, f"at most 1.3 x the time of {text}")
        for other, text in (
            (SPARK, "Spark's own"),
            (SPARK_WRITE_TUNED, "Spark's own, tuned"),
            (WRITE, "ours without exactly once"),
        )
    ),
]


def _scaling() -> list[Scenario]:
    """How cost grows, with one thing changed at a time."""
    consume, produce = (COLUMNS, CONSUME_TUNED, DRAIN), (SEND_ARROW, PRODUCE_BATCH_TUNED, SENDING)
    base = {
        "consume": Scenario("consume", "consume", 100, 2_000_000, consume, budget=1.0),
        "produce": Scenario("produce", "produce", 100, 2_000_000, produce, budget=1.0),
    }
    out = []
    for kind, plain in base.items():

        def at(axis: str, x: float | str, plain: Scenario = plain, kind: str = kind, **change: object) -> None:
            out.append(
                replace(plain, name=f"scaling {kind} {axis} {x}", point=Point(kind, axis, x), **change)  # type: ignore[arg-type]
            )

        for size in (10, 100, 1_000, 10_000, 100_000, 1_000_000):
            at("record size", size, size=size, records=min(2_000_000, 400_000_000 // size))
        for partitions in (1, 10, 100, 1_000):
            at("partitions", partitions, partitions=partitions)
        for batch in (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1_000_000):
            ways = consume if kind == "consume" else tuple(_with_batches(w, batch) for w in produce)
            at("batch size", batch, batch=batch, ways=ways)
        for codec in ("none", "lz4", "snappy", "zstd", "gzip"):
            at("compression", codec, codec=codec)
        for label, cores in (("one for both", ((0,), (0,))), ("one each", ((0,), (1,))), ("two for both", ((), ()))):
            at("cores", label, cores=cores)
    return out


def _with_batches(way: Way, size: int) -> Way:
    name = "batch.size" if way.client == "confluent-kafka" else "batch_size"
    return replace(way, properties=(*(p for p in way.properties if p[0] != name), (name, size)))


SCALING = tuple(_scaling())
