//! Decoding, in order. Helper threads decode compressed records ahead of the polls.
//!
//! ```text
//!   taken ──▶ pieces ──▶ waiting ── a poll, or a helper ──▶ running ──▶ done ──▶ the next poll
//! ```
//!
//! Records that are not compressed stay with the thread that polls: they take no longer to decode than to move to another core.
//! Where that thread serves an event loop, too, large pieces have a deputy, a thread that does what the poll would do.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use ottla_engine::Error;
use ottla_engine::consumer::{Generation, Taken};
use ottla_engine::fetched::Fetched;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::consume::decode::{Chunk, Decode, Moment};

/// Compressed bytes of a piece: enough that handing it over costs nothing, few enough that its records stay in the cache.
const PIECE: usize = 256 << 10;
/// Bytes that are decoded ahead of the polls: two polls' worth, by the default of what a poll returns. What is being decoded at
/// the time comes on top, for each thread at most `decompress.max.bytes`.
const AHEAD: usize = 8 << 20;
/// About the bytes that a record takes besides its key and value.
const ROW: usize = 32;
/// Threads that decode for one consumer, that of the poll included. More decompress faster than one process receives.
const MOST_THREADS: usize = 4;

/// The result of decoding some records.
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

/// What [`Decoding::next_at_once`] finds.
pub(crate) enum Next<C> {
    /// The next piece.
    Done(Done<C>),
    /// The next piece is decoded by another thread, or has to be.
    Elsewhere,
    /// The line is empty.
    Nothing,
}

/// Pieces on their way through the decoder. One thread at a time takes the next.
pub(crate) struct Decoding<D: Decode> {
    decoder: D,
    line: Mutex<Line<D::Chunk>>,
    /// A piece is done, or waits again.
    changed: Condvar,
    /// As `changed`, for polls that must not block their thread; also that the deputy has ended.
    passed: Notify,
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
    has_deputy: bool,
}

struct Piece<C> {
    generation: Generation,
    fetched: Fetched,
    compressed: bool,
    place: Place,
    stage: Stage<C>,
}

/// Who decodes a piece if the thread that polls serves an event loop, too.
#[derive(Clone, Copy)]
enum Place {
    /// The poll, if the piece is small.
    BySize,
    /// Another thread: it decompresses to too much.
    Elsewhere,
    /// The poll, so that its caller sees the panic that ended another thread.
    Here,
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

