"""The properties of each client, as keywords. Written by scripts/properties.py from crates/engine."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

ConfigValue: TypeAlias = str | int | bool | list[str] | tuple[str, ...] | None
"""What a property may be set to; None leaves it to its default."""


class AdminProperties(TypedDict, total=False):
    """Properties of the admin, with underscores where Kafka's names have dots."""

    client_id: str | None
    """Name of this client in brokers' logs, metrics and quotas. Default: ottla."""
    security_protocol: str | None
    """How to talk to brokers. Only PLAINTEXT for now; any other value is an error. Default: PLAINTEXT."""
    request_timeout_ms: int | None
    """How long a request waits for its answer before its connection is closed. Default: 30000."""
    default_api_timeout_ms: int | None
    """Deadline of calls without a timeout of their own. Default: 60000."""
    retry_backoff_ms: int | None
    """First pause before a retry; it doubles with each failure, with 20 % jitter. Default: 100."""
    retry_backoff_max_ms: int | None
    """Longest pause before a retry. Default: 1000."""
    reconnect_backoff_ms: int | None
    """First pause before a reconnect; it doubles with each failure, with 20 % jitter. Default: 50."""
    reconnect_backoff_max_ms: int | None
    """Longest pause before a reconnect. Default: 1000."""
    socket_connection_setup_timeout_ms: int | None
    """How long a new connection may take to be ready for requests; it doubles with each failure. Default: 10000."""
    socket_connection_setup_timeout_max_ms: int | None
    """The longest that a new connection may take to be ready for requests. Default: 30000."""
    metadata_max_age_ms: int | None
    """Age at which the metadata of the cluster is refreshed even if nothing seems to have changed. Default: 300000."""
    receive_message_max_bytes: int | None
    """Most bytes of one answer. The client closes a connection whose broker announces more. Default: 104857600."""
    receive_buffer_bytes: int | None
    """Size of the sockets' receive buffers; -1 leaves it to the system. Default: -1."""
    send_buffer_bytes: int | None
    """Size of the sockets' send buffers; -1 leaves it to the system. Default: -1."""
    socket_keepalive_enable: bool | None
    """Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished. Default: true."""


class ConsumerProperties(TypedDict, total=False):
    """Properties of the consumer, with underscores where Kafka's names have dots."""

    client_id: str | None
    """Name of this client in brokers' logs, metrics and quotas. Default: ottla."""
    security_protocol: str | None
    """How to talk to brokers. Only PLAINTEXT for now; any other value is an error. Default: PLAINTEXT."""
    request_timeout_ms: int | None
    """How long a request waits for its answer before its connection is closed. Default: 30000."""
    default_api_timeout_ms: int | None
    """Deadline of calls without a timeout of their own. Default: 60000."""
    retry_backoff_ms: int | None
    """First pause before a retry; it doubles with each failure, with 20 % jitter. Default: 100."""
    retry_backoff_max_ms: int | None
    """Longest pause before a retry. Default: 1000."""
    reconnect_backoff_ms: int | None
    """First pause before a reconnect; it doubles with each failure, with 20 % jitter. Default: 50."""
    reconnect_backoff_max_ms: int | None
    """Longest pause before a reconnect. Default: 1000."""
    socket_connection_setup_timeout_ms: int | None
    """How long a new connection may take to be ready for requests; it doubles with each failure. Default: 10000."""
    socket_connection_setup_timeout_max_ms: int | None
    """The longest that a new connection may take to be ready for requests. Default: 30000."""
    metadata_max_age_ms: int | None
    """Age at which the metadata of the cluster is refreshed even if nothing seems to have changed. Default: 300000."""
    receive_message_max_bytes: int | None
    """Most bytes of one answer. The client closes a connection whose broker announces more. Default: 104857600."""
    receive_buffer_bytes: int | None
    """Size of the sockets' receive buffers; -1 leaves it to the system. Default: -1."""
    send_buffer_bytes: int | None
    """Size of the sockets' send buffers; -1 leaves it to the system. Default: -1."""
    socket_keepalive_enable: bool | None
    """Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished. Default: true."""
    fetch_min_bytes: int | None
    """Bytes that a broker collects before it answers a fetch. Default: 1."""
    fetch_max_bytes: int | None
    """Most bytes in the answer to one fetch. A larger batch is still returned. Default: 16777216."""
    max_partition_fetch_bytes: int | None
    """Most bytes of one partition in the answer to one fetch. A larger batch is still returned. Default: 4194304."""
    fetch_max_wait_ms: int | None
    """How long a broker waits for fetch.min.bytes. Default: 500."""
    max_poll_records: int | None
    """Most records that one poll returns. Default: 100000."""
    prefetch_max_bytes: int | None
    """Most bytes that are requested from brokers or wait for a poll; at this limit fetching pauses. Default:
    33554432."""
    decompress_max_bytes: int | None
    """Most bytes that one batch may decompress to. A larger batch is an error. Default: 268435456."""
    auto_offset_reset: Literal["earliest", "latest", "none"] | None
    """Where to start without a position, or if the records at the position are gone: at the first record (earliest),
    after the last one (latest), or nowhere, with an error (none). Default: latest."""
    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    """Whether records of open and aborted transactions are hidden. Default: read_uncommitted."""
    check_crcs: bool | None
    """Whether the checksum of every batch is verified. Default: true."""
    allow_auto_create_topics: bool | None
    """Whether reading a topic that does not exist creates it, if the broker's auto.create.topics.enable allows that.
    With false, such a topic is an error. Default: false."""


