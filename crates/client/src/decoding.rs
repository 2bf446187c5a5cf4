//! Decoding: in order, and where records are compressed with the help of other threads, which run ahead of the polls.
//!
//! ```text
//!   taken ──▶ pieces ──▶ waiting ── a poll, or a helper ──▶ running ──▶ done ──▶ the next poll
//! ```
//!
//! Records that are not compressed stay with the thread that polls: they take no longer to decode than to move to another core.

use std::collections::VecDeque;
use std::sync::Arc;

use ottla_engine::Error;
use ottla_engine::consumer::{Generation, Taken};
use ottla_engine::fetched::Fetched;
use parking_lot::{Condvar, Mutex};

use crate::consumer::{Chunk, Decode};

/// Compressed bytes of a piece: enough that handing it over costs nothing, few enough that its records stay in the cache.
const PIECE: usize = 256 << 10;
/// Bytes that are decoded ahead of the polls: two polls' worth, by the default of what a poll returns. What is being decoded at
/// the time comes on top, for each thread at most `decompress.max.bytes`.
const AHEAD: usize = 8 << 20;
/// What a record takes beside its key and value, about.
const ROW: usize = 32;
/// Threads that decode for one consumer, that of the poll included. More decompress faster than one process receives.
const MOST_THREADS: usize = 4;

/// What became of some records.
pub(crate) enum Outcome<C> {
    /// They were decoded.
    Chunk(C),
    /// Records from this offset on do not decode.
    Broken(i64, Error),
}

/// A piece that is done.
pub(crate) struct Done<C> {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) generation: Generation,
    pub(crate) outcomes: Vec<Outcome<C>>,
}

/// Pieces on their way through the decoder. One thread at a time asks for the next.
pub(crate) struct Decoding<D: Decode> {
    decoder: D,
    line: Mutex<Line<D::Chunk>>,
    /// A piece is done, or waits again.
    changed: Condvar,
    most_helpers: usize,
}

struct Line<C> {
    pieces: VecDeque<Piece<C>>,
    /// The number of the first piece; the others count on.
    first: u64,
    /// The number before which no piece waits.
    waiting: u64,
    /// Bytes of all pieces that are done.
    ahead: usize,
    helpers: usize,
}

struct Piece<C> {
    generation: Generation,
    fetched: Fetched,
    compressed: bool,
    stage: Stage<C>,
}

enum Stage<C> {
    Waiting,
    Running,
    /// With the bytes that it holds.
    Done(Vec<Outcome<C>>, usize),
}

impl<C> Line<C> {
    /// The place of the first piece that waits.
    fn waiting(&mut self) -> Option<usize> {
        loop {
            let index = self.index(self.waiting);
            match self.pieces.get(index)?.stage {
                Stage::Waiting => return Some(index),
                Stage::Running | Stage::Done(..) => self.waiting += 1,
            }
        }
    }

    /// How many pieces wait, or a few more: those that were put back are not alone.
    fn number_waiting(&mut self) -> usize {
        self.waiting().map_or(0, |index| self.pieces.len() - index)
    }

    /// Takes the first piece that waits.
    fn claim(&mut self) -> Option<(u64, Fetched)> {
        let index = self.waiting()?;
        let piece = self.pieces.get_mut(index)?;
        piece.stage = Stage::Running;
        Some((self.first + index as u64, piece.fetched.clone()))
    }

    /// Takes the first piece that waits if it is worth a helper, unless enough is done.
    fn claim_ahead(&mut self) -> Option<(u64, Fetched)> {
        self.wants_help().then(|| self.claim())?
    }

    fn wants_help(&mut self) -> bool {
        let waiting = self.waiting();
        let next = waiting.and_then(|index| self.pieces.get(index));
        next.is_some_and(|piece| piece.compressed) && self.ahead < AHEAD
    }

    fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }

    fn piece(&mut self, number: u64) -> Option<&mut Piece<C>> {
        let index = self.index(number);
        self.pieces.get_mut(index)
    }
}

