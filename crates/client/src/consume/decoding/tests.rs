#![allow(clippy::disallowed_methods, reason = "the test has a stopwatch")]

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
    /// The size that each chunk reports.
    bytes: usize,
    /// More are refused.
    most_bytes: usize,
    threads: Mutex<Vec<thread::ThreadId>>,
    /// The first piece is done when all others were begun.
    first_is_last: bool,
    helpers_panic: bool,
    /// Compressed records become more than a brief poll decodes.
    expands: bool,
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
            expands: false,
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

    fn decode_within(&self, fetched: &Fetched, _: usize) -> Option<Result<Offsets, Error>> {
        (!self.expands).then(|| self.decode(fetched))
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
    fn slice(&self, _: usize, _: usize) -> Offsets {
        unreachable!("only whole chunks are asked for")
    }
    fn offset(&self, row: usize) -> i64 {
        self.0 + row as i64
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

/// Shows no record of these offsets.
struct Picky(&'static [i64]);

impl Decode for Picky {
    type Chunk = Offsets;

    fn decode(&self, fetched: &Fetched) -> Result<Offsets, Error> {
        let (from, end) = (fetched.fetch_offset, fetched.next_offset);
        if fetched.records.windows(6).any(|bytes| bytes == b"broken") {
            return Err(fetched.corrupt("bad sum"));
        }
        let mut refused = self.0.iter().copied().filter(|it| (from..end).contains(it));
        match refused.next() {
            Some(offset) if offset == from => Err(fetched.refused("no text")),
            stop => Ok(Offsets(from, stop.unwrap_or(end), 0)),
        }
    }
}

#[test]
fn what_stands_before_a_record_that_cannot_be_shown_is_given_out_and_it_is_named() {
    let numbered = |base: i64, value: &[u8]| {
        let mut builder = BatchBuilder::new(Compression::None, None);
        for _ in 0..3 {
            let headers = std::iter::empty();
            builder.append(1, None, Some(value), headers).unwrap();
        }
        let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
        assign_offsets(&mut bytes, base, 4).unwrap();
        bytes
    };
    let fetched = |from: i64, last: &[u8]| {
        // A broker begins with the batch that holds the offset.
        let batches = [numbered(0, b""), numbered(3, b""), numbered(6, last)];
        let first = (from / 3) as usize;
        Fetched {
            fetch_offset: from,
            next_offset: 9,
            records: batches[first..].concat().into(),
            ..taken(Compression::None, 0, None).fetched
        }
    };
    let read = |refused: &'static [i64], fetched: &Fetched| {
        let picky = Picky(refused);
        let found = outcomes(&picky, fetched, picky.decode(fetched));
        let named = found.into_iter().map(|outcome| match outcome {
            Outcome::Chunk(chunk) => (chunk.0, chunk.1, None),
            Outcome::Broken(offset, error) => {
                let damage = error.damage().unwrap().clone();
                assert_eq!(damage.offset, offset);
                (offset, damage.next_offset.unwrap(), Some(damage.data))
            }
        });
        named.collect::<Vec<_>>()
    };
    let middle = Some(numbered(3, b"").into());
    assert_eq!(
        read(&[4, 5], &fetched(0, b"")),
        [(0, 3, None), (3, 4, None), (4, 5, middle.clone())]
    );
    assert_eq!(read(&[4, 5], &fetched(5, b"")), [(5, 6, middle)]);
    assert_eq!(read(&[4, 5], &fetched(6, b"")), [(6, 9, None)]);
    // A damaged batch behind it is for later.
    let found = read(&[1], &fetched(0, b"broken"));
    let first = Some(numbered(0, b"").into());
    assert_eq!(found, [(0, 1, None), (1, 2, first)]);
    let found = read(&[], &fetched(0, b"broken"));
    let last = Some(numbered(6, b"broken").into());
    assert_eq!(found, [(0, 3, None), (3, 6, None), (6, 9, last)]);
}

/// What a brief poll gets, with the moment that each poll has; another thread decodes what it leaves.
async fn brief(decoding: &Arc<Decoding<Notes>>) -> (Vec<(i64, i64)>, usize) {
    let (mut found, mut elsewhere) = (Vec::new(), 0);
    loop {
        match decoding.next_at_once(&mut Moment::new()) {
            Next::Done(done) => {
                found.extend(done.outcomes.into_iter().map(|outcome| match outcome {
                    Outcome::Chunk(chunk) => (chunk.0, chunk.1),
                    Outcome::Broken(offset, _) => (offset, -1),
                }))
            }
            Next::Nothing => return (found, elsewhere),
            Next::Elsewhere => {
                elsewhere += 1;
                if let Some(deputy) = decoding.deputy() {
                    thread::spawn(|| deputy.run());
                }
                decoding.first_passed().await;
            }
        }
    }
}

fn is_ours(decoding: &Decoding<Notes>) -> Vec<bool> {
    let threads = decoding.decoder.threads.lock();
    threads
        .iter()
        .map(|it| *it == thread::current().id())
        .collect()
}

#[tokio::test]
async fn a_brief_poll_decodes_what_is_small() {
    let decoding = Decoding::with_helpers(0, Notes::default());
    for _ in 0..2 {
        decoding.push(taken(Compression::None, 4, None));
    }
    assert_eq!(brief(&decoding).await, (vec![(0, 4), (0, 4)], 0));
    assert_eq!(is_ours(&decoding), [true, true]);
}

#[tokio::test]
async fn its_deputy_decodes_what_is_large_and_the_order_stays() {
    let decoding = Decoding::with_helpers(0, Notes::default());
    decoding.push(taken(Compression::None, 40, None));
    decoding.push(taken(Compression::Lz4, 18, None));
    decoding.push(taken(Compression::None, 1, None));
    let (found, elsewhere) = brief(&decoding).await;
    assert_eq!(found, [&[(0, 40)], &PIECES[..], &[(0, 1)]].concat());
    assert!(elsewhere >= 6, "{elsewhere}");
    assert_eq!(
        is_ours(&decoding),
        [[false; 6].as_slice(), &[true]].concat()
    );
}

#[tokio::test]
async fn what_one_poll_decodes_is_small_in_all() {
    let decoding = Decoding::with_helpers(0, Notes::default());
    for _ in 0..3 {
        decoding.push(taken(Compression::None, 16, None));
    }
    let mut moment = Moment::new();
    assert!(matches!(decoding.next_at_once(&mut moment), Next::Done(_)));
    assert!(matches!(
        decoding.next_at_once(&mut moment),
        Next::Elsewhere
    ));
    assert!(matches!(
        decoding.next_at_once(&mut Moment::new()),
        Next::Done(_)
    ));
}

#[tokio::test]
async fn what_turns_out_to_be_large_goes_to_its_deputy_once() {
    let notes = Notes {
        expands: true,
        ..Notes::default()
    };
    let decoding = Decoding::with_helpers(0, notes);
    let mut builder = BatchBuilder::new(Compression::Zstd, None);
    let headers = std::iter::empty();
    builder
        .append(1, None, Some(&[0; 9 * BATCH]), headers)
        .unwrap();
    let mut small = taken(Compression::Zstd, 1, None);
    small.fetched.records = builder.finish(ProducerState::NONE).unwrap().to_vec().into();
    decoding.push(small);
    assert_eq!(brief(&decoding).await, (vec![(0, 1)], 1));
    assert_eq!(is_ours(&decoding), [false]);
}

#[tokio::test]
async fn what_its_deputy_fails_at_it_decodes_itself() {
    let notes = Notes {
        helpers_panic: true,
        owner: Some(thread::current().id()),
        ..Notes::default()
    };
    let decoding = Decoding::with_helpers(0, notes);
    decoding.push(taken(Compression::None, 40, None));
    assert_eq!(brief(&decoding).await, (vec![(0, 40)], 1));
    assert_eq!(is_ours(&decoding), [false, true]);
}

#[tokio::test]
async fn a_deputy_that_nobody_runs_is_not_waited_for() {
    let decoding = Decoding::with_helpers(0, Notes::default());
    decoding.push(taken(Compression::None, 40, None));
    let deputy = decoding.deputy();
    assert!(deputy.is_some() && decoding.deputy().is_none());
    let (_, ()) = tokio::join!(decoding.first_passed(), async { drop(deputy) });
}
