//! Transactions that were aborted, among the batches of a fetch answer (KIP-98).

use std::collections::HashSet;

use super::{Batch, ControlType, RecordsError};

/// A transaction that was aborted, as a Fetch response tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Offset of the transaction's first record in the partition.
    pub first_offset: i64,
}

/// Tells which batches of a fetch answer belong to an aborted transaction, while they go by in order.
///
/// A producer has one transaction open at a time. An aborted one begins at the offset that the answer tells and ends with
/// the producer's next abort marker; other producers' batches may stand between.
#[derive(Debug, Clone, Default)]
pub struct AbortedTransactions {
    /// Those that have not begun, last first.
    to_come: Vec<AbortedTransaction>,
    /// The producers of those that have.
    open: HashSet<i64>,
}

impl AbortedTransactions {
    /// Those of one answer and partition, in any order.
    #[must_use]
    pub fn new(transactions: impl IntoIterator<Item = AbortedTransaction>) -> Self {
        let mut to_come: Vec<_> = transactions.into_iter().collect();
        to_come.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            to_come,
            open: HashSet::new(),
        }
    }

    /// What the reader of the batches from here on has to be told, if it is another one.
    pub fn unended(&self) -> impl Iterator<Item = AbortedTransaction> + '_ {
        let open = self.open.iter().map(|producer_id| AbortedTransaction {
            producer_id: *producer_id,
            first_offset: 0,
        });
        open.chain(self.to_come.iter().copied())
    }

    /// Takes note of the next batch and says whether its records belong to an aborted transaction. A control batch never
    /// does; an abort marker, which may come more than once, ends its producer's transaction. Control batches decompress to at
    /// most `limit` bytes.
    ///
    /// # Errors
    /// Those of reading the first record of a control batch.
    pub fn hide(&mut self, batch: &Batch, limit: usize) -> Result<bool, RecordsError> {
        let header = &batch.header;
        while let Some(begun) = self
            .to_come
            .last()
            .filter(|transaction| transaction.first_offset <= header.last_offset())
        {
            self.open.insert(begun.producer_id);
            self.to_come.pop();
        }
        if !header.is_transactional() {
            return Ok(false);
        }
        if !header.is_control() {
            return Ok(self.open.contains(&header.producer_id));
        }
        if batch.control_type(limit)? == Some(ControlType::Abort) {
            self.open.remove(&header.producer_id);
        }
        Ok(false)
    }
}
