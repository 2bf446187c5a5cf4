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
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::consumer::{Chunk, Decode};

/// Compressed bytes of a piece: enough that handing it over costs nothing, few enough that its records stay in the cache.
const PIECE: usize = 256 << 10;
/// Bytes of keys and values that helpers decode ahead of the polls. Two polls' worth, by the default of what a poll returns.
const AHEAD: usize = 8 << 20;
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
    Done(Vec<Outcome<C>>),
}

impl<C: Chunk> Line<C> {
    /// Takes the first piece that waits; helpers only take what is compressed, and leave the rest if enough is done.
    fn claim(&mut self, helper: bool) -> Option<(u64, Fetched)> {
        let index = self.waiting()?;
        if helper && !self.is_for_helpers(index) {
            return None;
        }
        let piece = self.pieces.get_mut(index)?;
        piece.stage = Stage::Running;
        Some((self.first + index as u64, piece.fetched.clone()))
    }

    fn waiting(&self) -> Option<usize> {
        let waits = |piece: &Piece<C>| matches!(piece.stage, Stage::Waiting);
        self.pieces.iter().position(waits)
    }

    fn is_for_helpers(&self, index: usize) -> bool {
        self.pieces.get(index).is_some_and(|piece| piece.compressed) && self.ahead() < AHEAD
    }

    /// Bytes that are decoded and were not asked for yet.
    fn ahead(&self) -> usize {
        let outcomes = self.pieces.iter().filter_map(|piece| match &piece.stage {
            Stage::Done(outcomes) => Some(outcomes),
            _ => None,
        });
        outcomes
            .flatten()
            .map(|outcome| match outcome {
                Outcome::Chunk(chunk) => chunk.bytes(),
                Outcome::Broken(..) => 0,
            })
            .sum()
    }

    fn set(&mut self, number: u64, stage: Stage<C>) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        if let Some(piece) = index.and_then(|index| self.pieces.get_mut(index)) {
            piece.stage = stage;
        }
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

    /// Whether there are records that nobody began to decode.
    pub(crate) fn has_waiting(&self) -> bool {
        self.line.lock().waiting().is_some()
    }

    /// How many more threads should call [`Self::help`] now; each must.
    pub(crate) fn helpers_wanted(&self) -> usize {
        let mut line = self.line.lock();
        // The first piece is for who asks.
        let waiting = line.waiting().filter(|_| line.pieces.len() > 1);
        if !waiting.is_some_and(|index| line.is_for_helpers(index)) {
            return 0;
        }
        let more = self.most_helpers - line.helpers;
        line.helpers = self.most_helpers;
        more
    }

    /// Decodes until there is nothing more to help with.
    pub(crate) fn help(&self) {
        let leaving = Leaving(self);
        let mut line = self.line.lock();
        while let Some((number, fetched)) = line.claim(true) {
            drop(line);
            self.run(number, &fetched);
            line = self.line.lock();
        }
        leaving.leave(line);
    }

    /// The next piece in order, decoded here if nobody has; while another thread is at it, further ones are. `None` if the line
    /// is empty.
    pub(crate) fn next(&self) -> Option<Done<D::Chunk>> {
        let mut line = self.line.lock();
        loop {
            if let Stage::Done(_) = line.pieces.front()?.stage {
                let piece = line.pieces.pop_front()?;
                line.first += 1;
                let Stage::Done(outcomes) = piece.stage else {
                    continue;
                };
                return Some(Done {
                    topic: piece.fetched.topic,
                    partition: piece.fetched.partition,
                    generation: piece.generation,
                    outcomes,
                });
            }
            match line.claim(false) {
                Some((number, fetched)) => {
                    drop(line);
                    self.run(number, &fetched);
                    line = self.line.lock();
                }
                None => self.changed.wait(&mut line),
            }
        }
    }

    fn run(&self, number: u64, fetched: &Fetched) {
        let running = Running {
            decoding: self,
            number,
        };
        let outcomes = outcomes(&self.decoder, fetched);
        running.done(outcomes);
    }
}

