//! The delivery results of sent records.

use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::producer::{Done, Stored};
use ottla_engine::{Error, Kind};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::net::transport::deadline;
use crate::runtime::deadlines::Deadlines;

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; -1 if the broker did not say (`acks=0`, or a repeat it had already written long ago).
    pub offset: i64,
    /// Milliseconds since 1970 UTC: the record's own, or the broker's if the topic stamps records on append.
    pub timestamp_ms: i64,
}

/// Records that failed and whose deliveries nobody observes any more: see [`Delivery::leave`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnobservedFailures {
    /// How many.
    pub failed: usize,
    /// Why the first of them failed.
    pub first: Error,
}

/// Why a producer's records are still undelivered, as far as it is known.
type Delay = Box<dyn Fn() -> Option<Error> + Send + Sync>;

/// What the batches of one producer share: why they are late, the deadlines of waits for them, and the failures of records that
/// nobody observes.
#[derive(Default)]
pub(crate) struct Ledger {
    delay: Option<Delay>,
    deadlines: Arc<Deadlines>,
    unobserved: Mutex<Option<UnobservedFailures>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("unobserved", &self.unobserved)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    pub(crate) fn new(delay: Delay, deadlines: &Arc<Deadlines>) -> Ledger {
        Ledger {
            delay: Some(delay),
            deadlines: Arc::clone(deadlines),
            unobserved: Mutex::default(),
        }
    }

    /// The error of a wait that was longer than `timeout`.
    pub(crate) fn late(&self, timeout: Option<Duration>) -> Error {
        let text = format!(
            "still undelivered after {} ms",
            timeout.unwrap_or_default().as_millis()
        );
        match self.delay.as_ref().and_then(|delay| delay()) {
            Some(cause) => cause.wrap(Kind::Timeout, text).with_retriable(true),
            None => Error::new(Kind::Timeout, text),
        }
    }

    pub(crate) fn add(&self, failed: u32, error: &Error) {
        if failed > 0 {
            let mut ledger = self.unobserved.lock();
            let unobserved = ledger.get_or_insert_with(|| UnobservedFailures {
                failed: 0,
                first: error.clone(),
            });
            unobserved.failed += failed as usize;
        }
    }

    /// The failures since the last time.
    pub(crate) fn take(&self) -> Option<UnobservedFailures> {
        self.unobserved.lock().take()
    }
}

/// The delivery result of one batch, shared by the deliveries of its records.
pub(crate) struct Completion {
    topic: Arc<str>,
    pub(crate) partition: i32,
    ledger: Arc<Ledger>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// What is known: one run of records, or several if the batch had to be split.
    runs: Vec<Fate>,
    hooks: Vec<Hook>,
    /// First and count of records that nobody observes, left before their delivery result was
    /// known.
    left: Vec<(u32, u32)>,
}

pub(crate) struct Fate {
    pub(crate) first: u32,
    count: u32,
    pub(crate) result: Result<Stored, Error>,
}

/// A hook that is called when the delivery results of all of some records are known.
struct Hook {
    first: u32,
    count: u32,
    notify: Box<dyn FnOnce() + Send>,
}

impl Fate {
    /// How many of these records have this delivery result.
    fn overlap(&self, first: u32, count: u32) -> u32 {
        let end = (first + count).min(self.first + self.count);
        end.saturating_sub(first.max(self.first))
    }
}

impl State {
    fn fate(&self, index: u32) -> Option<&Fate> {
        self.runs
            .iter()
            .find(|run| index >= run.first && index - run.first < run.count)
    }

    fn covers(&self, first: u32, count: u32) -> bool {
        let end = first + count;
        let mut at = first;
        while at < end {
            match self.fate(at) {
                Some(run) => at = run.first + run.count,
                None => return false,
            }
        }
        true
    }
}

impl Completion {
    pub(crate) fn new(topic: &Arc<str>, partition: i32, ledger: &Arc<Ledger>) -> Completion {
        let (state, changed) = (Mutex::default(), Notify::new());
        Completion {
            topic: Arc::clone(topic),
            partition,
            ledger: Arc::clone(ledger),
            state,
            changed,
        }
    }

    /// Stores a delivery result and notifies everybody whose records all have theirs. It does so
    /// before anybody else can see the result, so that notices about later records come later.
    pub(crate) fn resolve(done: Done<Arc<Completion>>) {
        let Done {
            batch,
            first,
            count,
            result,
        } = done;
        let mut state = batch.state.lock();
        let fate = Fate {
            first,
            count,
            result,
        };
        if let Err(error) = &fate.result {
            let left = state.left.iter();
            let left = left.map(|(first, count)| fate.overlap(*first, *count));
            batch.ledger.add(left.sum(), error);
        }
        state.runs.push(fate);
        let hooks = std::mem::take(&mut state.hooks);
        let (mut due, waiting): (Vec<_>, _) = hooks
            .into_iter()
            .partition(|hook| state.covers(hook.first, hook.count));
        state.hooks = waiting;
        // In the order of the records, in whichever they were asked about.
        due.sort_by_key(|hook| hook.first + hook.count);
        for hook in due {
            (hook.notify)();
        }
        drop(state);
        batch.changed.notify_waiters();
    }

