//! A segment's bytes in a file, written at its end and read at any position.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

#[derive(Debug)]
pub(crate) struct LogFile {
    file: Arc<File>,
    size: u64,
}

impl LogFile {
    /// Opens the file at `path`, made if needed. Not to append: Windows does not cut a file that is open for that alone.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file: Arc::new(file),
            size,
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Appends `head` and `body`, both or neither: what a failed write left behind is cut off.
    pub(crate) fn append(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let written = write_all_at(&self.file, head, self.size)
            .and_then(|()| write_all_at(&self.file, body, self.size + head.len() as u64));
        match written {
            Ok(()) => {
                self.size += (head.len() + body.len()) as u64;
                Ok(())
            }
            Err(cause) => {
                self.file.set_len(self.size)?;
                Err(cause)
            }
        }
    }

    /// Cuts the file to `size` bytes.
    pub(crate) fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.size = size;
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reads bytes from `position` on into `into`; returns whether there were enough.
    pub(crate) fn peek(&self, position: u64, into: &mut [u8]) -> io::Result<bool> {
        if position.saturating_add(into.len() as u64) > self.size {
            return Ok(false);
        }
        read_exact_at(&self.file, into, position).map(|()| true)
    }

    /// The range of bytes, to be read when the log is no longer locked.
    pub(crate) fn range(&self, position: u64, length: usize) -> FileRange {
        let left = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
        FileRange {
            file: Arc::clone(&self.file),
            position,
            length: length.min(left),
        }
    }
}

/// Bytes of a file not read yet.
#[derive(Debug)]
pub(crate) struct FileRange {
    file: Arc<File>,
    position: u64,
    length: usize,
}

impl FileRange {
    /// Up to `length` bytes from `position` on.
    pub(crate) fn part(&self, position: usize, length: usize) -> Self {
        Self {
            file: Arc::clone(&self.file),
            position: self.position + position as u64,
            length: length.min(self.length.saturating_sub(position)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn load(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.length];
        read_exact_at(&self.file, &mut bytes, self.position)?;
        Ok(bytes.into())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, position)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut into: &mut [u8], mut position: u64) -> io::Result<()> {
    while !into.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, into, position)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        position += read as u64;
        into = into.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, position)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, position)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        position += written as u64;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}
