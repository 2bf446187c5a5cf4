//! Records of one partition as they came, and where they may be cut.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::compression::Compression;
pub use ottla_protocol::records::AbortedTransaction as Aborted;
use ottla_protocol::records::{self, AbortedTransactions, Entry};

use crate::error::{Damage, Error, Kind};

/// The most bytes of a transaction's marker, which is one record of a few bytes.
const MARKER: usize = 64 << 10;

/// Records of one partition as they came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset of the request; the first batch may begin below it.
    pub fetch_offset: i64,
    /// The offset after the last whole batch.
    pub next_offset: i64,
    /// The leader's epoch of the last batch; -1 if unknown.
    pub leader_epoch: i32,
    /// The end of what consumers may read.
    pub high_watermark: i64,
    /// Whole record batches, or messages of brokers before 0.11: a slice of the received frame.
    pub records: Bytes,
    /// Transactions to hide.
    pub aborted: Arc<[Aborted]>,
}

impl Fetched {
    /// An error: these records do not decode.
    pub fn corrupt(&self, cause: impl std::fmt::Display) -> Error {
        let text = format!(
            "records from offset {} on do not decode: {cause}; seek to {} to skip them",
            self.fetch_offset, self.next_offset
        );
        self.unreadable(self.next_offset, text)
    }

    /// An error: the record at [`Fetched::fetch_offset`] cannot be returned; later ones can.
    pub fn refused(&self, cause: impl std::fmt::Display) -> Error {
        let next_offset = self.fetch_offset.saturating_add(1);
        let text = format!(
            "the record at offset {} cannot be shown: {cause}; seek to {next_offset} to skip it",
            self.fetch_offset
        );
        self.unreadable(next_offset, text)
    }

    fn unreadable(&self, next_offset: i64, text: String) -> Error {
        Error::new(Kind::Corrupt, text)
            .with_partition(&self.topic, self.partition)
            .with_damage(Damage {
                offset: self.fetch_offset,
                next_offset: Some(next_offset),
                data: Bytes::new(),
            })
    }

    /// An error for records like these that do not decode: with their offset, and a copy of their
    /// bytes.
    pub fn name_in(&self, error: Error) -> Error {
        let Some(next_offset) = error.damage().map(|damage| damage.next_offset) else {
            return error;
        };
        error.with_damage(Damage {
            offset: self.fetch_offset,
            next_offset,
            data: Bytes::copy_from_slice(&self.records),
        })
    }

    /// Whether its first batch with records is compressed; a partition's batches mostly are alike.
    pub fn is_compressed(&self) -> bool {
        let codec = self
            .entries()
            .find(|entry| !matches!(entry, Entry::Batch(batch) if batch.header.is_control()))
            .map(|entry| entry.compression());
        codec.is_some_and(|codec| codec != Ok(Compression::None))
    }

    /// The same records, one batch at a time, to find the one that is broken. Only batches of an
    /// aborted transaction get it in their list of aborted transactions: a single batch does not
    /// show that an aborted transaction of its producer has ended before it.
    pub fn split(&self) -> Vec<Fetched> {
        let mut parts = Vec::new();
        let mut from = self.fetch_offset;
        let mut transactions = AbortedTransactions::new(self.aborted.iter().copied());
        let none: Arc<[Aborted]> = Arc::default();
        for entry in self.entries() {
            let hidden = match &entry {
                Entry::Batch(batch) => transactions.hide(batch, MARKER).unwrap_or(true),
                Entry::Message(_) => false,
            };
            let aborted = Arc::clone(if hidden { &self.aborted } else { &none });
            parts.push(Fetched {
                fetch_offset: from,
                next_offset: entry.next_offset(),
                leader_epoch: entry.leader_epoch(),
                records: entry.bytes().clone(),
                aborted,
                ..self.clone()
            });
            from = from.max(entry.next_offset());
        }
        parts
    }

    /// The same records in pieces that decode independently, all but the last of at least `least`
    /// bytes. Every byte is in one of them, also bytes that are not a batch. Records that must be
    /// decoded together are one piece: batches that are out of order, markers that do not decode,
    /// and messages of brokers before 0.11, whose wrappers contain their first offset only inside.
    pub fn pieces(&self, least: usize) -> Vec<Fetched> {
        let mut cuts = Vec::new();
        let (mut begin, mut end) = (0, 0);
        let mut from = self.fetch_offset;
        let mut transactions = AbortedTransactions::new(self.aborted.iter().copied());
        for entry in self.entries() {
            let Entry::Batch(batch) = entry else {
                return vec![self.clone()];
            };
            if end - begin >= least {
                if batch.header.base_offset < from {
                    return vec![self.clone()];
                }
                cuts.push((end, from, transactions.unended().collect()));
                begin = end;
            }
            if transactions.hide(&batch, MARKER).is_err() {
                return vec![self.clone()];
            }
            end += batch.bytes.len();
            from = from.max(batch.header.next_offset());
        }
        let mut pieces = Vec::with_capacity(cuts.len() + 1);
        let mut rest = self.clone();
        let mut taken = 0;
        for (cut, offset, aborted) in cuts {
            let mut piece = rest.clone();
            piece.records = rest.records.split_to(cut - taken);
            piece.next_offset = offset;
            pieces.push(piece);
            rest.fetch_offset = offset;
            rest.aborted = aborted;
            taken = cut;
        }
        pieces.push(rest);
        pieces
    }