impl<D: Decode> Decoding<D> {
    pub(crate) fn new(decoder: D) -> Arc<Decoding<D>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_helpers(cores.min(MOST_THREADS) - 1, decoder)
    }

    fn with_helpers(most_helpers: usize, decoder: D) -> Arc<Decoding<D>> {
        Arc::new(Decoding {
            decoder,
            line: Mutex::new(Line {
                pieces: VecDeque::new(),
                first: 0,
                waiting: 0,
                ahead: 0,
                helpers: 0,
            }),
            changed: Condvar::new(),
            most_helpers,
        })
    }

    /// Puts records at the end of the line.
    pub(crate) fn push(&self, taken: Taken) {
        let Taken {
            generation,
            fetched,
        } = taken;
        let compressed = fetched.is_compressed();
        let pieces = match compressed {
            true => fetched.pieces(PIECE),
            false => vec![fetched],
        };
        let pieces = pieces.into_iter().map(|fetched| Piece {
            generation,
            fetched,
            compressed,
            stage: Stage::Waiting,
        });
        self.line.lock().pieces.extend(pieces);
    }

    /// Nothing comes for a while.
    pub(crate) fn rest(&self) {
        self.decoder.rest();
    }

    /// Whether there should be more records in line: nobody waits for a thread, or fewer than there could be helpers.
    pub(crate) fn wants_more(&self) -> bool {
        let mut line = self.line.lock();
        match line.number_waiting() {
            0 => true,
            some => some <= self.most_helpers && line.wants_help(),
        }
    }

    /// Passes over what nobody will ask for, because of a seek or another assignment.
    pub(crate) fn drop_stale(&self, mut is_current: impl FnMut(&Fetched, Generation) -> bool) {
        let mut line = self.line.lock();
        let Some(waiting) = line.waiting() else {
            return;
        };
        for piece in line.pieces.iter_mut().skip(waiting) {
            let waits = matches!(piece.stage, Stage::Waiting);
            if waits && !is_current(&piece.fetched, piece.generation) {
                piece.stage = Stage::Done(Vec::new(), 0);
            }
        }
    }

    /// Helpers that are worth a thread now, each to be run on one.
    pub(crate) fn helpers(self: &Arc<Self>) -> Vec<Helper<D>> {
        let mut line = self.line.lock();
        if !line.wants_help() {
            return Vec::new();
        }
        // The first piece is for who asks.
        let useful = line.number_waiting() - 1;
        let more = useful.min(self.most_helpers.saturating_sub(line.helpers));
        line.helpers += more;
        (0..more).map(|_| Helper(Arc::clone(self))).collect()
    }

    /// The next piece in order, decoded here if nobody has. While another thread is at it, further ones are, unless enough is
    /// done; then this waits, for no longer than one piece takes. `None` if the line is empty.
    pub(crate) fn next(&self) -> Option<Done<D::Chunk>> {
        let mut line = self.line.lock();
        loop {
            let claimed = match line.pieces.front()?.stage {
                Stage::Done(..) => break,
                Stage::Waiting => line.claim(),
                Stage::Running => line.claim_ahead(),
            };
            match claimed {
                Some((number, fetched)) => {
                    drop(line);
                    self.run(number, fetched);
                    line = self.line.lock();
                }
                None => self.changed.wait(&mut line),
            }
        }
        let piece = line.pieces.pop_front()?;
        line.first += 1;
        let (outcomes, bytes) = match piece.stage {
            Stage::Done(outcomes, bytes) => (outcomes, bytes),
            Stage::Waiting | Stage::Running => unreachable!("the piece was done under this lock"),
        };
        line.ahead -= bytes;
        drop(line);
        Some(Done {
            topic: piece.fetched.topic,
            partition: piece.fetched.partition,
            generation: piece.generation,
            outcomes,
        })
    }

    fn run(&self, number: u64, fetched: Fetched) {
        let running = Running {
            decoding: self,
            number,
        };
        let outcomes = outcomes(&self.decoder, &fetched);
        drop(fetched);
        running.done(outcomes);
    }
}

