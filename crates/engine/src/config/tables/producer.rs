//! The properties that only a producer has.

macro_rules! producer {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* PRODUCER {
        /// Replicas that must have a record before it counts as delivered: all that are in sync, the leader alone (1), or
        /// none (0).
        "acks" => acks: i16 = "all", choice("all" => -1, "-1" => -1, "0" => 0, "1" => 1);
        /// Whether retries can never write a record twice or out of order. If it is not given, acks of 0 or 1 turn it off.
        "enable.idempotence" => idempotence: bool = "true", bool();
        /// How long a batch waits for more records. Not given: a batch is sent at once if no request to its broker is
        /// in flight, else when a response arrives, when the batch is full, or after 5 ms.
        "linger.ms" => linger: Option<Duration>, millis(0);
        /// Size at which a batch is closed, before compression. A larger record has a batch of its own.
        "batch.size" => batch_size: usize = "1000000", bytes(1);
        /// Most bytes of undelivered records; at this limit a send waits for space.
        "buffer.memory" => buffer_memory: usize = "67108864", bytes(1, i64::MAX);
        /// How long a send may wait for space, or for the metadata of a topic not used before.
        "max.block.ms" => max_block: Duration = "60000", millis(0);
        /// How long close() without a timeout, or leaving a with block, waits for undelivered records. Then they fail, and it raises an
        /// error.
        "close.timeout.ms" => close_timeout: Duration = "30000", millis(0);
        /// How long the metadata of a topic is kept and refreshed after the last send to it.
        "metadata.max.idle.ms" => metadata_max_idle: Duration = "300000", millis(5000);
        /// Largest record and largest Produce request, before compression. Brokers have limits of their own.
        "max.request.size" => max_request_size: usize = "1048576", bytes(1);
        /// Codec of new batches.
        "compression.type" => compression: Compression = "none", choice(
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd
        );
        /// Level of gzip, if that is the codec. Not given: 6.
        "compression.gzip.level" => gzip_level: Option<i32>, whole(1, 9);
        /// Level of lz4, if that is the codec: 1 to 17. Kafka's default of 9 is fast; all others search slowly.
        "compression.lz4.level" => lz4_level: Option<i32>, whole(1, 17);
        /// Level of zstd, if that is the codec. Not given: 3.
        "compression.zstd.level" => zstd_level: Option<i32>, whole(-131_072, 22);
        /// Produce requests in flight per connection; 5 at most with idempotence.
        "max.in.flight.requests.per.connection" => max_in_flight: usize = "5", whole(1, 1000);
        /// Upper bound on the time from a send to its delivery result, retries included.
        "delivery.timeout.ms" => delivery_timeout: Duration = "120000", millis(1);
        /// Most retries of a batch. delivery.timeout.ms is the better bound.
        "retries" => retries: u32 = "2147483647", whole(0, i32::MAX as i64);
        /// Makes the producer transactional: its records are read as a whole or not at all. Of several running producers with the
        /// same one, the newest fences the others.
        "transactional.id" => transactional_id: Option<String>, text(optional);
        /// How long a transaction may be open before its coordinator aborts it and fences the producer. At most the brokers'
        /// transaction.max.timeout.ms.
        "transaction.timeout.ms" => transaction_timeout: Duration = "60000", millis(1);
        /// Whether transactions can be prepared, and then end only when their owner commits or aborts them: the
        /// coordinator aborts none for being open too long (KIP-939). The brokers must allow it.
        "transaction.two.phase.commit.enable" => two_phase_commit: bool = "false", bool();
        /// Where records go that name no partition. sticky: those with a key where Java's murmur2 puts them, the others to
        /// one partition until it got batch.size bytes, then to another (KIP-794). round_robin: likewise, the others each to
        /// the next partition. The others are librdkafka's: by CRC-32 (consistent), murmur2 or FNV-1a of the key; without
        /// one as sticky does (_random), else all to one partition. Empty keys count as none with consistent_random only.
        "partitioner" => partitioner: Partitioner = "sticky", choice(
            "sticky" => Partitioner::Sticky,
            "round_robin" => Partitioner::RoundRobin,
            "consistent" => Partitioner::Consistent,
            "consistent_random" => Partitioner::ConsistentRandom,
            "murmur2" => Partitioner::Murmur2,
            "murmur2_random" => Partitioner::Murmur2Random,
            "fnv1a" => Partitioner::Fnv1a,
            "fnv1a_random" => Partitioner::Fnv1aRandom
        );
        /// Whether keys do not choose partitions: records are spread as if they had none.
        "partitioner.ignore.keys" => ignores_keys: bool = "false", bool();
        /// Whether records without a key go less often to partitions for which many batches wait (KIP-794).
        "partitioner.adaptive.partitioning.enable" => adaptive_partitioning: bool = "true", bool();
        /// How long a broker may take no batch although some wait for it, before records without a key avoid its
        /// partitions; 0: however long.
        "partitioner.availability.timeout.ms" => availability_timeout: Duration = "0", millis(0);
        /// Whether records without a key go to partitions whose leader is in client.rack, as long as there are such
        /// (KIP-1123).
        "partitioner.rack.aware" => rack_aware: bool = "false", bool();
    } } };
}
pub(in crate::config) use producer;

/// Where records go that name no partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// By Java's murmur2 of the key; without one, to one partition until it got `batch.size` bytes.
    #[default]
    Sticky,
    /// By Java's murmur2 of the key; without one, to the next partition for every record.
    RoundRobin,
    /// By the CRC-32 of the key; none counts as an empty one.
    Consistent,
    /// By the CRC-32 of the key; without one, or with an empty one, as `Sticky`.
    ConsistentRandom,
    /// By Java's murmur2 of the key; none counts as an empty one.
    Murmur2,
    /// As `Sticky`, under librdkafka's name.
    Murmur2Random,
    /// By the FNV-1a of the key, as librdkafka computes it; none counts as an empty one.
    Fnv1a,
    /// By the FNV-1a of the key; without one, as `Sticky`.
    Fnv1aRandom,
}
