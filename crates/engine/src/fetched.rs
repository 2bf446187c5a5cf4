//! Records of one partition as they came, and where they may be cut.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::compression::Compression;
pub use ottla_protocol::records::AbortedTransaction as Aborted;
use ottla_protocol::records::{self, AbortedTransactions, Entry};

use crate::error::{Error, Kind};

/// The most bytes of a transaction's marker, which is one record of a few bytes.
const MARKER: usize = 64 << 10;

/// Records of one partition as they came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset asked for; the first batch may begin below it.
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
    /// An error that says these records do not decode.
    pub fn corrupt(&self, cause: impl std::fmt::Display) -> Error {
        let text = format!(
            "records from offset {} on do not decode: {cause}; seek to {} to go on behind them",
            self.fetch_offset, self.next_offset
        );
        Error::new(Kind::Corrupt, text).partition_is(&self.topic, self.partition)
    }

    /// Whether its first batch is compressed; a partition's batches mostly are alike.
    pub fn is_compressed(&self) -> bool {
        let codec = self.first().map(|entry| entry.compression());
        codec.is_some_and(|codec| codec != Ok(Compression::None))
    }

    /// The same records, one batch at a time, to find the one that is broken.
    pub fn split(&self) -> Vec<Fetched> {
        self.cut(0)
    }

    /// The same records in pieces that decode apart from each other, most of at least so many bytes. All bytes are in one of
    /// them, also those that are no batch.
    pub fn pieces(&self, least: usize) -> Vec<Fetched> {
        let mut pieces = self.cut(least);
        // Who decodes all of them can tell that they are out of order.
        let ordered = pieces.iter().skip(1).all(Fetched::begins_in_order);
        let Some(mut last) = pieces.pop().filter(|_| ordered) else {
            return vec![self.clone()];
        };
        let before: usize = pieces.iter().map(|piece| piece.records.len()).sum();
        last.records = self.records.slice(before..);
        last.next_offset = self.next_offset;
        last.leader_epoch = self.leader_epoch;
        pieces.push(last);
        pieces
    }

    fn begins_in_order(&self) -> bool {
        self.first()
            .is_some_and(|entry| entry.base_offset() >= self.fetch_offset)
    }

    fn first(&self) -> Option<Entry> {
        records::entries(self.records.clone()).next()?.ok()
    }

    /// Cuts behind batches, as soon as a piece has the least number of bytes. Transactions to hide are told only to
    /// pieces of batches that belong to one: by itself, a batch does not show that its producer's aborted one has ended before
    /// it.
    fn cut(&self, least: usize) -> Vec<Fetched> {
        let mut pieces: Vec<Fetched> = Vec::new();
        let (mut start, mut end) = (0, 0);
        let mut from = self.fetch_offset;
        let mut transactions = AbortedTransactions::new(self.aborted.iter().copied());
        let none: Arc<[Aborted]> = Arc::default();
        for entry in records::entries(self.records.clone()).map_while(Result::ok) {
            let hidden = match &entry {
                Entry::Batch(batch) => transactions.hide(batch, MARKER).unwrap_or(true),
                Entry::Message(_) => false,
            };
            let aborted = if hidden { &self.aborted } else { &none };
            let begin = end;
            end += entry.size();
            match pieces.last_mut() {
                Some(piece)
                    if piece.records.len() < least && Arc::ptr_eq(&piece.aborted, aborted) =>
                {
                    piece.records = self.records.slice(start..end);
                    piece.next_offset = piece.next_offset.max(entry.next_offset());
                    piece.leader_epoch = entry.leader_epoch();
                }
                _ => {
                    start = begin;
                    pieces.push(Fetched {
                        fetch_offset: from,
                        next_offset: entry.next_offset(),
                        leader_epoch: entry.leader_epoch(),
                        records: self.records.slice(start..end),
                        aborted: Arc::clone(aborted),
                        ..self.clone()
                    });
                }
            }
            from = from.max(entry.next_offset());
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::records::{BatchBuilder, BatchHeader, ProducerState, assign_offsets};

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
    fn a_piece_holds_batches_that_are_hidden_alike() {
        let batches = [
            of_transaction(0, None),
            of_transaction(1, None),
            of_transaction(2, ABORT),
            of_transaction(3, None),
            of_transaction(4, COMMIT),
        ];
        let fetched = fetched(&batches, aborted());
        let pieces = fetched.pieces(1 << 20);
        let told = |piece: &Fetched| (piece.fetch_offset, piece.next_offset, piece.aborted.len());
        assert_eq!(
            pieces.iter().map(told).collect::<Vec<_>>(),
            [(0, 2, 1), (2, 5, 0)]
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
        let batches = [5, 4].map(|base| plain(base, Compression::None));
        let disorder = fetched(&batches, Arc::default());
        assert_eq!(disorder.pieces(1).len(), 1);
        assert_eq!(disorder.split().len(), 2);
        assert!(!disorder.is_compressed());
    }
}
