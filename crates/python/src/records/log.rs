//! Partitions' logs in folders: their outline, and their records as columns. `ottla.log` reads the files.

use std::collections::HashMap;

use bytes::Bytes;
use ottla_columnar::{AbortedSpan, LogPart, LogRange, Memory};
use ottla_protocol::records::{Outline, RecordsError, TransactionStep};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::records::batch::{Batch, Chunk};
use crate::records::memory;

/// Bytes of decoded columns that a decoder keeps to use again: those of a few windows.
const KEPT: usize = 64 << 20;

/// A producer, an offset, and whether its transaction ends there: None for its records, else whether it was committed.
type Step = (i64, i64, Option<bool>);

/// The bytes that were walked, the offset after the last entry and the position of that entry, steps of transactions, whether the next
/// entry has no end, and what is wrong with it.
type Outlined = (usize, Option<i64>, usize, Vec<Step>, bool, Option<String>);

/// Walks the first bytes of entries. `left`: bytes of the segment from these bytes on, which may be more than are given.
#[pyfunction]
pub(crate) fn outline_log(
    py: Python<'_>,
    data: PyBackedBytes,
    left: usize,
    limit: usize,
) -> Outlined {
    py.detach(|| {
        let bytes = Bytes::from_owner(data);
        let (mut used, mut last, mut next, mut cut) = (0, 0, None, false);
        let mut steps = Vec::new();
        // Of a transaction only its first records say something new.
        let mut open = HashMap::new();
        let mut damage = None;
        while used < bytes.len() {
            let outline = match Outline::read(&bytes.slice(used..), limit) {
                Ok(Some(outline)) if outline.size <= left.saturating_sub(used) => outline,
                Ok(found) => {
                    cut = found.is_some() || bytes.len() >= left;
                    break;
                }
                Err(error) => {
                    damage = Some(RecordsError::to_string(&error));
                    break;
                }
            };
            if let Some((producer, step)) = outline.transaction {
                let ended = match step {
                    TransactionStep::Records => None,
                    TransactionStep::Commit => Some(true),
                    TransactionStep::Abort => Some(false),
                };
                if open.insert(producer, ended) != Some(None) || ended.is_some() {
                    steps.push((producer, outline.base_offset, ended));
                }
            }
            next = Some(outline.next_offset());
            last = used;
            used += outline.size;
        }
        (used, next, last, steps, cut, damage)
    })
}

/// Decodes the parts of a segment one after the other.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct LogDecoder {
    range: LogRange,
    memory: Memory,
    /// The offset after what was decoded.
    due: Mutex<Option<i64>>,
}

type Damage = (Option<i64>, String);

#[pymethods]
impl LogDecoder {
    /// `segment`: its first offset, and the one after its last. `aborted`: producer, first offset and marker of transactions whose records are left out.
    #[new]
    fn new(
        topic: &str,
        partition: i32,
        start: i64,
        end: i64,
        segment: (i64, i64),
        aborted: Vec<(i64, i64, i64)>,
        limit: usize,
    ) -> Self {
        let spans = aborted
            .into_iter()
            .map(|(producer_id, first_offset, last_offset)| AbortedSpan {
                producer_id,
                first_offset,
                last_offset,
            });
        Self {
            range: LogRange {
                topic: topic.into(),
                partition,
                start,
                end,
                segment,
                aborted: spans.collect(),
                decompress_limit: limit,
            },
            memory: Memory::new(KEPT, memory::fresh),
            due: Mutex::new(None),
        }
    }

    /// The records of whole entries at the beginning of the bytes, how many bytes these take, whether the range ends there, and what
    /// is wrong with the bytes that follow: the offset they claim, and why.
    fn decode(&self, py: Python<'_>, data: PyBackedBytes) -> (Batch, usize, bool, Option<Damage>) {
        let part = py.detach(|| {
            let mut due = self.due.lock();
            let part = LogPart::decode(&Bytes::from_owner(data), &self.range, *due, &self.memory);
            *due = part.next_offset;
            part
        });
        let chunks = part.columns.into_iter().map(Chunk::new).collect();
        let damage = part.damage.map(|damage| (damage.offset, damage.cause));
        (Batch::new(chunks), part.used, part.ended, damage)
    }
}
