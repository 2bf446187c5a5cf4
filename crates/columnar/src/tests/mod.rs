use bytes::Bytes;

use crate::{ColumnarError, Columns, FetchedPartition, Memory};

mod decoding;
mod log;
mod old_messages;
mod sending;

fn decode(records: Bytes, source: &FetchedPartition) -> Result<Columns, ColumnarError> {
    crate::decode(records, source, &Memory::new(1 << 20, Vec::with_capacity))
}
