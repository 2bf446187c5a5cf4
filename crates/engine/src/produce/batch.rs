//! One batch of records, from its first record to its delivery result, with the bytes that still
//! have to be made of it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use ottla_protocol::Uuid;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{self, BatchBuilder, BatchHeader, OldMagic, ProducerState};

use crate::config::Config;
use crate::error::{Error, Kind, Written};
use crate::metrics::BatchSize;
use crate::produce::denial::Denial;
use crate::produce::stamp::Stamp;

/// Orders the batches of a partition: the pieces of a split batch share its number and differ in their first record.
pub(super) type BatchId = (u64, u32);

/// The delivery result of records of one batch.
#[derive(Debug)]
pub struct Done<T> {
    /// The value that the batch was opened with.
    pub batch: T,
    /// The first record's index in the batch.
    pub first: u32,
    /// How many records share this result.
    pub count: u32,
    /// Where they are, or why not.
    pub result: Result<Stored, Error>,
}

/// Where a run of records was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The first record's offset; -1 if the broker did not return it.
    pub base_offset: i64,
    /// The broker's time if the topic stamps records on append; -1 if the broker keeps no times, as those before 0.10.
    pub log_append_time_ms: Option<i64>,
}

/// A batch that still takes records.
#[derive(Debug)]
pub(super) struct Open<T> {
    number: u64,
    pub(super) builder: BatchBuilder,
    pub(super) user: T,
    pub(super) created: Instant,
    /// Counted against `buffer.memory`.
    pub(super) bytes: usize,
    pub(super) count: u32,
    /// The bytes of the largest record.
    pub(super) largest: usize,
}

impl<T> Open<T> {
    pub(super) fn new(now: Instant, number: u64, config: &Config, user: T) -> Open<T> {
        Open {
            number,
            builder: new_builder(config),
            user,
            created: now,
            bytes: BatchHeader::SIZE,
            count: 0,
            largest: 0,
        }
    }

    pub(super) fn close(self) -> Batch<T> {
        Batch {
            id: (self.number, 0),
            plain: self.builder.size(),
            largest: self.largest,
            user: self.user,
            count: self.count,
            created: self.created,
            bytes: self.bytes,
            attempts: 0,
            topic_id: Uuid::ZERO,
            leader: -1,
            stamp: None,
            has_headers: self.builder.has_headers(),
            holders: Vec::new(),
            cut_off: false,
            denial: None,
            decided: false,
            data: Data::Building(self.builder),
        }
    }
}

/// A closed batch.
#[derive(Debug)]
pub(super) struct Batch<T> {
    pub(super) id: BatchId,
    data: Data,
    user: T,
    pub(super) count: u32,
    pub(super) created: Instant,
    /// Counted against `buffer.memory` until no request holds the batch.
    pub(super) bytes: usize,
    /// Before compression.
    plain: usize,
    /// The bytes of the largest record.
    largest: usize,
    pub(super) attempts: u32,
    /// The topic that the last attempt was sent to; zero if the broker does not return topic ids.
    pub(super) topic_id: Uuid,
    /// The broker that the last attempt was sent to.
    pub(super) leader: i32,
    pub(super) stamp: Option<Stamp>,
    /// Any of its records has headers.
    pub(super) has_headers: bool,
    /// The brokers that may have written it: those of attempts whose outcome is not known.
    holders: Vec<i32>,
    /// The connection of an attempt ended before its response: the broker may still have the
    /// request before it.
    pub(super) cut_off: bool,
    /// A leader reported that it is missing.
    pub(super) denial: Option<Denial>,
    /// The delivery result was reported already; only the request that owns the bytes is left.
    pub(super) decided: bool,
}

#[derive(Debug)]
enum Data {
    Building(BatchBuilder),
    /// Bytes with the stamp they were made with.
    Built(Arc<Encoded>, Option<Stamp>),
}

/// The result of encoding a batch.
#[derive(Debug, Default)]
struct Encoded {
    bytes: OnceLock<Bytes>,
    /// Why the request went out without the batch.
    failure: OnceLock<Error>,
}

impl<T: Clone> Batch<T> {
    pub(super) fn fate(&self, result: Result<Stored, Error>) -> Done<T> {
        Done {
            batch: self.user.clone(),
            first: self.id.1,
            count: self.count,
            result,
        }
    }

