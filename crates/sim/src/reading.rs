//! From fetched bytes to records, as applications around a consumer get them.

use std::collections::VecDeque;

use ottla_engine::consumer::Generation;
use ottla_engine::fetched::Fetched;
use ottla_protocol::records::{AbortedTransactions, Entry, RecordsError, entries};

use crate::book::Book;
use crate::history::{Place, Value, parse};
use crate::plant::Plant;

/// The most bytes that records may have after decompression.
const MOST: usize = 16 << 20;

/// Decoded records of one partition that were not given out.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) place: Place,
    pub(crate) generation: Generation,
    pub(crate) records: VecDeque<(i64, Value)>,
    /// Where reading goes on after them.
    pub(crate) next_offset: i64,
}

impl Chunk {
    /// Keeps the first `most` records, and gives back the rest, if there is one.
    pub(crate) fn cut(&mut self, most: usize) -> Option<Chunk> {
        let records = self.records.split_off(self.records.len().min(most));
        let (first, _) = records.front()?;
        let next_offset = std::mem::replace(&mut self.next_offset, *first);
        Some(Chunk {
            place: self.place.clone(),
            generation: self.generation,
            records,
            next_offset,
        })
    }
}

/// The records of a fetch from its offset on; `markers` gets the offsets of those that are none.
pub(crate) fn decode(
    book: &mut Book,
    fetched: &Fetched,
    plant: Option<Plant>,
    markers: &mut Vec<i64>,
) -> Result<VecDeque<(i64, Value)>, RecordsError> {
    let mut records = VecDeque::new();
    let mut aborted = AbortedTransactions::new(fetched.aborted.iter().copied());
    for entry in entries(fetched.records.clone()) {
        let entry = entry?;
        entry.verify_crc()?;
        if let Entry::Batch(batch) = &entry {
            let hidden = aborted.hide(batch, MOST)?;
            if batch.header.is_control() {
                markers.push(batch.header.base_offset);
                continue;
            }
            if hidden && plant != Some(Plant::AbortedGivenOut) {
                book.tally
                    .meet("reader: hid records of an aborted transaction");
                continue;
            }
        }
        let payload = entry.payload(MOST)?;
        let mut first = None;
        for (record, index) in entry.records(&payload)?.zip(0..) {
            let mut record = record?;
            if plant == Some(Plant::OffsetsCounted) {
                record.offset = *first.get_or_insert(record.offset) + index;
            }
            let wanted = record.offset >= fetched.fetch_offset || plant == Some(Plant::StepsBack);
            if !wanted {
                continue;
            }
            let mut value = record.value.unwrap_or_default().to_vec();
            if plant == Some(Plant::BufferReused) && records.len() % 4 == 3 {
                let middle = value.len() / 2;
                value.truncate(middle);
                value.extend_from_slice(record.value.unwrap_or_default());
            }
            let read = parse(&value).unwrap_or(Value {
                id: usize::MAX,
                topic: String::new(),
                sound: false,
            });
            records.push_back((record.offset, read));
        }
    }
    Ok(records)
}