class ProducerProperties(TypedDict, total=False):
    """Properties of the producer, with underscores where Kafka's names have dots."""

    client_id: str | None
    """Name of this client in brokers' logs, metrics and quotas. Default: ottla."""
    security_protocol: str | None
    """How to talk to brokers. Only PLAINTEXT for now; any other value is an error. Default: PLAINTEXT."""
    request_timeout_ms: int | None
    """How long a request waits for its answer before its connection is closed. Default: 30000."""
    default_api_timeout_ms: int | None
    """Deadline of calls without a timeout of their own. Default: 60000."""
    retry_backoff_ms: int | None
    """First pause before a retry; it doubles with each failure, with 20 % jitter. Default: 100."""
    retry_backoff_max_ms: int | None
    """Longest pause before a retry. Default: 1000."""
    reconnect_backoff_ms: int | None
    """First pause before a reconnect; it doubles with each failure, with 20 % jitter. Default: 50."""
    reconnect_backoff_max_ms: int | None
    """Longest pause before a reconnect. Default: 1000."""
    socket_connection_setup_timeout_ms: int | None
    """How long a new connection may take to be ready for requests; it doubles with each failure. Default: 10000."""
    socket_connection_setup_timeout_max_ms: int | None
    """The longest that a new connection may take to be ready for requests. Default: 30000."""
    metadata_max_age_ms: int | None
    """Age at which the metadata of the cluster is refreshed even if nothing seems to have changed. Default: 300000."""
    receive_message_max_bytes: int | None
    """Most bytes of one answer. The client closes a connection whose broker announces more. Default: 104857600."""
    receive_buffer_bytes: int | None
    """Size of the sockets' receive buffers; -1 leaves it to the system. Default: -1."""
    send_buffer_bytes: int | None
    """Size of the sockets' send buffers; -1 leaves it to the system. Default: -1."""
    socket_keepalive_enable: bool | None
    """Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished. Default: true."""
    acks: Literal["all", "-1", "0", "1", -1, 0, 1] | None
    """Replicas that must have a record before it counts as delivered: all that are in sync, the leader alone (1), or
    none (0). Default: all."""
    enable_idempotence: bool | None
    """Whether retries can never write a record twice or out of order. If it is not given, acks of 0 or 1 turn it off.
    Default: true."""
    linger_ms: int | None
    """How long a batch waits for more records. Not given: a batch is sent at once if its broker owes no answer, else
    when an answer comes, when the batch is full, or after 5 ms."""
    batch_size: int | None
    """Size at which a batch is closed, before compression. A larger record has a batch of its own. Default: 1000000."""
    buffer_memory: int | None
    """Most bytes of undelivered records; at this limit a send waits for room. Default: 67108864."""
    max_block_ms: int | None
    """How long a send may wait for room, or for the metadata of a topic not used before. Default: 60000."""
    metadata_max_idle_ms: int | None
    """How long the metadata of a topic is kept and refreshed after the last send to it. Default: 300000."""
    max_request_size: int | None
    """Largest record and largest Produce request, before compression. Brokers have limits of their own. Default:
    1048576."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """Codec of new batches. Default: none."""
    compression_gzip_level: int | None
    """Level of gzip, if that is the codec. Not given: 6."""
    compression_lz4_level: int | None
    """Level of lz4, if that is the codec: 1 to 17. Kafka's default of 9 is fast; all others search slowly."""
    compression_zstd_level: int | None
    """Level of zstd, if that is the codec. Not given: 3."""
    max_in_flight_requests_per_connection: int | None
    """Unanswered Produce requests per connection; 5 at most with idempotence. Default: 5."""
    delivery_timeout_ms: int | None
    """Time from a send until its fate is known, retries included. Default: 120000."""
    retries: int | None
    """Most retries of a batch. delivery.timeout.ms is the better bound. Default: 2147483647."""
    partitioner: Literal["sticky", "round_robin"] | None
    """How records without key and partition are spread: one partition until its batch is closed (sticky), or the next
    partition for every record (round_robin). Java's murmur2 chooses the partition of a record with a key. Default:
    sticky."""
