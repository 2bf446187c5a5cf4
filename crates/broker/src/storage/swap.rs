//! What a crash left of segments that were taking the place of others.

use std::fs;
use std::path::Path;

use super::batch::Meta;
use super::naming::{CLEANED, SWAP, base_offset, finish, remove, segment_files};
use super::segment::{Segment, Trust};
use crate::error::BrokerError;

/// Brings to an end what a crash left in the folder of a partition.
pub(super) fn recover(dir: &Path) -> Result<(), BrokerError> {
    let mut swaps = Vec::new();
    for entry in fs::read_dir(dir).map_err(BrokerError::io(dir))? {
        let path = entry.map_err(BrokerError::io(dir))?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(CLEANED) => fs::remove_file(&path).map_err(BrokerError::io(&path))?,
            Some(SWAP) => swaps.push(path),
            _ => {}
        }
    }
    for swap in swaps {
        let log = swap.with_extension("");
        let base = base_offset(&log)?;
        let mut end = base;
        let mut visit = |meta: &Meta, _| end = meta.last_offset + 1;
        Segment::recover(swap.clone(), base, u64::MAX, Trust::Sealed, &mut visit)?;
        for (other, path) in segment_files(dir)? {
            if base < other && other < end {
                remove(&path).map_err(BrokerError::io(&path))?;
            }
        }
        finish(&swap, &log).map_err(BrokerError::io(&log))?;
    }
    Ok(())
}
