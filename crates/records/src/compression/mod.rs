//! The codecs of record batches, in the framings that Kafka's own client writes.
//!
//! Every decompressor checks a limit in bytes while it writes, so that no peer can exhaust the memory.

mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

use std::fmt;
use std::str::FromStr;

use lz4::HeaderChecksum;
use output::Failure;

/// How the record section of a batch is compressed (bits 0 to 2 of a batch's attributes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Raw snappy blocks in the framing of the Java library snappy-java ("xerial").
    Snappy,
    /// The standard LZ4 frame format.
    Lz4,
    /// RFC 8878; brokers since 2.1 (KIP-110).
    Zstd,
}

impl Compression {
    /// All codecs, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this id in a batch's attributes.
    #[must_use]
    pub const fn from_id(id: i16) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The id in a batch's attributes.
    #[must_use]
    pub const fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The name in `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Checks a level before it is used.
    ///
    /// # Errors
    /// [`CompressionError::Level`], which lists the valid levels.
    pub fn check_level(self, level: Option<i32>) -> Result<(), CompressionError> {
        let Some(level) = level else { return Ok(()) };
        let (honoured, allowed) = match self {
            Self::None | Self::Snappy => (false, "this codec has no levels"),
            Self::Gzip => (
                gzip::level(level).is_some(),
                "from 1 to 9, or -1 for the default",
            ),
            Self::Lz4 => (
                lz4::LEVELS.contains(&level),
                "from 1 to 17; 9, Kafka's default, is the fast compressor",
            ),
            Self::Zstd => (zstd::LEVELS.contains(&level), "from -131072 to 22"),
        };
        if honoured {
            Ok(())
        } else {
            Err(CompressionError::Level {
                codec: self,
                level,
                allowed,
            })
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(name: &str) -> Result<Self, CompressionError> {
        let known = Self::ALL.into_iter().find(|codec| codec.name() == name);
        known.ok_or_else(|| CompressionError::UnknownName(name.to_owned()))
    }
}

/// Errors of a codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// The data would decompress to more than the limit.
    #[error(
        "{codec} data decompresses to more than {limit} bytes; raise the decompression limit or skip the batch"
    )]
    TooLarge {
        /// The codec.
        codec: Compression,
        /// The limit, in bytes.
        limit: usize,
    },
    /// There is not the memory that the data needs, or it needs more than the codec takes. The data may be sound.
    #[error("{codec} data cannot be decompressed here: {reason}")]
    NoRoom {
        /// The codec.
        codec: Compression,
        /// The codec's own text.
        reason: String,
    },
    /// The data is not in the codec's format.
    #[error("damaged {codec} data: {reason}")]
    Corrupt {
        /// The codec.
        codec: Compression,
        /// What is wrong.
        reason: String,
    },
    /// The codec could not compress.
    #[error("{codec} cannot compress: {reason}")]
    Failed {
        /// The codec.
        codec: Compression,
        /// What is wrong.
        reason: String,
    },
    /// A level that the codec does not have.
    #[error("compression level {level} of {codec}: {allowed}")]
    Level {
        /// The codec.
        codec: Compression,
        /// The requested level.
        level: i32,
        /// The valid levels.
        allowed: &'static str,
    },
    /// An unknown codec name.
    #[error("unknown compression {0:?}; known: none, gzip, snappy, lz4, zstd")]
    UnknownName(String),
}

/// Compresses `input` and appends it to `out`; the level `None` is Kafka's default for the codec.
///
/// # Errors
/// A level that the codec does not have, or the codec's own error. `out` is unchanged then.
pub fn compress(
    codec: Compression,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    compress_as(HeaderChecksum::Standard, codec, level, input, out)
}

/// As [`compress`], for a message set of magic 0: the header of an LZ4 frame there has a checksum of its own.
///
/// # Errors
/// As [`compress`].
pub fn compress_magic_0(
    codec: Compression,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    compress_as(HeaderChecksum::WithMagic, codec, level, input, out)
}

fn compress_as(
    checksum: HeaderChecksum,
    codec: Compression,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    codec.check_level(level)?;
    let start = out.len();
    let done = match codec {
        Compression::None => {
            out.extend_from_slice(input);
            Ok(())
        }
        Compression::Gzip => gzip::compress(level, input, out),
        Compression::Snappy => snappy::compress(input, out),
        Compression::Lz4 => lz4::compress(level, checksum, input, out),
        Compression::Zstd => zstd::compress(level, input, out),
    };
    done.map_err(|reason| {
        out.truncate(start);
        CompressionError::Failed { codec, reason }
    })
}

/// Decompresses `input` to at most `limit` bytes.
///
/// # Errors
/// [`CompressionError::TooLarge`] past the limit, [`CompressionError::Corrupt`] if it is not in the codec's format.
pub fn decompress(
    codec: Compression,
    input: &[u8],
    limit: usize,
) -> Result<Vec<u8>, CompressionError> {
    let mut out = Vec::new();
    decompress_into(codec, input, limit, &mut out)?;
    Ok(out)
}

/// As [`decompress`], into a reusable buffer; it replaces the previous contents.
///
/// # Errors
/// As [`decompress`]; the contents of the buffer are unspecified then.
pub fn decompress_into(
    codec: Compression,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    decompress_as(HeaderChecksum::Standard, codec, input, limit, out)
}

/// As [`decompress_into`], for a message set of magic 0, where the header of an LZ4 frame may have the checksum that
/// [`compress_magic_0`] writes.
///
/// # Errors
/// As [`decompress_into`].
pub fn decompress_magic_0_into(
    codec: Compression,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    decompress_as(HeaderChecksum::WithMagic, codec, input, limit, out)
}

fn decompress_as(
    checksum: HeaderChecksum,
    codec: Compression,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    let done = match codec {
        Compression::None if input.len() > limit => Err(Failure::TooLarge),
        Compression::None => {
            out.clear();
            out.extend_from_slice(input);
            Ok(())
        }
        Compression::Gzip => gzip::decompress(input, limit, out),
        Compression::Snappy => snappy::decompress(input, limit, out),
        Compression::Lz4 => lz4::decompress(checksum, input, limit, out),
        Compression::Zstd => zstd::decompress(input, limit, out),
    };
    done.map_err(|failure| match failure {
        Failure::TooLarge => CompressionError::TooLarge { codec, limit },
        Failure::NoRoom(reason) => CompressionError::NoRoom { codec, reason },
        Failure::Corrupt(reason) => CompressionError::Corrupt { codec, reason },
    })
}

#[cfg(test)]
mod tests;