    /// Takes what a poll that waits for the first piece decodes next; nothing if that piece is done, or if only its thread is
    /// to be waited for.
    fn claim_for_poll(&mut self) -> Option<(u64, Fetched)> {
        match self.pieces.front()?.stage {
            Stage::Done(..) => None,
            Stage::Waiting => self.claim(),
            Stage::Running => self.claim_ahead(),
        }
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
        // The system reads files to find out, which takes longer than all else that makes a client.
        static CORES: LazyLock<usize> =
            LazyLock::new(|| available_parallelism().map_or(1, usize::from));
        Self::with_helpers((*CORES).min(MOST_THREADS) - 1, decoder)
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
                has_deputy: false,
            }),
            changed: Condvar::new(),
            passed: Notify::new(),
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
            place: Place::BySize,
            stage: Stage::Waiting,
        });
        self.line.lock().pieces.extend(pieces);
    }

    /// Nothing comes for a while.
    pub(crate) fn rest(&self) {
        self.decoder.rest();
    }

    /// Whether more records should be queued: no piece waits for a thread, or fewer than there could be helpers.
    pub(crate) fn wants_more(&self) -> bool {
        let mut line = self.line.lock();
        match line.number_waiting() {
            0 => true,
            some => some <= self.most_helpers && line.wants_help(),
        }
    }

    /// Skips pieces that nobody will request, because of a seek or another assignment.
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
        // The first piece is for the caller.
        let useful = line.number_waiting() - 1;
        let more = useful.min(self.most_helpers.saturating_sub(line.helpers));
        line.helpers += more;
        (0..more).map(|_| Helper(Arc::clone(self))).collect()
    }

    /// A deputy of the poll that waits for the first piece, to be run on a thread; none if there is one, or nothing to do for it.
    pub(crate) fn deputy(self: &Arc<Self>) -> Option<Deputy<D>> {
        let mut line = self.line.lock();
        let is_useful = match line.pieces.front()?.stage {
            Stage::Done(..) => false,
            Stage::Waiting => true,
            Stage::Running => line.wants_help(),
        };
        let is_missing = is_useful && !std::mem::replace(&mut line.has_deputy, true);
        is_missing.then(|| Deputy(Arc::clone(self)))
    }

    /// Waits while other threads are about to decode the first piece.
    pub(crate) async fn first_passed(&self) {
        loop {
            let mut passed = pin!(self.passed.notified());
            // Before looking, so that nothing that happens afterwards is missed.
            passed.as_mut().enable();
            let is_under_way = {
                let line = self.line.lock();
                match line.pieces.front().map(|piece| &piece.stage) {
                    Some(Stage::Running) => true,
                    Some(Stage::Waiting) => line.has_deputy,
                    Some(Stage::Done(..)) | None => false,
                }
            };
            if !is_under_way {
                return;
            }
            passed.await;
        }
    }

    fn tell(&self) {
        self.changed.notify_all();
        self.passed.notify_waiters();
    }

    /// The next piece in order. This thread decodes it unless another one has begun to. In that case this thread
    /// decodes later pieces, unless enough is done; then it waits, for no longer than one piece takes. `None` if the
    /// line is empty.
    pub(crate) fn next(&self) -> Option<Done<D::Chunk>> {
        let mut line = self.line.lock();
        loop {
            if let Stage::Done(..) = line.pieces.front()?.stage {
                return Self::pop(line);
            }
            match line.claim_for_poll() {
                Some((number, fetched)) => {
                    drop(line);
                    self.run(number, fetched);
                    line = self.line.lock();
                }
                None => self.changed.wait(&mut line),
            }
        }
    }

    /// The next piece in order, for a thread that has others to serve: it decodes what `moment` is enough for, and waits for
    /// nobody.
    pub(crate) fn next_at_once(&self, moment: &mut Moment) -> Next<D::Chunk> {
        let mut line = self.line.lock();
        let Some(first) = line.pieces.front() else {
            return Next::Nothing;
        };
        let is_here = match (&first.stage, first.place) {
            (Stage::Done(..), _) => return Self::pop(line).map_or(Next::Nothing, Next::Done),
            (Stage::Running, _) | (Stage::Waiting, Place::Elsewhere) => return Next::Elsewhere,
            (Stage::Waiting, Place::Here) => true,
            (Stage::Waiting, Place::BySize) => false,
        };
        let compressed = first.compressed;
        if !is_here && !moment.is_enough(&first.fetched, compressed) {
            return Next::Elsewhere;
        }
        let Some((number, fetched)) = line.claim() else {
            return Next::Nothing;
        };
        drop(line);
        if is_here {
            self.run(number, fetched);
        } else {
            let mut running = Running::new(self, number);
            let Some(whole) = moment.decode(&self.decoder, &fetched, compressed) else {
                running.after = Place::Elsewhere;
                return Next::Elsewhere;
            };
            let outcomes = outcomes(&self.decoder, &fetched, whole);
            drop(fetched);
            running.done(outcomes);
        }
        Self::pop(self.line.lock()).map_or(Next::Nothing, Next::Done)
    }

    /// Takes the first piece, which is done.
    fn pop(mut line: MutexGuard<'_, Line<D::Chunk>>) -> Option<Done<D::Chunk>> {
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
        let running = Running::new(self, number);
        let whole = self.decoder.decode(&fetched);
        let outcomes = outcomes(&self.decoder, &fetched, whole);
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

/// A thread that decodes in place of a poll whose own thread has others to serve. It is counted until it is dropped.
pub(crate) struct Deputy<D: Decode>(Arc<Decoding<D>>);

impl<D: Decode> Deputy<D> {
    /// Decodes until the first piece is done, or is another thread's and there is nothing to help with.
    pub(crate) fn run(self) {
        loop {
            let claimed = self.0.line.lock().claim_for_poll();
            match claimed {
                Some((number, fetched)) => self.0.run(number, fetched),
                None => return,
            }
        }
    }
}

impl<D: Decode> Drop for Deputy<D> {
    fn drop(&mut self) {
        self.0.line.lock().has_deputy = false;
        self.0.tell();
    }
}

/// A piece that a thread decodes. If the thread panics, the piece goes back to the queue, so that
/// its waiter does not wait for ever.
struct Running<'a, D: Decode> {
    decoding: &'a Decoding<D>,
    number: u64,
    /// Who decodes the piece when it waits again.
    after: Place,
}