    /// How large it was on the wire; `None` before its bytes were made.
    pub(super) fn size(&self) -> Option<BatchSize> {
        let Data::Built(encoded, _) = &self.data else {
            return None;
        };
        Some(BatchSize {
            wire: encoded.bytes.get()?.len(),
            plain: self.plain,
            largest_record: self.largest,
        })
    }

    /// Why the last request went out without the batch, if it did: no broker has seen this attempt.
    pub(super) fn unencoded(&self) -> Option<&Error> {
        match &self.data {
            Data::Building(_) => None,
            Data::Built(encoded, _) => encoded.failure.get(),
        }
    }

    /// The delivery result of a batch that failed with `error`.
    pub(super) fn failure(&self, error: Error) -> Error {
        let written = if self.may_be_written() {
            Written::Unknown
        } else {
            Written::No
        };
        error.after(self.attempts).with_written(written)
    }

    /// The outcome of the last attempt is not known.
    pub(super) fn set_may_be_written(&mut self) {
        if !self.holders.contains(&self.leader) {
            self.holders.push(self.leader);
        }
    }

    /// Whether an attempt may have written it.
    pub(super) fn may_be_written(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether another broker than that of the last attempt may have written it.
    pub(super) fn may_be_elsewhere(&self) -> bool {
        self.holders.iter().any(|holder| *holder != self.leader)
    }

    /// No attempt has written it.
    pub(super) fn set_unwritten(&mut self) {
        self.holders.clear();
    }

    /// No attempt has written it, and it gets other numbers.
    pub(super) fn begin_again(&mut self) {
        self.set_unwritten();
        self.stamp = None;
        self.cut_off = false;
        self.denial = None;
    }

    /// The bytes to send, or how to make them; from now on they are kept for a repeat.
    pub(super) fn load(&mut self) -> Load {
        let encoded = Arc::new(Encoded::default());
        let built = Data::Built(Arc::clone(&encoded), self.stamp);
        let contents = match std::mem::replace(&mut self.data, built) {
            Data::Building(builder) => Contents::New(builder),
            Data::Built(before, stamp) if stamp == self.stamp => {
                self.data = Data::Built(Arc::clone(&before), stamp);
                return Load {
                    contents: Contents::Same(before.bytes.get().cloned()),
                    encoded: before,
                    stamp: self.stamp,
                };
            }
            Data::Built(before, _) => Contents::Restamped(before.bytes.get().cloned()),
        };
        Load {
            contents,
            encoded,
            stamp: self.stamp,
        }
    }

    /// Two batches with half of the records each.
    pub(super) fn halves(&self, config: &Config) -> Result<[Batch<T>; 2], String> {
        let half = self.count / 2;
        let [first, second] = self.rebuilt(config, half)?;
        let piece = |builder: BatchBuilder, skip: u32, count: u32| Batch {
            id: (self.id.0, self.id.1 + skip),
            bytes: builder.size(),
            plain: builder.size(),
            largest: self.largest,
            has_headers: builder.has_headers(),
            data: Data::Building(builder),
            user: self.user.clone(),
            count,
            created: self.created,
            attempts: self.attempts,
            topic_id: self.topic_id,
            leader: self.leader,
            // The records keep their numbers.
            stamp: self.stamp.map(|stamp| stamp.after(skip)),
            holders: self.holders.clone(),
            cut_off: self.cut_off,
            denial: self.denial,
            decided: false,
        };
        Ok([
            piece(first, 0, half),
            piece(second, half, self.count - half),
        ])
    }

    /// Two builders: the first with the first `half` records, the second with all others.
    fn rebuilt(&self, config: &Config, half: u32) -> Result<[BatchBuilder; 2], String> {
        let Data::Built(encoded, _) = &self.data else {
            return Err("the batch was never sent".to_owned());
        };
        let say = |cause: records::RecordsError| cause.to_string();
        let bytes = encoded.bytes.get().cloned();
        let bytes = bytes.ok_or("the batch was never sent")?;
        let batch = records::batches(bytes)
            .next()
            .ok_or("the batch is empty")?
            .map_err(say)?;
        let mut builders = [new_builder(config), new_builder(config)];
        let payload = batch.payload(usize::MAX).map_err(say)?;
        for (record, index) in batch.records(&payload).map_err(say)?.zip(0..) {
            let record = record.map_err(say)?;
            let [first, second] = &mut builders;
            let builder = if index < half { first } else { second };
            builder
                .append(record.timestamp, record.key, record.value, record.headers())
                .map_err(say)?;
        }
        Ok(builders)
    }
}

fn new_builder(config: &Config) -> BatchBuilder {
    let mut builder = BatchBuilder::new(config.compression, config.compression_level);
    builder.set_transactional(config.transactional_id.is_some());
    builder
}

/// The format that a broker takes records in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Record batches, since 0.11.
    Batch,
    /// Message sets. Their compression, and its level, is that of the settings.
    MessageSet(OldMagic, Compression, Option<i32>),
}

