//! What a consumer makes of record batches: Arrow columns.

use std::sync::Arc;

use ottla_client::{Config, Decode, Error, Fetched};
use ottla_columnar::{FetchedPartition, Memory};

use crate::batch::Chunk;
use crate::memory;

/// Decodes to Arrow columns, with what the consumer's settings say about it.
pub(crate) struct Decoder {
    read_committed: bool,
    check_crcs: bool,
    decompress_limit: usize,
    memory: Memory,
}

impl Decoder {
    pub(crate) fn new(config: &Config) -> Self {
        Decoder {
            read_committed: config.read_committed,
            check_crcs: config.check_crcs,
            decompress_limit: config.decompress_max_bytes,
            memory: Memory::new(config.prefetch_max_bytes, memory::fresh),
        }
    }
}

impl Decode for Decoder {
    type Chunk = Chunk;

    fn decode(&self, fetched: &Fetched) -> Result<Chunk, Error> {
        let source = FetchedPartition {
            topic: Arc::clone(&fetched.topic),
            partition: fetched.partition,
            fetch_offset: fetched.fetch_offset,
            aborted: fetched.aborted.to_vec(),
            read_committed: self.read_committed,
            check_crcs: self.check_crcs,
            decompress_limit: self.decompress_limit,
        };
        ottla_columnar::decode(fetched.records.clone(), &source, &self.memory)
            .map(Chunk::new)
            .map_err(|error| fetched.corrupt(error))
    }

    fn rest(&self) {
        self.memory.clear();
    }
}