impl<'a, D: Decode> Running<'a, D> {
    fn new(decoding: &'a Decoding<D>, number: u64) -> Self {
        let after = Place::Here;
        Running {
            decoding,
            number,
            after,
        }
    }

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
        self.decoding.tell();
        std::mem::forget(self);
    }
}

impl<D: Decode> Drop for Running<'_, D> {
    fn drop(&mut self) {
        let mut line = self.decoding.line.lock();
        line.waiting = line.waiting.min(self.number);
        if let Some(piece) = line.piece(self.number) {
            piece.stage = Stage::Waiting;
            piece.place = self.after;
        }
        drop(line);
        self.decoding.tell();
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

/// What became of records; if the whole of them does not decode, only those before the broken batch, or before the record that
/// cannot be shown.
fn outcomes<D: Decode>(
    decoder: &D,
    fetched: &Fetched,
    whole: Result<D::Chunk, Error>,
) -> Vec<Outcome<D::Chunk>> {
    let whole = match whole {
        Ok(chunk) if chunk.next_offset() >= fetched.next_offset => {
            return vec![Outcome::Chunk(chunk)];
        }
        Ok(_) => fetched.corrupt("a record cannot be shown"),
        Err(error) => error,
    };
    let mut outcomes = Vec::new();
    let (mut end, mut left) = (fetched.fetch_offset, fetched.records.len());
    for part in fetched.split() {
        if !outcomes.is_empty() && !part.begins_in_order() {
            break;
        }
        end = end.max(part.next_offset);
        left -= part.records.len();
        outcomes.extend(outcomes_of_batch(decoder, part));
        if let Some(Outcome::Broken(..)) = outcomes.last() {
            return outcomes;
        }
    }
    // Each batch may be sound, and all of them too much for one decode.
    if left > 0 {
        let rest = Fetched {
            fetch_offset: end,
            records: fetched.records.slice(fetched.records.len() - left..),
            ..fetched.clone()
        };
        outcomes.push(Outcome::Broken(end, rest.name_in(whole)));
    }
    outcomes
}

fn outcomes_of_batch<D: Decode>(decoder: &D, mut batch: Fetched) -> Vec<Outcome<D::Chunk>> {
    let mut outcomes = Vec::new();
    loop {
        match decoder.decode(&batch) {
            Ok(chunk) => {
                let reached = chunk.next_offset();
                outcomes.push(Outcome::Chunk(chunk));
                if reached >= batch.next_offset || reached <= batch.fetch_offset {
                    return outcomes;
                }
                // It ends before a record that cannot be shown, which is the first one now.
                batch.fetch_offset = reached;
            }
            Err(error) => {
                let error = batch.name_in(error);
                outcomes.push(Outcome::Broken(batch.fetch_offset, error));
                return outcomes;
            }
        }
    }
}

#[cfg(test)]
mod tests;
