//! A client of any kind, as the world sees it.

use std::time::Instant;

use ottla_engine::{Error, LinkId};

use crate::admin::Admin;
use crate::book::Book;
use crate::consumer::Consumer;
use crate::host::{Ending, Out};
use crate::member::Member;
use crate::producer::Producer;
use crate::sharer::Sharer;
use crate::transactor::Transactor;

/// A client of any kind.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a handful in a run")]
pub enum Client {
    /// It sends.
    Producer(Producer),
    /// It reads.
    Consumer(Consumer),
    /// It sends in transactions.
    Transactor(Transactor),
    /// It shares partitions with others of its group.
    Member(Member),
    /// It shares records with others of its group.
    Sharer(Sharer),
    /// It makes calls.
    Admin(Admin),
}

macro_rules! each {
    ($client:expr, $one:ident => $do:expr) => {
        match $client {
            Client::Producer($one) => $do,
            Client::Consumer($one) => $do,
            Client::Transactor($one) => $do,
            Client::Member($one) => $do,
            Client::Sharer($one) => $do,
            Client::Admin($one) => $do,
        }
    };
}

impl Client {
    /// Its name in traces.
    pub fn name(&self) -> &str {
        each!(self, one => one.name())
    }

    /// The producer that it is.
    pub fn producer(&mut self) -> Option<&mut Producer> {
        match self {
            Client::Producer(producer) => Some(producer),
            _ => None,
        }
    }

    /// The consumer that it is.
    pub fn consumer(&mut self) -> Option<&mut Consumer> {
        match self {
            Client::Consumer(consumer) => Some(consumer),
            _ => None,
        }
    }

    /// The transactional producer that it is.
    pub fn transactor(&mut self) -> Option<&mut Transactor> {
        match self {
            Client::Transactor(transactor) => Some(transactor),
            _ => None,
        }
    }

    /// The consumer of a group that it is.
    pub fn member(&mut self) -> Option<&mut Member> {
        match self {
            Client::Member(member) => Some(member),
            _ => None,
        }
    }

    /// The member of a share group that it is.
    pub fn sharer(&mut self) -> Option<&mut Sharer> {
        match self {
            Client::Sharer(sharer) => Some(sharer),
            _ => None,
        }
    }

    /// It stood still, and continues: results that were due meanwhile may come a little later.
    pub fn woke(&mut self, book: &mut Book) {
        if let Client::Transactor(transactor) = self {
            transactor.woke(book);
        }
    }

    /// The admin client that it is.
    pub fn admin(&mut self) -> Option<&mut Admin> {
        match self {
            Client::Admin(admin) => Some(admin),
            _ => None,
        }
    }

    /// A dial was successful, or not.
    pub fn dialled(&mut self, now: Instant, link: LinkId, outcome: Result<(), Error>) {
        each!(self, one => one.host.dialled(now, link, outcome));
    }

    /// Whether it still wants this link.
    pub fn has_link(&self, link: LinkId) -> bool {
        each!(self, one => one.host.has_link(link))
    }

    /// Bytes came in.
    pub fn received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        each!(self, one => one.host.received(now, link, bytes));
    }

    /// A connection ended.
    pub fn ended(&mut self, now: Instant, link: LinkId, ending: Ending) {
        each!(self, one => one.host.ended(now, link, ending));
    }

    /// The next thing to do for it.
    pub fn poll_out(&mut self) -> Option<Out> {
        each!(self, one => one.host.poll_out())
    }

    /// When [`Client::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        each!(self, one => one.next_timeout())
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        each!(self, one => one.alarm(book));
    }

    /// Handles the output of its engine.
    pub fn settle(&mut self, book: &mut Book) {
        each!(self, one => one.settle(book));
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        each!(self, one => one.is_closed())
    }

    /// How often it authenticated again, and was refused by a broker, since the last call.
    pub fn take_logins(&mut self) -> (u64, u64) {
        each!(self, one => one.host.take_logins())
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        each!(self, one => one.host.links())
    }
}
