//! What all doors of a run share: what befalls the exchanges that pass there, and what a defective broker remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::consumer_group_heartbeat_response::Assignment;
use ottla_protocol::{ApiKey, ErrorCode};

use crate::chance::Chance;
use crate::plant::Plant;
use crate::tally::Tally;

/// What happens to one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The request is not applied, and refused with this code.
    Refused(ErrorCode),
    /// The request is applied, and the response has this code.
    AppliedYet(ErrorCode),
    /// The response comes later.
    Late(Duration),
    /// The connection is closed after this many bytes of the response.
    CutAfter(usize),
    /// The request is applied, and the connection closed instead of a response.
    Lost,
    /// The connection is closed, and the request is not applied.
    ClosedBefore,
    /// The connection is closed after the response.
    ClosedAfter,
    /// The request is applied and never gets a response.
    Silence,
    /// The request is neither applied nor gets a response.
    Swallowed,
    /// The response comes twice.
    Twice,
    /// The response has another correlation id.
    OutOfStep,
    /// The response comes in single bytes.
    Bytewise,
    /// The response has a throttle time.
    Throttled(i32),
}

impl Trouble {
    /// Its name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Refused(_) => "response: refused",
            Trouble::AppliedYet(_) => "response: applied, yet refused",
            Trouble::Late(_) => "response: late",
            Trouble::CutAfter(_) => "response: cut",
            Trouble::Lost => "response: lost, connection closed",
            Trouble::ClosedBefore => "request: closed before",
            Trouble::ClosedAfter => "response: closed after",
            Trouble::Silence => "response: never",
            Trouble::Swallowed => "request: lost",
            Trouble::Twice => "response: twice",
            Trouble::OutOfStep => "response: wrong correlation id",
            Trouble::Bytewise => "response: byte by byte",
            Trouble::Throttled(_) => "response: throttled",
        }
    }

    /// Whether the broker sees the request.
    pub(crate) fn applies(self) -> bool {
        !matches!(
            self,
            Trouble::Refused(_) | Trouble::ClosedBefore | Trouble::Swallowed
        )
    }
}

/// Troubles that wait for a request at one node.
#[derive(Clone, Debug, Default)]
pub struct Armed(Vec<(ApiKey, Trouble, u32)>);

impl Armed {
    /// The next `count` requests of this API get into trouble.
    pub fn arm(&mut self, api: ApiKey, trouble: Trouble, count: u32) {
        self.0.push((api, trouble, count));
    }

    /// No trouble any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The trouble of the next request of this API.
    pub(crate) fn take(&mut self, key: ApiKey) -> Option<Trouble> {
        let at = self.0.iter().position(|(api, _, _)| *api == key)?;
        let (_, trouble, left) = self.0.get_mut(at)?;
        let trouble = *trouble;
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.0.remove(at);
        }
        Some(trouble)
    }
}

/// What all gates of a run share.
#[derive(Debug, Default)]
pub struct Keeper {
    /// By node.
    pub armed: BTreeMap<i32, Armed>,
    /// Nodes that support no Fetch whose response contains where logs diverge.
    pub old_fetch: BTreeSet<i32>,
    /// What a planted defect does.
    pub plant: Option<Plant>,
    pub(crate) count: u32,
    /// The random numbers for the responses of malicious brokers; `None` where brokers are sound.
    pub lies: Option<Chance>,
    /// How many there were.
    pub lied: u64,
    /// The next offset of each partition, by the responses to Produce.
    pub(crate) ends: BTreeMap<(String, i32), i64>,
    /// Whether the states in the responses for transactions and groups are counted, and how often
    /// each came.
    pub counts: bool,
    /// See there.
    pub tally: Tally,
    /// The last epoch that each producer id got from InitProducerId, and the last identity of each transactional id.
    pub(crate) epochs: BTreeMap<i64, i16>,
    pub(crate) identities: BTreeMap<String, (i64, i16)>,
    /// The newest generation, or epoch of a member, of each group with the id of one of its members, and the last assignment that it gave.
    pub(crate) generations: BTreeMap<String, (i32, String)>,
    pub(crate) assignments: BTreeMap<String, Bytes>,
    /// As those, of groups whose coordinators assign.
    pub(crate) targets: BTreeMap<String, Assignment>,
}

impl Keeper {
    /// No trouble, and perhaps a planted defect.
    pub fn new(plant: Option<Plant>) -> Keeper {
        Keeper {
            plant,
            ..Keeper::default()
        }
    }

    /// True every `n`th time.
    pub(crate) fn every(&mut self, n: u32) -> bool {
        self.count = self.count.wrapping_add(1);
        self.count.is_multiple_of(n)
    }
}