    pub(crate) fn covers(&self, first: u32, count: u32) -> bool {
        self.state.lock().covers(first, count)
    }

    /// Calls `each` for every run of these records that shares a delivery result, in order; `None`
    /// if the result of one of them is not known yet.
    pub(crate) fn each_fate(
        &self,
        first: u32,
        count: u32,
        mut each: impl FnMut(Range<u32>, &Fate),
    ) -> Option<()> {
        let state = self.state.lock();
        let end = first + count;
        let mut at = first;
        while at < end {
            let fate = state.fate(at)?;
            let stop = end.min(fate.first + fate.count);
            each(at..stop, fate);
            at = stop;
        }
        Some(())
    }

    pub(crate) fn hook(&self, first: u32, count: u32, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        if state.covers(first, count) {
            drop(state);
            notify();
        } else {
            state.hooks.push(Hook {
                first,
                count,
                notify: Box::new(notify),
            });
        }
    }

    /// Nobody observes these records any more: their failures go into the ledger, now or when they
    /// are known.
    pub(crate) fn leave(&self, first: u32, count: u32) {
        let mut state = self.state.lock();
        for fate in &state.runs {
            if let Err(error) = &fate.result {
                self.ledger.add(fate.overlap(first, count), error);
            }
        }
        if state.covers(first, count) {
            return;
        }
        match state.left.last_mut() {
            // One after the other as they were sent, or backwards, as Python lets go of a list.
            Some((start, length)) if *start + *length == first => *length += count,
            Some((start, length)) if first + count == *start => {
                *start = first;
                *length += count;
            }
            _ => state.left.push((first, count)),
        }
    }

    /// A caller observes this record again. Failures that are in the ledger already stay there.
    fn take_back(&self, index: u32) {
        let mut state = self.state.lock();
        let holds = |(first, count): &(u32, u32)| (*first..*first + *count).contains(&index);
        let Some(at) = state.left.iter().position(holds) else {
            return;
        };
        let (first, count) = state.left.swap_remove(at);
        let (before, after) = (
            (first, index - first),
            (index + 1, first + count - index - 1),
        );
        let parts = [before, after].into_iter().filter(|(_, count)| *count > 0);
        state.left.extend(parts);
    }

    /// Waits until the delivery results of the records are known; false if the deadline came first.
    pub(crate) async fn wait(&self, first: u32, count: u32, deadline: Option<Instant>) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.covers(first, count) {
                return true;
            }
            let Some(deadline) = deadline else {
                changed.await;
                continue;
            };
            let in_time = self.ledger.deadlines.timeout_at(deadline, changed).await;
            if in_time.is_err() {
                return self.covers(first, count);
            }
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({}-{})", self.topic, self.partition)
    }
}

/// The delivery result of one record. Cheap to clone: a share in its batch's result, and an index.
#[derive(Clone, Debug)]
pub struct Delivery {
    batch: Arc<Completion>,
    index: u32,
    timestamp_ms: i64,
}

impl Delivery {
    pub(crate) fn new(batch: Arc<Completion>, index: u32, timestamp_ms: i64) -> Delivery {
        Delivery {
            batch,
            index,
            timestamp_ms,
        }
    }

    /// Whether the delivery result is known.
    pub fn is_done(&self) -> bool {
        self.batch.covers(self.index, 1)
    }

    /// The delivery result, once it is known. Does not wait.
    pub fn result(&self) -> Option<Result<RecordMetadata, Error>> {
        let state = self.batch.state.lock();
        let fate = state.fate(self.index)?;
        Some(match &fate.result {
            Ok(stored) => Ok(RecordMetadata {
                topic: Arc::clone(&self.batch.topic),
                partition: self.batch.partition,
                offset: offset_of(stored, self.index - fate.first),
                timestamp_ms: stored.log_append_time_ms.unwrap_or(self.timestamp_ms),
            }),
            Err(error) => Err(error.clone()),
        })
    }

    /// Waits for the delivery result. Dropping the future changes nothing about the record.
    ///
    /// # Errors
    /// The record's own failure, or `Kind::Timeout` after `timeout` (`None`: no limit but `delivery.timeout.ms`).
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<RecordMetadata, Error> {
        let deadline = timeout.map(deadline);
        self.batch.wait(self.index, 1, deadline).await;
        self.result().unwrap_or_else(|| {
            let late = self.batch.ledger.late(timeout);
            Err(late.with_partition(&self.batch.topic, self.batch.partition))
        })
    }

