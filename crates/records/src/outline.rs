//! Walks a part of a log by the first bytes of its entries: where they stand, and what they mean for transactions (KIP-98).

use bytes::Bytes;

use super::entry::MAGIC_AT;
use super::message::Start;
use super::{Batch, BatchHeader, ControlType, RecordsError};

/// What an entry means for the transaction of its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStep {
    /// It holds records of the transaction.
    Records,
    /// It ends the transaction, and its records count.
    Commit,
    /// It ends the transaction, and its records do not count.
    Abort,
}

/// The first bytes of an entry of a log, without its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Bytes of the whole entry, of which the end may be missing.
    pub size: usize,
    /// As [`Entry::base_offset`](super::Entry::base_offset).
    pub base_offset: i64,
    /// Offset of the last record, even if compaction removed it.
    pub last_offset: i64,
    /// The producer and what its transaction learns; `None` if the entry belongs to no transaction.
    pub transaction: Option<(i64, TransactionStep)>,
}

impl Outline {
    /// Reads what stands at the beginning of the bytes, and of what is compressed only control batches, to at most `limit`
    /// bytes. `None` if more bytes are needed: those of the header, and of a control batch all.
    ///
    /// # Errors
    /// Bytes that are not the start of an entry, or a control batch that is damaged.
    pub fn read(bytes: &Bytes, limit: usize) -> Result<Option<Self>, RecordsError> {
        let (outline, control) = match bytes.get(MAGIC_AT) {
            Some(0 | 1) => match Start::parse(bytes) {
                Err(RecordsError::Cut { .. }) => return Ok(None),
                start => (Self::of_message(&start?), None),
            },
            _ => match BatchHeader::parse(bytes) {
                Err(RecordsError::Cut { .. }) => return Ok(None),
                header => Self::of_batch(header?)?,
            },
        };
        let Some(producer) = control else {
            return Ok(Some(outline));
        };
        if outline.size > bytes.len() {
            return Ok(None);
        }
        let batch = Batch::parse(bytes.slice(..outline.size))?;
        batch.verify_crc()?;
        let step = match batch.control_type(limit)? {
            Some(ControlType::Commit) => TransactionStep::Commit,
            Some(ControlType::Abort) => TransactionStep::Abort,
            _ => return Ok(Some(outline)),
        };
        Ok(Some(Self {
            transaction: Some((producer, step)),
            ..outline
        }))
    }

    /// The offset to continue at after this entry.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.last_offset.saturating_add(1)
    }

    const fn of_message(start: &Start) -> Self {
        Self {
            size: start.size(),
            base_offset: start.offset(),
            last_offset: start.offset(),
            transaction: None,
        }
    }

    /// The outline, and the producer if it is a control batch of a transaction.
    fn of_batch(header: BatchHeader) -> Result<(Self, Option<i64>), RecordsError> {
        header.check_range()?;
        let outline = Self {
            size: header.size(),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            transaction: None,
        };
        let producer = header.producer_id;
        Ok(match (header.is_transactional(), header.is_control()) {
            (true, true) => (outline, Some(producer)),
            // Compaction leaves a producer's last batch without records, and it begins no transaction.
            (true, false) if header.count > 0 => (
                Self {
                    transaction: Some((producer, TransactionStep::Records)),
                    ..outline
                },
                None,
            ),
            _ => (outline, None),
        })
    }
}
