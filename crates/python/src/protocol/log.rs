//! The data of log segments: where its batches stand, and their records as columns.

use std::sync::Arc;

use bytes::Bytes;
use ottla_columnar::{Aborted, FetchedPartition, Memory};
use ottla_protocol::records::{self, Entry, Found};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::batch::{Batch, Chunk};
use crate::{errors, memory};

/// Where it stands and its size; what it is, or the cause why it is damage.
type Item = (usize, usize, Option<Outline>, Option<String>);
/// First and last offset, the producer's id, whether it is part of a transaction, and whether it is a control batch.
type Outline = (i64, i64, i64, bool, bool);

/// The batches and messages of a part of a segment, without what they hold, and the damage between them.
#[pyfunction]
pub(crate) fn outline_log(py: Python<'_>, data: PyBackedBytes, check_crcs: bool) -> Vec<Item> {
    py.detach(|| {
        let walk = records::segment(Bytes::from_owner(data));
        let walk = if check_crcs {
            walk
        } else {
            walk.without_crcs()
        };
        walk.map(|found| match found {
            Found::Entry { position, entry } => {
                (position, entry.size(), Some(outline(&entry)), None)
            }
            Found::Damage(damage) => {
                let cause = damage.cause.to_string();
                (damage.position, damage.size, None, Some(cause))
            }
        })
        .collect()
    })
}

fn outline(entry: &Entry) -> Outline {
    let (first, last) = (entry.base_offset(), entry.last_offset());
    match entry {
        Entry::Batch(batch) => {
            let header = &batch.header;
            (
                first,
                last,
                header.producer_id,
                header.is_transactional(),
                header.is_control(),
            )
        }
        Entry::Message(_) => (first, last, -1, false, false),
    }
}

/// Decodes whole batches and messages of a partition's log into columns, as those of a fetch. Checksums are not checked again.
#[pyfunction]
pub(crate) fn decode_log(
    py: Python<'_>,
    data: PyBackedBytes,
    topic: &str,
    partition: i32,
    start: i64,
    aborted: Vec<(i64, i64)>,
    limit: usize,
) -> PyResult<Batch> {
    let read_committed = !aborted.is_empty();
    let source = FetchedPartition {
        topic: Arc::from(topic),
        partition,
        fetch_offset: start,
        aborted: aborted
            .into_iter()
            .map(|(producer_id, first_offset)| Aborted {
                producer_id,
                first_offset,
            })
            .collect(),
        read_committed,
        check_crcs: false,
        decompress_limit: limit,
    };
    py.detach(|| {
        let memory = Memory::new(0, memory::fresh);
        ottla_columnar::decode(Bytes::from_owner(data), &source, &memory)
    })
    .map(|columns| Batch::new(vec![Chunk::new(columns)]))
    .map_err(|error| errors::corrupt(&error.to_string()))
}