/// A thread's turn to decode ahead of the polls. It is counted until it is dropped.
pub(crate) struct Helper<D: Decode>(Arc<Decoding<D>>);

impl<D: Decode> Helper<D> {
    /// Decodes until there is nothing more to help with.
    pub(crate) fn run(self) {
        loop {
            let claimed = self.0.line.lock().claim_ahead();
            match claimed {
                Some((number, fetched)) => self.0.run(number, fetched),
                None => return,
            }
        }
    }
}

impl<D: Decode> Drop for Helper<D> {
    fn drop(&mut self) {
        self.0.line.lock().helpers -= 1;
    }
}

/// A piece that a thread decodes. Should it panic, the piece waits again, so that nobody waits for it in vain.
struct Running<'a, D: Decode> {
    decoding: &'a Decoding<D>,
    number: u64,
}

impl<D: Decode> Running<'_, D> {
    fn done(self, outcomes: Vec<Outcome<D::Chunk>>) {
        let bytes = outcomes.iter().map(Outcome::bytes).sum();
        let mut line = self.decoding.line.lock();
        line.ahead += bytes;
        // The received bytes go home as soon as nobody needs them, and not with the line locked.
        let received = line.piece(self.number).map(|piece| {
            piece.stage = Stage::Done(outcomes, bytes);
            std::mem::take(&mut piece.fetched.records)
        });
        drop(line);
        drop(received);
        self.decoding.changed.notify_all();
        std::mem::forget(self);
    }
}

impl<D: Decode> Drop for Running<'_, D> {
    fn drop(&mut self) {
        let mut line = self.decoding.line.lock();
        line.waiting = line.waiting.min(self.number);
        if let Some(piece) = line.piece(self.number) {
            piece.stage = Stage::Waiting;
        }
        drop(line);
        self.decoding.changed.notify_all();
    }
}

impl<C: Chunk> Outcome<C> {
    fn bytes(&self) -> usize {
        match self {
            Outcome::Chunk(chunk) => chunk.bytes() + chunk.len() * ROW,
            Outcome::Broken(..) => 0,
        }
    }
}

