//! The files of a segment: what they are called, and how they go and take each other's places.
//!
//! A segment that was written again takes the place of others so that a crash leaves the old ones
//! or the new one. As in Kafka: `BASE.log.cleaned` is being written and means nothing; once it is
//! `BASE.log.swap`, it stands for all segments whose records it has; then these go, and it gets its
//! name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::BrokerError;

pub(super) const CLEANED: &str = "cleaned";
pub(super) const SWAP: &str = "swap";
/// The extension of the index of aborted transactions.
pub(super) const ABORTED: &str = "txnindex";

/// The file that a segment is written to which is to take the place of the one at `log`.
pub(super) fn cleaned(log: &Path) -> PathBuf {
    with_suffix(log, CLEANED)
}

/// Puts the file at `cleaned(log)` in the place of the one at `log`, and of `others`, which come after it.
pub(super) fn replace(log: &Path, others: &[PathBuf]) -> io::Result<()> {
    let swap = with_suffix(log, SWAP);
    fs::rename(cleaned(log), &swap)?;
    for other in others {
        remove(other)?;
    }
    finish(&swap, log)
}

pub(super) fn finish(swap: &Path, log: &Path) -> io::Result<()> {
    remove_indexes(log)?;
    fs::rename(swap, log)
}

/// Removes a segment's files.
pub(super) fn remove(log: &Path) -> io::Result<()> {
    remove_indexes(log)?;
    fs::remove_file(log)
}

fn remove_indexes(log: &Path) -> io::Result<()> {
    for extension in ["index", "timeindex", ABORTED] {
        remove_if_there(&log.with_extension(extension))?;
    }
    Ok(())
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// The segment files of a folder and their base offsets, in order.
pub(super) fn segment_files(dir: &Path) -> Result<Vec<(i64, PathBuf)>, BrokerError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(BrokerError::io(dir))? {
        let path = entry.map_err(BrokerError::io(dir))?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            found.push((base_offset(&path)?, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The first offset of a segment, from its file's name.
pub(super) fn base_offset(log: &Path) -> Result<i64, BrokerError> {
    let stem = log.file_stem().and_then(|stem| stem.to_str());
    let base = stem.and_then(|stem| stem.parse().ok());
    base.filter(|base| *base >= 0)
        .ok_or_else(|| BrokerError::corrupt(log, "its name is not a segment's base offset"))
}

fn with_suffix(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
