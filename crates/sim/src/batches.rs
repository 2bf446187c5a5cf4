//! The batches of a producer and the records in each, as the application around it counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::producer::{NotAppended, Producer as Work, Row};

use crate::book::Book;
use crate::brokers::EPOCH_MS;
use crate::history::{RecordId, value};
use crate::host::Host;

/// A record to be sent.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; `None` leaves it to the key.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// Bytes that make the value longer.
    pub padding: usize,
}

/// Records of one batch, in its order.
#[derive(Debug)]
struct Batch {
    topic: Arc<str>,
    partition: i32,
    records: Vec<RecordId>,
}

/// All batches with records that have no delivery result.
#[derive(Debug, Default)]
pub struct Batches {
    known: BTreeMap<u64, Batch>,
    next: u64,
    /// How far the wall clock, which gives records their time, is ahead in milliseconds.
    pub ahead_ms: i64,
}

impl Batches {
    /// Whether every record that was appended has its delivery result.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Appends a record, whose delivery result is due after `patience`.
    ///
    /// # Errors
    /// As the engine's.
    pub fn append(
        &mut self,
        book: &mut Book,
        host: &mut Host<Work<u64>>,
        patience: Duration,
        id: RecordId,
        wish: &Wish,
    ) -> Result<(), NotAppended> {
        let now = book.now;
        let bytes = value(id, &wish.topic, wish.padding);
        let (known, next, ahead_ms) = (&mut self.known, &mut self.next, self.ahead_ms);
        let appended = host.work(now, |engine| {
            let passed = i64::try_from(book.at().as_millis()).unwrap_or(0);
            let time = EPOCH_MS + passed + ahead_ms;
            let open = |topic: &Arc<str>, partition| {
                *next += 1;
                let batch = Batch {
                    topic: Arc::clone(topic),
                    partition,
                    records: Vec::new(),
                };
                known.insert(*next, batch);
                *next
            };
            let mut row = Row::new(wish.key.as_deref(), Some(&bytes));
            row.partition = wish.partition;
            let appended = engine.append(|| now, &wish.topic, &row, time, open);
            appended.map(|appended| (*appended.batch, appended.index))
        });
        if appended.is_err() {
            // A batch that was abandoned while its first record was appended: only the refusal is
            // reported for it.
            self.known.retain(|_, batch| !batch.records.is_empty());
        }
        let (number, index) = appended?;
        if let Some(batch) = self.known.get_mut(&number) {
            if batch.records.len() != index as usize || batch.topic != wish.topic {
                let text = format!("record {id} is number {index} of batch {number}");
                book.history.complain("R6", "unresolved", text);
            }
            batch.records.push(id);
            let due = book.since(now) + patience;
            if let Some(sent) = book.history.sends.get_mut(id) {
                sent.placed = Some((batch.partition, number));
                sent.due = Some(due);
            }
        }
        Ok(())
    }

    /// The records of a batch from `first` on that get their delivery result now; `None` if they
    /// have one already.
    pub fn records(
        &self,
        book: &mut Book,
        number: u64,
        first: u32,
        count: u32,
    ) -> Option<Vec<RecordId>> {
        let Some(batch) = self.known.get(&number) else {
            let text = format!("batch {number} was decided before");
            book.history.complain("R6", "resolved-twice", text);
            return None;
        };
        let range = first as usize..(first + count) as usize;
        let records = batch.records.get(range).map(<[RecordId]>::to_vec);
        if records.is_none() {
            let text = format!("records {first} to {} of batch {number}", first + count);
            book.history.complain("R6", "resolved-twice", text);
        }
        records
    }

    /// Forgets a batch.
    pub fn forget(&mut self, number: u64) {
        self.known.remove(&number);
    }

    /// Forgets a batch if each of its records has its delivery result.
    pub fn forget_if_decided(&mut self, book: &Book, number: u64) {
        let decided = |id: &RecordId| {
            let sent = book.history.sends.get(*id);
            sent.is_some_and(|sent| !sent.fates.is_empty())
        };
        let batch = self.known.get(&number);
        if batch.is_some_and(|batch| batch.records.iter().all(decided)) {
            self.forget(number);
        }
    }
}