impl Format {
    /// The format of a Produce request of this version.
    pub(super) fn of(version: i16, config: &Config) -> Format {
        let magic = match version {
            ..=1 => OldMagic::Zero,
            2 => OldMagic::One,
            _ => return Format::Batch,
        };
        Format::MessageSet(magic, config.compression, config.compression_level)
    }

    /// Whether the broker keeps the records' timestamps.
    pub(super) fn has_timestamps(self) -> bool {
        !matches!(self, Format::MessageSet(OldMagic::Zero, ..))
    }
}

/// The bytes of a batch, as far as they are made: the rest takes time and needs no lock.
#[derive(Debug)]
pub(super) struct Load {
    contents: Contents,
    encoded: Arc<Encoded>,
    stamp: Option<Stamp>,
}

#[derive(Debug)]
enum Contents {
    /// Records that were never sent.
    New(BatchBuilder),
    /// The bytes of an earlier attempt.
    Same(Option<Bytes>),
    /// The bytes of an earlier attempt, whose numbers have to be replaced.
    Restamped(Option<Bytes>),
}

impl Load {
    /// The bytes to send to a broker that takes `format`. The bytes kept for a retry are always a
    /// batch: the next attempt may go to a newer broker.
    ///
    /// # Errors
    /// The batch does not encode, which it knows then: see [`Batch::unencoded`].
    pub(super) fn finish(self, format: Format) -> Result<Bytes, Error> {
        let encoded = Arc::clone(&self.encoded);
        self.bytes(format)
            .map_err(|error| encoded.failure.get_or_init(|| error).clone())
    }

    fn bytes(self, format: Format) -> Result<Bytes, Error> {
        let batch = self.finish_batch(format)?;
        let Format::MessageSet(magic, codec, level) = format else {
            return Ok(batch);
        };
        records::to_message_set(batch, magic, codec, level, usize::MAX).map_err(refused)
    }

    fn finish_batch(self, format: Format) -> Result<Bytes, Error> {
        let state = self.stamp.map_or(ProducerState::NONE, Stamp::state);
        let lost = || {
            let text = "an earlier attempt to encode the batch failed";
            Error::new(Kind::Argument, text)
        };
        let bytes = match self.contents {
            Contents::New(mut builder) => {
                if format != Format::Batch {
                    // It is compressed as a message set.
                    builder.set_compression(Compression::None);
                }
                builder.finish(state).map_err(refused)?
            }
            Contents::Same(bytes) => return bytes.ok_or_else(lost),
            Contents::Restamped(bytes) => {
                let mut bytes = BytesMut::from(&bytes.ok_or_else(lost)?[..]);
                records::set_producer_state(&mut bytes, state).map_err(refused)?;
                bytes.freeze()
            }
        };
        // No other thread has set them.
        Ok(self.encoded.bytes.get_or_init(|| bytes).clone())
    }
}

fn refused(cause: records::RecordsError) -> Error {
    let text = format!("the batch does not encode: {cause}");
    Error::new(Kind::Argument, text)
}

#[cfg(test)]
use crate::produce::stamp::Identity;

#[cfg(test)]
impl<T> Batch<T> {
    /// Replaces the records by bytes that no request can be made of.
    pub(super) fn spoil(&mut self) {
        let encoded = Encoded::default();
        encoded
            .bytes
            .get_or_init(|| Bytes::from_static(b"no batch"));
        let identity = Identity { id: 1, epoch: -1 };
        let stamp = Stamp {
            identity,
            sequence: 0,
        };
        self.data = Data::Built(Arc::new(encoded), Some(stamp));
    }
}