    /// Calls `notify` once when the delivery result is known: at once on this thread if it is, else
    /// on a thread of the runtime or of another caller, where it must neither block, nor attach to
    /// an interpreter, nor call a delivery for its result.
    pub fn on_done(&self, notify: impl FnOnce() + Send + 'static) {
        self.batch.hook(self.index, 1, notify);
    }

    /// Nobody will ask about this record: if it fails, [`crate::Producer::take_unobserved_failures`] reports it. Called once, or
    /// once more after each [`Delivery::take_back`].
    pub fn leave(&self) {
        self.batch.leave(self.index, 1);
    }

    /// A caller observes this record again. If it has failed since it was left, its failure is
    /// reported nevertheless.
    pub fn take_back(&self) {
        self.batch.take_back(self.index);
    }

    /// A number that the deliveries of one batch share, and no other batch has as long as one of them lives.
    pub fn batch(&self) -> usize {
        Arc::as_ptr(&self.batch).addr()
    }

    /// The record's topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.batch.topic
    }

    /// The record's partition.
    pub fn partition(&self) -> i32 {
        self.batch.partition
    }
}

pub(crate) fn offset_of(stored: &Stored, index: u32) -> i64 {
    if stored.base_offset < 0 {
        -1
    } else {
        stored.base_offset + i64::from(index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn whoever_asked_to_be_told_is_told_before_others_can_see_the_fate() {
        let batch = Arc::new(Completion::new(&"t".into(), 0, &Arc::default()));
        let delivery = |index| Delivery::new(Arc::clone(&batch), index, 0);
        let (entered, enters) = mpsc::channel();
        let (saw, seen) = mpsc::channel();
        let (told, tells) = mpsc::channel();
        delivery(0).on_done(move || {
            entered.send(()).unwrap();
            told.send(seen.recv_timeout(Duration::from_millis(200)))
                .unwrap();
        });
        let resolving = {
            let batch = Arc::clone(&batch);
            thread::spawn(|| {
                Completion::resolve(Done {
                    batch,
                    first: 0,
                    count: 2,
                    result: Err(Error::new(Kind::Closed, "lost")),
                });
            })
        };
        enters.recv().unwrap();
        assert!(delivery(1).is_done());
        // The other end may have waited long enough, and be gone.
        let _ = saw.send(());
        resolving.join().unwrap();
        assert_eq!(tells.recv(), Ok(Err(mpsc::RecvTimeoutError::Timeout)));
    }

    #[test]
    fn records_of_a_batch_are_told_about_in_their_order() {
        let batch = Arc::new(Completion::new(&"t".into(), 0, &Arc::default()));
        let (told, tells) = mpsc::channel();
        for index in [2, 0, 1] {
            let told = told.clone();
            let delivery = Delivery::new(Arc::clone(&batch), index, 0);
            delivery.on_done(move || told.send(index).unwrap());
        }
        Completion::resolve(Done {
            batch,
            first: 0,
            count: 3,
            result: Err(Error::new(Kind::Closed, "lost")),
        });
        drop(told);
        assert_eq!(tells.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn who_is_left_is_counted_once_before_and_after_the_fate_is_known() {
        let ledger = Arc::default();
        let batch = Arc::new(Completion::new(&"t".into(), 0, &ledger));
        let resolve = |first, count, result| {
            let batch = Arc::clone(&batch);
            Completion::resolve(Done {
                batch,
                first,
                count,
                result,
            });
        };
        let leave = |index| Delivery::new(Arc::clone(&batch), index, 0).leave();
        let unobserved = |failed, first| Some(UnobservedFailures { failed, first });
        let (early, late) = (
            Error::new(Kind::TooLarge, "a"),
            Error::new(Kind::Closed, "b"),
        );

        // 2 and 5 are asked about.
        [4, 0, 1, 3, 6].into_iter().for_each(leave);
        resolve(
            0,
            2,
            Ok(Stored {
                base_offset: 7,
                log_append_time_ms: None,
            }),
        );
        assert_eq!(ledger.take(), None);
        resolve(2, 2, Err(early.clone()));
        resolve(4, 2, Err(late.clone()));
        assert_eq!(ledger.take(), unobserved(2, early));
        resolve(6, 2, Err(late.clone()));
        leave(7);
        assert_eq!(ledger.take(), unobserved(2, late.clone()));
        assert_eq!(ledger.take(), None);

        // 9 is asked about after all, 11 is left again.
        [8, 9, 10, 11].into_iter().for_each(leave);
        let take_back = |index| Delivery::new(Arc::clone(&batch), index, 0).take_back();
        [9, 11, 12].into_iter().for_each(take_back);
        leave(11);
        resolve(8, 5, Err(late.clone()));
        assert_eq!(ledger.take(), unobserved(3, late));
    }
}