/// Decodes records; of those that do not decode, what stands before the broken batch.
fn outcomes<D: Decode>(decoder: &D, fetched: &Fetched) -> Vec<Outcome<D::Chunk>> {
    let whole = match decoder.decode(fetched) {
        Ok(chunk) => return vec![Outcome::Chunk(chunk)],
        Err(error) => error,
    };
    let mut outcomes = Vec::new();
    for part in fetched.split() {
        match decoder.decode(&part) {
            Ok(chunk) => outcomes.push(Outcome::Chunk(chunk)),
            Err(error) => {
                outcomes.push(Outcome::Broken(part.fetch_offset, error));
                return outcomes;
            }
        }
    }
    outcomes.push(Outcome::Broken(fetched.fetch_offset, whole));
    outcomes
}

/// A piece that a thread decodes. Should it panic, the piece waits again, so that nobody waits for it in vain.
struct Running<'a, D: Decode> {
    decoding: &'a Decoding<D>,
    number: u64,
}

impl<D: Decode> Running<'_, D> {
    fn done(self, outcomes: Vec<Outcome<D::Chunk>>) {
        self.end(Stage::Done(outcomes));
        std::mem::forget(self);
    }

    fn end(&self, stage: Stage<D::Chunk>) {
        self.decoding.line.lock().set(self.number, stage);
        self.decoding.changed.notify_all();
    }
}

impl<D: Decode> Drop for Running<'_, D> {
    fn drop(&mut self) {
        self.end(Stage::Waiting);
    }
}

/// A helper, which is counted until it has looked for work in vain.
struct Leaving<'a, D: Decode>(&'a Decoding<D>);

impl<D: Decode> Leaving<'_, D> {
    /// With the line locked, so that nobody who brings work afterwards still counts on this helper.
    fn leave(self, mut line: MutexGuard<'_, Line<D::Chunk>>) {
        line.helpers -= 1;
        std::mem::forget(self);
    }
}

impl<D: Decode> Drop for Leaving<'_, D> {
    fn drop(&mut self) {
        self.0.line.lock().helpers -= 1;
    }
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
    #[derive(Default)]
    struct Notes {
        /// What each chunk says that it holds.
        bytes: usize,
        threads: Mutex<Vec<thread::ThreadId>>,
        /// The first piece is done when all others were begun.
        first_is_last: bool,
        helpers_panic: bool,
        /// The thread of the test.
        owner: Option<thread::ThreadId>,
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
            if fetched.records.windows(6).any(|bytes| bytes == b"broken") {
                return Err(Error::new(Kind::Corrupt, "broken"));
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

    fn with_helpers<R>(decoding: &Decoding<Notes>, work: impl FnOnce() -> R) -> R {
        thread::scope(|scope| {
            for _ in 0..decoding.helpers_wanted() {
                scope.spawn(|| decoding.help());
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
        assert_eq!(decoding.helpers_wanted(), 0);
        assert_eq!(ranges(&decoding), PIECES);
        let decoding = Decoding::with_helpers(3, Notes::default());
        for _ in 0..2 {
            decoding.push(taken(Compression::None, 18, None));
        }
        assert_eq!(decoding.helpers_wanted(), 0);
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
    fn what_a_helper_fails_at_is_decoded_by_who_asks() {
        let notes = Notes {
            helpers_panic: true,
            owner: Some(thread::current().id()),
            ..Notes::default()
        };
        let decoding = Decoding::with_helpers(1, notes);
        decoding.push(taken(Compression::Lz4, 18, None));
        assert_eq!(decoding.helpers_wanted(), 1);
        let helper = thread::scope(|scope| scope.spawn(|| decoding.help()).join());
        assert!(helper.is_err());
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
            assert_eq!(decoding.helpers_wanted(), 1);
            decoding.help();
            assert_eq!((done(), decoding.helpers_wanted()), (expected, 0));
            assert!(decoding.next().is_some());
        }
        assert_eq!(ranges(&decoding), PIECES[3..]);
    }
}