    /// Whether its first batch begins at its offset or later, as every batch does that follows another.
    pub fn begins_in_order(&self) -> bool {
        let first = self.entries().next();
        first.is_some_and(|entry| entry.base_offset() >= self.fetch_offset)
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        records::entries(self.records.clone()).map_while(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::records::{
        BatchBuilder, BatchHeader, MessageSetBuilder, OldMagic, ProducerState, assign_offsets,
    };

    use super::*;

    fn fetched(batches: &[Vec<u8>], aborted: Arc<[Aborted]>) -> Fetched {
        Fetched {
            topic: "t".into(),
            partition: 0,
            fetch_offset: 0,
            next_offset: batches.len() as i64,
            leader_epoch: -1,
            high_watermark: batches.len() as i64,
            records: batches.concat().into(),
            aborted,
        }
    }

    /// A batch of producer 7's transaction, or a marker of its end.
    fn of_transaction(base: i64, marker: Option<&[u8]>) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None, None);
        builder.set_transactional(true);
        builder
            .append(1, marker, Some(b"value"), std::iter::empty())
            .unwrap();
        let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
        let mut header = BatchHeader::parse(&bytes).unwrap();
        (header.base_offset, header.producer_id) = (base, 7);
        header.set_control(marker.is_some());
        header.seal(&mut bytes).unwrap();
        bytes
    }

    const ABORT: Option<&[u8]> = Some(&[0, 0, 0, 0]);
    const COMMIT: Option<&[u8]> = Some(&[0, 0, 0, 1]);

    fn aborted() -> Arc<[Aborted]> {
        Arc::new([Aborted {
            producer_id: 7,
            first_offset: 0,
        }])
    }

    #[test]
    fn a_batch_split_off_is_hidden_only_if_its_own_transaction_was_aborted() {
        let batches = [
            of_transaction(0, None),
            of_transaction(1, ABORT),
            of_transaction(2, None),
            of_transaction(3, COMMIT),
        ];
        let fetched = fetched(&batches, aborted());
        let parts = fetched.split();
        assert!(
            Arc::ptr_eq(&parts[0].aborted, &fetched.aborted),
            "no copy for each batch"
        );
        assert!(parts[1..].iter().all(|part| part.aborted.is_empty()));
        assert_eq!(parts.len(), 4);
    }

    #[test]
    fn a_piece_knows_which_transactions_go_on_in_it() {
        let batches = [
            of_transaction(0, None),
            of_transaction(1, None),
            of_transaction(2, ABORT),
            of_transaction(3, None),
            of_transaction(4, COMMIT),
        ];
        let later = Aborted {
            producer_id: 8,
            first_offset: 100,
        };
        let mut fetched = fetched(&batches, aborted());
        fetched.aborted = Arc::new([fetched.aborted[0], later]);
        let told = |piece: &Fetched| {
            let producers: Vec<_> = piece.aborted.iter().map(|it| it.producer_id).collect();
            (piece.fetch_offset, piece.next_offset, producers)
        };
        let pieces = fetched.pieces(batches[2].len() + 1);
        assert_eq!(
            pieces.iter().map(told).collect::<Vec<_>>(),
            [(0, 2, vec![7, 8]), (2, 4, vec![7, 8]), (4, 5, vec![8])]
        );
    }

    fn plain(base: i64, codec: Compression) -> Vec<u8> {
        let mut builder = BatchBuilder::new(codec, None);
        builder
            .append(1, None, Some(b"value"), std::iter::empty())
            .unwrap();
        let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
        assign_offsets(&mut bytes, base, 4).unwrap();
        bytes
    }

    #[test]
    fn pieces_hold_all_bytes_and_begin_with_a_batch() {
        let mut batches: Vec<_> = (0..7).map(|base| plain(base, Compression::Lz4)).collect();
        let size = batches[0].len();
        batches.push(vec![0xff; 99]);
        let mut fetched = fetched(&batches, Arc::default());
        fetched.next_offset = 7;
        assert!(fetched.is_compressed());
        let pieces = fetched.pieces(size + 1);
        assert_eq!(
            pieces
                .iter()
                .map(|piece| &piece.records[..])
                .collect::<Vec<_>>()
                .concat(),
            batches.concat()
        );
        assert_eq!(
            pieces
                .iter()
                .map(|piece| (piece.fetch_offset, piece.next_offset, piece.records.len()))
                .collect::<Vec<_>>(),
            [
                (0, 2, 2 * size),
                (2, 4, 2 * size),
                (4, 6, 2 * size),
                (6, 7, size + 99)
            ]
        );
    }

    #[test]
    fn what_is_no_batch_or_out_of_order_is_one_piece() {
        let garbage = fetched(&[vec![0xff; 99]], Arc::default());
        assert_eq!(garbage.pieces(1).len(), 1);
        assert!(!garbage.is_compressed());
        let mut old = MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, 0).unwrap();
        old.append(1, None, Some(b"value")).unwrap();
        let old = fetched(
            &[old.finish().unwrap().to_vec(), plain(1, Compression::Lz4)],
            Arc::default(),
        );
        assert_eq!((old.pieces(1).len(), old.is_compressed()), (1, true));
        let batches = [5, 4].map(|base| plain(base, Compression::None));
        let disorder = fetched(&batches, Arc::default());
        assert_eq!(disorder.pieces(1).len(), 1);
        assert_eq!(disorder.split().len(), 2);
        assert!(!disorder.is_compressed());
    }
}
