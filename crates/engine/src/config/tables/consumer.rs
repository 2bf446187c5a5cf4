//! The properties that only a consumer has.

macro_rules! consumer {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* BOTH_CONSUMERS {
        /// Bytes that a broker collects before it answers a fetch.
        "fetch.min.bytes" => fetch_min_bytes: i32 = "1", bytes(0);
        /// Most bytes in the answer to one fetch. A larger batch is still returned.
        "fetch.max.bytes" => fetch_max_bytes: i32 = "16777216", bytes(1);
        /// How long a broker waits for fetch.min.bytes.
        "fetch.max.wait.ms" => fetch_max_wait: Duration = "500", millis(0);
        /// Most records that one poll returns. For a share consumer it is 500 unless it is given, and brokers are asked for so many:
        /// records that one member has acquired are kept from the others.
        "max.poll.records" => max_poll_records: usize = "100000", whole(1, i32::MAX as i64);
        /// Most bytes that one batch may decompress to. A larger batch is an error.
        "decompress.max.bytes" => decompress_max_bytes: usize = "268435456", bytes(1);
        /// Whether the checksum of every batch is verified.
        "check.crcs" => check_crcs: bool = "true", bool();
        /// Whether reading a topic that does not exist creates it, if the broker's auto.create.topics.enable allows that. With
        /// false, such a topic is an error.
        "allow.auto.create.topics" => allow_auto_create_topics: bool = "false", bool();
    } CONSUMER {
        /// Most bytes of one partition in the answer to one fetch. A larger batch is still returned.
        "max.partition.fetch.bytes" => max_partition_fetch_bytes: i32 = "4194304", bytes(1);
        /// Most bytes that are requested from brokers or wait for a poll; at this limit fetching pauses.
        "prefetch.max.bytes" => prefetch_max_bytes: usize = "33554432", bytes(1, i64::MAX);
        /// Where to start without a position, or if the records at the position are gone: at the first record
        /// (earliest), after the last one (latest), or nowhere, with an error (none).
        "auto.offset.reset" => auto_offset_reset: OffsetReset = "latest", choice(
            "earliest" => OffsetReset::Earliest,
            "latest" => OffsetReset::Latest,
            "none" => OffsetReset::None
        );
        /// Whether records of open and aborted transactions are hidden.
        "isolation.level" => read_committed: bool = "read_uncommitted", choice(
            "read_uncommitted" => false,
            "read_committed" => true
        );
    } PRODUCER_AND_CONSUMERS {
        /// The rack this client stands in, as brokers name theirs (broker.rack). A leader that has a replica selector then sends
        /// a consumer to a replica that is nearer (KIP-392); a producer uses it with partitioner.rack.aware.
        "client.rack" => client_rack: Option<String>, text(optional);
    } } };
}
pub(in crate::config) use consumer;

/// Where to start without a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record there is.
    Earliest,
    /// After the last record there is.
    #[default]
    Latest,
    /// Nowhere: it is an error.
    None,
}
