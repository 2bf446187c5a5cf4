//! What a consumer makes of record batches: Arrow columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ottla_client::{Config, Decode, Error, Fetched, Kind};
use ottla_columnar::{ColumnarError, FetchedPartition, Memory};
use ottla_protocol::compression::CompressionError;
use ottla_protocol::records::{Malformed, RecordsError};

use crate::records::batch::Chunk;
use crate::records::memory;

/// Decodes to Arrow columns, with what the consumer's settings say about it.
pub(crate) struct Decoder {
    read_committed: bool,
    check_crcs: bool,
    decompress_limit: usize,
    memory: Memory,
    /// Whether keys and values are left in what was received, as those who read the last batches liked it.
    in_place: Arc<AtomicBool>,
    /// Whether the records are those of a share group, of which the group decides what comes next.
    shares: bool,
}

impl Decoder {
    pub(crate) fn new(config: &Config) -> Self {
        Decoder {
            read_committed: config.read_committed,
            check_crcs: config.check_crcs,
            decompress_limit: config.decompress_max_bytes,
            memory: Memory::new(config.prefetch_max_bytes, memory::fresh),
            in_place: Arc::default(),
            shares: false,
        }
    }

    /// For records that a share consumer has acquired: the broker hides those of aborted
    /// transactions, according to the group's `share.isolation.level`.
    pub(crate) fn for_shares(config: &Config) -> Self {
        Decoder {
            read_committed: false,
            shares: true,
            ..Self::new(config)
        }
    }
}

impl Decode for Decoder {
    type Chunk = Chunk;

    fn decode(&self, fetched: &Fetched) -> Result<Chunk, Error> {
        self.decoded(fetched, self.decompress_limit)
            .map_err(|error| self.error(fetched, &error))
    }

    fn decode_within(&self, fetched: &Fetched, most: usize) -> Option<Result<Chunk, Error>> {
        let limit = self.decompress_limit.min(most);
        match self.decoded(fetched, limit) {
            Err(error) if limit < self.decompress_limit && is_limit(&error) => None,
            found => Some(found.map_err(|error| self.error(fetched, &error))),
        }
    }

    fn rest(&self) {
        self.memory.clear();
    }
}

impl Decoder {
    fn decoded(&self, fetched: &Fetched, decompress_limit: usize) -> Result<Chunk, ColumnarError> {
        let source = FetchedPartition {
            topic: Arc::clone(&fetched.topic),
            partition: fetched.partition,
            fetch_offset: fetched.fetch_offset,
            aborted: fetched.aborted.to_vec(),
            read_committed: self.read_committed,
            check_crcs: self.check_crcs,
            decompress_limit,
        };
        let decode = match self.in_place.load(Ordering::Relaxed) {
            true => ottla_columnar::decode_in_place,
            false => ottla_columnar::decode_shown,
        };
        decode(fetched.records.clone(), &source, &self.memory)
            .map(|columns| Chunk::new(columns).liked(&self.in_place))
    }

    fn error(&self, fetched: &Fetched, error: &ColumnarError) -> Error {
        let found = match error {
            ColumnarError::Records { source, .. } => match source {
                RecordsError::HeaderKey { .. } => fetched.refused(Malformed::HeaderKey),
                source => fetched.corrupt(source),
            },
            error => fetched.corrupt(error),
        };
        match found.damage().filter(|_| self.shares) {
            Some(damage) => Error::new(fault(error), error.to_string())
                .with_partition(&fetched.topic, fetched.partition)
                .with_damage(damage.clone()),
            None => found,
        }
    }
}

/// Whether records decompress to more than the limit.
fn is_limit(error: &ColumnarError) -> bool {
    let ColumnarError::Records { source, .. } = error else {
        return false;
    };
    matches!(
        source,
        RecordsError::Compression {
            source: CompressionError::TooLarge { .. },
            ..
        }
    )
}

/// Whether records are damaged, or only too much for this client, or nothing that it can show: then another may fare better.
fn fault(error: &ColumnarError) -> Kind {
    let ColumnarError::Records { source, .. } = error else {
        return match error {
            ColumnarError::OutOfOrder { .. } => Kind::Corrupt,
            _ => Kind::TooLarge,
        };
    };
    match source {
        RecordsError::HeaderKey { .. } => Kind::Unsupported,
        RecordsError::Compression { source, .. } => match source {
            CompressionError::Corrupt { .. } => Kind::Corrupt,
            _ => Kind::TooLarge,
        },
        _ => Kind::Corrupt,
    }
}
