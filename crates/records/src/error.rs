//! Errors of record batches and messages.

use crate::compression::{Compression, CompressionError};

/// Why a record is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends before its fields do.
    #[error("it is cut short")]
    Cut,
    /// A varint is longer than its type allows.
    #[error("a varint is too long")]
    Varint,
    /// Its fields take fewer bytes than its length.
    #[error("its length does not match its fields")]
    Size,
    /// A length below -1, or -1 where null is not allowed.
    #[error("a length is negative")]
    NegativeLength,
    /// The number of headers is negative, or more than the bytes left can hold.
    #[error("the number of headers is negative or more than its bytes can hold")]
    HeaderCount,
    /// The key of a header is not UTF-8.
    #[error("the key of a header is not valid UTF-8")]
    HeaderKey,
    /// Its offset is not above the one before, or is beyond the end of the batch.
    #[error("its offset is out of order or outside of the batch")]
    Offset,
}

/// An error of a record batch or message, or of its input. It names a batch by its first offset and a message by its own
/// offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// Fewer bytes than the batch needs.
    #[error("a record batch of {needed} bytes is cut short: {left} bytes are there")]
    Cut {
        /// Bytes the batch or its header needs.
        needed: usize,
        /// Bytes that are present.
        left: usize,
    },
    /// More bytes than one batch.
    #[error(
        "{extra} bytes follow the record batch at offset {base_offset}, where one batch was expected"
    )]
    Extra {
        /// First offset of the batch.
        base_offset: i64,
        /// Bytes after it.
        extra: usize,
    },
    /// A length that no batch can have.
    #[error("the record batch at offset {base_offset} has the impossible length {length}")]
    Length {
        /// First offset of the batch.
        base_offset: i64,
        /// The stored length.
        length: i32,
    },
    /// An unknown format, or one that is not allowed here.
    #[error("{}", magic_text(*.base_offset, *.magic))]
    Magic {
        /// First offset of the batch.
        base_offset: i64,
        /// The magic byte.
        magic: i8,
    },
    /// The checksum is wrong.
    #[error(
        "the record batch at offset {base_offset} is damaged: its CRC is {computed:#010x} and should be {expected:#010x}"
    )]
    Crc {
        /// First offset of the batch.
        base_offset: i64,
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// Attributes name a codec that does not exist.
    #[error(
        "the record batch at offset {base_offset} is compressed with the unknown codec {codec}"
    )]
    Codec {
        /// First offset of the batch.
        base_offset: i64,
        /// The id of the codec.
        codec: i16,
    },
    /// The number of records does not fit the bytes or the offsets.
    #[error(
        "the record batch at offset {base_offset} claims {count} records, but its {bytes} bytes cannot hold them"
    )]
    Count {
        /// First offset of the batch.
        base_offset: i64,
        /// The stored number.
        count: i32,
        /// Bytes of the decompressed record section.
        bytes: usize,
    },
    /// Bytes are left after the last record.
    #[error("{left} bytes are left after the last record of the batch at offset {base_offset}")]
    Left {
        /// First offset of the batch.
        base_offset: i64,
        /// Bytes left.
        left: usize,
    },
    /// The range of offsets is impossible.
    #[error(
        "the record batch at offset {base_offset} has {count} records, but its last offset is {delta} after its first"
    )]
    LastOffset {
        /// First offset of the batch.
        base_offset: i64,
        /// Last offset less first offset.
        delta: i32,
        /// The number of records.
        count: i32,
    },
    /// A message of magic 0 or 1 has a codec that only record batches have.
    #[error(
        "the message at offset {offset} is compressed with {codec}, which magic {magic} does not support; only record \
         batches (magic 2) do"
    )]
    OldCodec {
        /// Offset of the message.
        offset: i64,
        /// Its magic.
        magic: i8,
        /// The codec.
        codec: Compression,
    },
    /// A record with headers, for a message set.
    #[error(
        "record {index} of the batch has headers, which messages of magic {magic} do not have; only record batches (magic 2) \
         do"
    )]
    OldHeaders {
        /// Index of the record, from 0.
        index: i32,
        /// The magic of the message set.
        magic: i8,
    },
    /// A compressed message without a value.
    #[error(
        "the compressed message at offset {offset} has no value; the value should hold messages"
    )]
    NullWrapper {
        /// Offset of the compressed message.
        offset: i64,
    },
    /// A compressed message whose value holds no messages.
    #[error("the compressed message at offset {offset} has no messages inside")]
    EmptyWrapper {
        /// Offset of the compressed message.
        offset: i64,
    },
    /// A compressed message whose offset is below that of its last one, where offsets count from 0.
    #[error(
        "the compressed message at offset {offset} ends with a message of the relative offset {last}, which is before the \
         beginning of the log"
    )]
    WrapperOffset {
        /// Offset of the compressed message.
        offset: i64,
        /// Stored offset of the last message inside.
        last: i64,
    },
    /// A message in a compressed message is compressed itself.
    #[error(
        "message {index} in the compressed message at offset {offset} is compressed itself; one level is allowed"
    )]
    Nested {
        /// Offset of the compressed message.
        offset: i64,
        /// Index of the message inside, from 0.
        index: i32,
    },
    /// A message in a compressed message has another format.
    #[error(
        "message {index} in the compressed message at offset {offset} has magic {inner}, but its wrapper has magic {magic}"
    )]
    InnerMagic {
        /// Offset of the compressed message.
        offset: i64,
        /// Index of the message inside, from 0.
        index: i32,
        /// Its wrapper's magic.
        magic: i8,
        /// Its own magic.
        inner: i8,
    },
    /// A message in a compressed message has a length that no message can have.
    #[error(
        "message {index} in the compressed message at offset {offset} has the impossible length {length}"
    )]
    InnerLength {
        /// Offset of the compressed message.
        offset: i64,
        /// Index of the message inside, from 0.
        index: i32,
        /// The stored length.
        length: i32,
    },
    /// The checksum of a message in a compressed message is wrong.
    #[error(
        "message {index} in the compressed message at offset {offset} is damaged: its CRC is {computed:#010x} and should be \
         {expected:#010x}"
    )]
    InnerCrc {
        /// Offset of the compressed message.
        offset: i64,
        /// Index of the message inside, from 0.
        index: i32,
        /// The checksum in the message.
        expected: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A record is malformed.
    #[error("record {index} of the batch at offset {base_offset}: {what}")]
    Record {
        /// First offset of the batch.
        base_offset: i64,
        /// Index of the record, from 0.
        index: i32,
        /// What is wrong with it.
        what: Malformed,
    },
    /// The key of a record's header is not text. The records after it can be read.
    #[error("the record at offset {offset}: {}", Malformed::HeaderKey)]
    HeaderKey {
        /// Offset of the record.
        offset: i64,
    },
    /// The record section does not decompress.
    #[error("the record batch at offset {base_offset}: {source}")]
    Compression {
        /// First offset of the batch.
        base_offset: i64,
        /// The codec's error.
        source: CompressionError,
    },
    /// More than a batch can hold.
    #[error(
        "a record of {size} bytes does not fit into a batch of {batch} bytes; at most {most} are allowed"
    )]
    TooLarge {
        /// Bytes of the record.
        size: usize,
        /// Bytes of the batch before it.
        batch: usize,
        /// Maximum bytes of a batch.
        most: usize,
    },
    /// A record was added at an offset that is not above the last one's.
    #[error("offset {delta} of a batch follows offset {last}; offsets must ascend")]
    Order {
        /// The offset in the batch.
        delta: i32,
        /// The previous offset.
        last: i32,
    },
    /// A record was added to a message set at an offset that is not above the last one's.
    #[error("offset {offset} of a message set follows offset {after}; offsets must ascend")]
    SetOrder {
        /// The offset.
        offset: i64,
        /// The offset of the previous record, or the first offset of the set.
        after: i64,
    },
}

fn magic_text(base_offset: i64, magic: i8) -> String {
    match magic {
        0 | 1 => format!(
            "the message set at offset {base_offset} has the format of brokers before 0.11 (magic {magic}); only record batches \
             (magic 2) are allowed here"
        ),
        _ => format!("the record batch at offset {base_offset} has an unknown magic, {magic}"),
    }
}
