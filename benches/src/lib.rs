//! Samples for the benches of the Rust core.

use bytes::{Bytes, BytesMut};
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{self, BatchBuilder, ProducerState, RecordsError};

/// Records of one size, as a steady producer sends them.
#[derive(Debug, Clone)]
pub struct Sample {
    keys: Vec<String>,
    value: Vec<u8>,
}

impl Sample {
    /// `count` records with keys of 8 digits and the same value of `size` bytes.
    #[must_use]
    pub fn new(count: usize, size: usize) -> Self {
        Self {
            keys: (0..count).map(|i| format!("{i:08}")).collect(),
            value: b"2654435761 ".iter().copied().cycle().take(size).collect(),
        }
    }

    /// Bytes of all values.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.keys.len() * self.value.len()
    }

    /// All records as one batch.
    ///
    /// # Errors
    /// The errors of [`BatchBuilder`].
    pub fn batch(&self, codec: Compression) -> Result<Bytes, RecordsError> {
        let mut builder = BatchBuilder::new(codec, None);
        for (key, i) in self.keys.iter().zip(0..) {
            let time = 1_700_000_000_000 + i;
            builder.append(
                time,
                Some(key.as_bytes()),
                Some(&self.value),
                std::iter::empty(),
            )?;
        }
        builder.finish(ProducerState::NONE)
    }

    /// The records of a partition in a Fetch response: the batch, repeated `times` times at growing offsets.
    ///
    /// # Errors
    /// The errors of [`BatchBuilder`].
    pub fn fetched(&self, codec: Compression, times: usize) -> Result<Bytes, RecordsError> {
        let batch = self.batch(codec)?;
        let mut all = BytesMut::with_capacity(batch.len() * times);
        let mut offset = 0;
        for _ in 0..times {
            let mut copy = BytesMut::from(&*batch);
            records::assign_offsets(&mut copy, offset, 0)?;
            all.extend_from_slice(&copy);
            offset += i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        }
        Ok(all.freeze())
    }
}
