use bytes::Bytes;

use crate::{ColumnarError, Columns, FetchedPartition, Memory};

mod decoding;
mod log;
mod old_messages;
mod sending;
mod views;

/// Decodes into columns, whose views, and those of a decode in place, say the same.
fn decode(records: Bytes, source: &FetchedPartition) -> Result<Columns, ColumnarError> {
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    let copied = crate::decode_shown(records.clone(), source, &memory);
    let viewed = crate::decode_in_place(records.clone(), source, &memory);
    match (&copied, &viewed) {
        (Ok(copied), Ok(viewed)) => {
            views::same(copied, viewed);
            views::same(copied, &copied.slice(0, copied.len()));
        }
        (Err(copied), Err(viewed)) => assert_eq!(copied.to_string(), viewed.to_string()),
        _ => panic!("{copied:?}, but in place {viewed:?}"),
    }
    crate::decode(records, source, &memory)
}
