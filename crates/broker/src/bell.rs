//! How a parked response continues: whoever brings what it waits for wakes it through its [`Bell`].
//!
//! The shell hands in a [`Waker`] for each connection, so that nothing here knows tasks or threads: in a listener it wakes
//! the connection's task, in a [`crate::node::Node`] it notes the connection's number.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// The wake-up of one parked response.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: Waker,
}

impl Bell {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            rung: AtomicBool::new(false),
            waker,
        }
    }

    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }

    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }
}

/// A place for one reply, which its taker waits for.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    answer: Mutex<Option<T>>,
    bell: Bell,
}

impl<T> Slot<T> {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            answer: Mutex::new(None),
            bell: Bell::new(waker),
        }
    }

    pub(crate) fn put(&self, answer: T) {
        *self.answer.lock() = Some(answer);
        self.bell.ring();
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.answer.lock().take()
    }
}

/// Something that a parked response waits for.
pub(crate) trait Awaited: Send + Sync {
    fn bell(&self) -> &Bell;
}

impl<T: Send> Awaited for Slot<T> {
    fn bell(&self) -> &Bell {
        &self.bell
    }
}