/// Decodes records; of those that do not decode, what stands before the broken batch.
fn outcomes<D: Decode>(decoder: &D, fetched: &Fetched) -> Vec<Outcome<D::Chunk>> {
    let whole = match decoder.decode(fetched) {
        Ok(chunk) => return vec![Outcome::Chunk(chunk)],
        Err(error) => error,
    };
    let mut outcomes = Vec::new();
    let (mut end, mut left) = (fetched.fetch_offset, fetched.records.len());
    for part in fetched.split() {
        if !outcomes.is_empty() && !part.begins_in_order() {
            break;
        }
        match decoder.decode(&part) {
            Ok(chunk) => outcomes.push(Outcome::Chunk(chunk)),
            Err(error) => {
                outcomes.push(Outcome::Broken(part.fetch_offset, error));
                return outcomes;
            }
        }
        end = end.max(part.next_offset);
        left -= part.records.len();
    }
    // All may be well with each, where it is too much for one decode.
    if left > 0 {
        outcomes.push(Outcome::Broken(end, whole));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use ottla_engine::Kind;
    use ottla_protocol::compression::Compression;
    use ottla_protocol::records::{BatchBuilder, ProducerState, assign_offsets};

    use super::*;

    /// Bytes of a batch that nothing makes smaller: four are a piece.
    const BATCH: usize = PIECE / 4 + 1;

    /// Notes who decodes, and how far.
    struct Notes {
        /// What each chunk says that it holds.
        bytes: usize,
        /// More are refused.
        most_bytes: usize,
        threads: Mutex<Vec<thread::ThreadId>>,
        /// The first piece is done when all others were begun.
        first_is_last: bool,
        helpers_panic: bool,
        /// The thread of the test.
        owner: Option<thread::ThreadId>,
    }

    impl Default for Notes {
        fn default() -> Self {
            Notes {
                bytes: 0,
                most_bytes: usize::MAX,
                threads: Mutex::default(),
                first_is_last: false,
                helpers_panic: false,
                owner: None,
            }
        }
    }

    impl Decode for Notes {
        type Chunk = Offsets;

        fn decode(&self, fetched: &Fetched) -> Result<Offsets, Error> {
            self.threads.lock().push(thread::current().id());
            assert!(
                !self.helpers_panic || self.owner == Some(thread::current().id()),
                "a helper that fails, as the test wants"
            );
            let begin = Instant::now();
            while self.first_is_last && fetched.fetch_offset == 0 && begin.elapsed() < LONG {
                if self.threads.lock().len() == PIECES.len() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            let broken = fetched.records.windows(6).any(|bytes| bytes == b"broken");
            if broken || fetched.records.len() > self.most_bytes {
                return Err(Error::new(Kind::Corrupt, "broken, or too large"));
            }
            Ok(Offsets(
                fetched.fetch_offset,
                fetched.next_offset,
                self.bytes,
            ))
        }
    }

    #[derive(Debug, PartialEq)]
    struct Offsets(i64, i64, usize);

    impl Chunk for Offsets {
        fn len(&self) -> usize {
            (self.1 - self.0) as usize
        }
        fn split_to(&mut self, _: usize) -> Offsets {
            unreachable!("only whole chunks are asked for")
        }
        fn next_offset(&self) -> i64 {
            self.1
        }
        fn bytes(&self) -> usize {
            self.2
        }
    }

    fn batch(base: i64, codec: Compression, begin: &[u8]) -> Vec<u8> {
        let mut state = base as u64 + 1;
        let mut value = begin.to_vec();
        value.resize_with(BATCH, || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        let mut builder = BatchBuilder::new(codec, None);
        let headers = std::iter::empty();
        builder.append(1, None, Some(&value), headers).unwrap();
        let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
        assign_offsets(&mut bytes, base, 4).unwrap();
        bytes
    }

    fn taken(codec: Compression, batches: i64, broken: Option<i64>) -> Taken {
        let begin = |base| {
            if Some(base) == broken {
                &b"broken"[..]
            } else {
                b""
            }
        };
        let batches = (0..batches).map(|base| batch(base, codec, begin(base)));
        let records = batches.collect::<Vec<_>>();
        Taken {
            generation: Generation::default(),
            fetched: Fetched {
                topic: "t".into(),
                partition: 0,
                fetch_offset: 0,
                next_offset: records.len() as i64,
                leader_epoch: 4,
                high_watermark: records.len() as i64,
                records: records.concat().into(),
                aborted: Arc::default(),
            },
        }
    }

    fn ranges(decoding: &Decoding<Notes>) -> Vec<(i64, i64)> {
        std::iter::from_fn(|| decoding.next())
            .flat_map(|done| done.outcomes)
            .map(|outcome| match outcome {
                Outcome::Chunk(chunk) => (chunk.0, chunk.1),
                Outcome::Broken(offset, _) => (offset, -1),
            })
            .collect()
    }

    fn with_helpers<R>(decoding: &Arc<Decoding<Notes>>, work: impl FnOnce() -> R) -> R {
        thread::scope(|scope| {
            for helper in decoding.helpers() {
                scope.spawn(|| helper.run());
            }
            work()
        })
    }

    const LONG: Duration = Duration::from_secs(10);
    const PIECES: [(i64, i64); 5] = [(0, 4), (4, 8), (8, 12), (12, 16), (16, 18)];

    #[test]
    fn many_threads_decode_and_the_order_stays() {
        let notes = Notes {
            first_is_last: true,
            ..Notes::default()
        };
        let decoding = Decoding::with_helpers(3, notes);
        decoding.push(taken(Compression::Lz4, 18, None));
        let begin = Instant::now();
        assert_eq!(with_helpers(&decoding, || ranges(&decoding)), PIECES);
        assert!(begin.elapsed() < LONG, "nobody helped");
        assert_eq!(decoding.line.lock().helpers, 0);
    }

    #[test]
    fn alone_it_goes_as_well_and_what_is_not_compressed_is_left_whole() {
        let decoding = Decoding::with_helpers(0, Notes::default());
        decoding.push(taken(Compression::Lz4, 18, None));
        assert!(decoding.helpers().is_empty());
        assert_eq!(ranges(&decoding), PIECES);
        let decoding = Decoding::with_helpers(3, Notes::default());
        for _ in 0..2 {
            decoding.push(taken(Compression::None, 18, None));
        }
        assert!(decoding.helpers().is_empty());
        assert_eq!(ranges(&decoding), [(0, 18), (0, 18)]);
    }

    #[test]
    fn what_stands_before_a_broken_batch_is_given_out() {
        let decoding = Decoding::with_helpers(3, Notes::default());
        decoding.push(taken(Compression::Snappy, 18, Some(6)));
        assert_eq!(
            with_helpers(&decoding, || ranges(&decoding)),
            [(0, 4), (4, 5), (5, 6), (6, -1), (8, 12), (12, 16), (16, 18)]
        );
    }

    #[test]
    fn what_is_too_much_at_once_is_given_out_batch_by_batch() {
        let notes = Notes {
            most_bytes: 2 * BATCH,
            ..Notes::default()
        };
        let decoding = Decoding::with_helpers(0, notes);
        decoding.push(taken(Compression::None, 3, None));
        assert_eq!(ranges(&decoding), [(0, 1), (1, 2), (2, 3)]);
        // What stands behind them is no batch.
        let mut taken = taken(Compression::None, 2, None);
        taken.fetched.records = [&taken.fetched.records[..], &[0xff; BATCH]].concat().into();
        decoding.push(taken);
        assert_eq!(ranges(&decoding), [(0, 1), (1, 2), (2, -1)]);
    }

    #[test]
    fn what_became_stale_is_not_decoded() {
        let decoding = Decoding::with_helpers(1, Notes::default());
        decoding.push(taken(Compression::Lz4, 18, None));
        assert!(decoding.next().is_some());
        decoding.drop_stale(|fetched, _| fetched.fetch_offset >= 12);
        assert_eq!(ranges(&decoding), PIECES[3..]);
        assert_eq!(decoding.decoder.threads.lock().len(), 3);
        assert!(decoding.wants_more() && decoding.helpers().is_empty());
    }

    #[test]
    fn what_a_helper_fails_at_is_decoded_by_who_asks() {
        let notes = Notes {
            helpers_panic: true,
            owner: Some(thread::current().id()),
            ..Notes::default()
        };
        let decoding = Decoding::with_helpers(1, notes);
        decoding.push(taken(Compression::Lz4, 18, None));
        let helper = decoding.helpers().pop().unwrap();
        assert!(thread::spawn(|| helper.run()).join().is_err());
        assert_eq!(decoding.line.lock().helpers, 0);
        assert_eq!(ranges(&decoding), PIECES);
    }

    #[test]
    fn helpers_stop_when_enough_is_ahead() {
        let notes = Notes {
            bytes: AHEAD / 2,
            ..Notes::default()
        };
        let decoding = Decoding::with_helpers(1, notes);
        decoding.push(taken(Compression::Lz4, 18, None));
        let done = || decoding.decoder.threads.lock().len();
        for expected in [2, 3, 4] {
            decoding.helpers().pop().unwrap().run();
            assert_eq!((done(), decoding.helpers().len()), (expected, 0));
            assert!(decoding.next().is_some());
        }
        assert_eq!(ranges(&decoding), PIECES[3..]);
    }
}
