//! The threads that do the I/O of clients. Each has a runtime of its own, and a connection stays on its thread.
//!
//! A runtime that moves tasks between its threads wakes one thread more for each response: the one that waits for the sockets in
//! the place of the one that now handles the response.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::runtime::deadlines::Deadlines;

/// Threads for I/O. They end when the last client on them is closed and their owner has dropped them.
#[derive(Debug)]
pub struct Threads {
    first: Handle,
    others: Vec<Handle>,
    turns: AtomicUsize,
    deadlines: Arc<Deadlines>,
    /// A thread ends when its one is dropped.
    keepers: Vec<Sender<()>>,
}

impl Threads {
    /// Starts `count` threads, and one at least.
    ///
    /// # Errors
    /// The system refuses a thread, or the means to wait for sockets.
    pub fn start(count: usize, name: &str) -> io::Result<Arc<Threads>> {
        let (keeper, kept) = channel();
        let first = start(name, kept)?;
        let mut threads = Threads {
            deadlines: Deadlines::start(&first),
            first,
            others: Vec::new(),
            turns: AtomicUsize::new(0),
            keepers: vec![keeper],
        };
        for _ in 1..count {
            let (keeper, kept) = channel();
            threads.others.push(start(name, kept)?);
            threads.keepers.push(keeper);
        }
        Ok(Arc::new(threads))
    }

    /// The runtime that this is called on, with the threads that it has.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn current() -> Arc<Threads> {
        let first = Handle::current();
        Arc::new(Threads {
            deadlines: Deadlines::start(&first),
            first,
            others: Vec::new(),
            turns: AtomicUsize::new(0),
            keepers: Vec::new(),
        })
    }

    /// The thread for what has to do with no connection.
    pub fn first(&self) -> &Handle {
        &self.first
    }

    /// The deadlines of the calls that wait for these threads.
    pub(crate) fn deadlines(&self) -> &Arc<Deadlines> {
        &self.deadlines
    }

    /// The thread whose turn it is.
    pub(crate) fn next(&self) -> &Handle {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % (self.others.len() + 1);
        self.others.get(turn).unwrap_or(&self.first)
    }
}

fn start(name: &str, kept: Receiver<()>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread()
        .thread_name(name)
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            // It is never sent anything.
            let _ = runtime.block_on(kept);
            runtime.shutdown_background();
        })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn tasks_take_turns_on_the_threads() {
        let threads = Threads::start(3, "three").unwrap();
        let (send, receive) = mpsc::channel();
        for _ in 0..6 {
            let send = send.clone();
            threads.next().spawn(async move {
                let here = thread::current();
                assert_eq!(here.name(), Some("three"));
                send.send(here.id()).unwrap();
            });
        }
        let ran: Vec<_> = (0..6)
            .map(|_| receive.recv_timeout(PATIENCE).unwrap())
            .collect();
        let different: BTreeSet<_> = ran.iter().map(|id| format!("{id:?}")).collect();
        assert_eq!(different.len(), 3);
    }

    #[test]
    fn a_thread_ends_with_its_owner() {
        let threads = Threads::start(0, "one").unwrap();
        let (send, receive) = mpsc::channel::<()>();
        threads.first().spawn(async move {
            let _kept = send;
            std::future::pending::<()>().await;
        });
        drop(threads);
        // The task went with the thread, and what it held.
        let ended = receive.recv_timeout(PATIENCE);
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
