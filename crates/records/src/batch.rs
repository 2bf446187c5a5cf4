//! Batches in a buffer.

use bytes::Bytes;

use super::walk::Walk;
use super::{BatchHeader, ControlType, Records, RecordsError};
use crate::compression::{self, Compression};

/// Walks a buffer that holds only batches, such as the log of a new broker; [`entries`](super::entries) also walks older
/// formats. A last batch that is cut short ends the walk: a Fetch response may end in the middle of a batch.
#[must_use]
pub fn batches(records: Bytes) -> Batches {
    Batches {
        walk: Walk::new(records),
    }
}

/// The iterator of [`batches`]. After an error it ends.
#[derive(Debug, Clone)]
pub struct Batches {
    walk: Walk,
}

impl Batches {
    /// The number of bytes that are not walked yet: at the end, those of a batch that is cut short, or 0.
    #[must_use]
    pub fn leftover(&self) -> usize {
        self.walk.rest.len()
    }

    /// The error for a last batch that is cut short, if there is one. Report it if no whole batch came before, because a consumer
    /// cannot continue then.
    #[must_use]
    pub fn cut(&self) -> Option<RecordsError> {
        self.walk.cut(BatchHeader::SIZE)
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next(Batch::parse)
    }
}

/// One whole batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its header.
    pub header: BatchHeader,
    /// All its bytes, header included.
    pub bytes: Bytes,
}

impl Batch {
    /// Parses bytes that hold exactly one batch. It does not check the checksum.
    ///
    /// # Errors
    /// An impossible header, or bytes that are not exactly one batch.
    pub fn parse(bytes: Bytes) -> Result<Self, RecordsError> {
        let header = BatchHeader::parse(&bytes)?;
        let base_offset = header.base_offset;
        if bytes.len() < header.size() {
            return Err(RecordsError::Cut {
                needed: header.size(),
                left: bytes.len(),
            });
        }
        if bytes.len() > header.size() {
            return Err(RecordsError::Extra {
                base_offset,
                extra: bytes.len() - header.size(),
            });
        }
        header.check_range()?;
        Ok(Self { header, bytes })
    }

    /// Checks the checksum.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if the bytes changed after they were written.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        let computed =
            super::crc::crc32c(self.bytes.get(BatchHeader::CRC_FROM..).unwrap_or_default());
        let BatchHeader {
            base_offset,
            crc: expected,
            ..
        } = self.header;
        if computed == expected {
            Ok(())
        } else {
            Err(RecordsError::Crc {
                base_offset,
                expected,
                computed,
            })
        }
    }

    /// The record section, as stored in the batch.
    #[must_use]
    pub fn section(&self) -> Bytes {
        self.bytes.slice(BatchHeader::SIZE.min(self.bytes.len())..)
    }

    /// The record section, decompressed to at most `limit` bytes; a slice of the batch if it is not compressed.
    ///
    /// # Errors
    /// An unknown codec, damaged data, or more than the limit.
    pub fn payload(&self, limit: usize) -> Result<Bytes, RecordsError> {
        let codec = self.header.compression()?;
        let section = self.section();
        if codec == Compression::None {
            return Ok(section);
        }
        let payload = compression::decompress(codec, &section, limit)
            .map_err(|source| self.compression_error(source))?;
        Ok(Bytes::from(payload))
    }

    /// As [`Self::payload`], into a buffer that several batches can share. It does not use `scratch` if the batch is not
    /// compressed.
    ///
    /// # Errors
    /// As [`Self::payload`].
    pub fn payload_in<'a>(
        &'a self,
        limit: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], RecordsError> {
        let codec = self.header.compression()?;
        let section = self.bytes.get(BatchHeader::SIZE..).unwrap_or_default();
        if codec == Compression::None {
            return Ok(section);
        }
        compression::decompress_into(codec, section, limit, scratch)
            .map_err(|source| self.compression_error(source))?;
        Ok(scratch)
    }

    /// The records of the payload that [`Self::payload`] returned.
    ///
    /// # Errors
    /// [`RecordsError::Count`] if the payload cannot hold as many records as in the header; then
    /// one error per record.
    pub fn records<'a>(&self, payload: &'a [u8]) -> Result<Records<'a>, RecordsError> {
        Records::new(&self.header, payload)
    }

    /// The type of a control batch, which its first record has; further records have no meaning. `None` for other batches, and
    /// for control batches that compaction left empty.
    ///
    /// # Errors
    /// The errors of reading the first record.
    pub fn control_type(&self, limit: usize) -> Result<Option<ControlType>, RecordsError> {
        if !self.header.is_control() {
            return Ok(None);
        }
        let payload = self.payload(limit)?;
        let first = self.records(&payload)?.next().transpose()?;
        Ok(first
            .and_then(|record| record.key)
            .and_then(ControlType::from_key))
    }

    fn compression_error(&self, source: compression::CompressionError) -> RecordsError {
        RecordsError::Compression {
            base_offset: self.header.base_offset,
            source,
        }
    }
}
