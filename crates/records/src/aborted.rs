//! Finds the aborted transactions among the batches of a Fetch response (KIP-98).

use std::collections::HashSet;

use super::{Batch, ControlType, RecordsError};

/// An aborted transaction in a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Offset of the transaction's first record in the partition.
    pub first_offset: i64,
}

/// Decides for each batch of a Fetch response, in order, whether it belongs to an aborted transaction.
///
/// A producer has one transaction open at a time. An aborted one begins at the offset in the response and ends with
/// the producer's next abort marker; batches of other producers may be in between.
#[derive(Debug, Clone, Default)]
pub struct AbortedTransactions {
    /// Transactions that have not begun yet, the last one first.
    to_come: Vec<AbortedTransaction>,
    /// The producers of open aborted transactions.
    open: HashSet<i64>,
}

impl AbortedTransactions {
    /// The aborted transactions of one partition in a Fetch response, in any order.
    #[must_use]
    pub fn new(transactions: impl IntoIterator<Item = AbortedTransaction>) -> Self {
        let mut to_come: Vec<_> = transactions.into_iter().collect();
        to_come.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            to_come,
            open: HashSet::new(),
        }
    }

    /// The transactions that still matter for the batches from here on, for another reader of them.
    pub fn unended(&self) -> impl Iterator<Item = AbortedTransaction> + '_ {
        let open = self.open.iter().map(|producer_id| AbortedTransaction {
            producer_id: *producer_id,
            first_offset: 0,
        });
        open.chain(self.to_come.iter().copied())
    }

    /// Takes the next batch and returns whether its records belong to an aborted transaction. A control batch never
    /// does; an abort marker, which may come more than once, ends its producer's transaction. Control batches decompress to at
    /// most `limit` bytes.
    ///
    /// # Errors
    /// The errors of reading the first record of a control batch.
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
