//! Share sessions (KIP-932): a member names its partitions once, and from then on only what changes.
//!
//! ```text
//!   epoch 0 ─────► session of epoch 1 ──── epoch n ────► epoch n + 1
//!                        │ epoch -1; the end of its connection
//!                        ▼
//!                      gone, and what was acquired in it is free
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ottla_protocol::{ErrorCode, Uuid};

/// Of a ShareFetch that begins a session.
pub(crate) const FIRST_EPOCH: i32 = 0;
/// Of a request that ends it.
pub(crate) const LAST_EPOCH: i32 = -1;

/// A topic's id and a partition.
pub(crate) type Place = (Uuid, i32);

/// A request of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    /// The session's id.
    pub(crate) id: u64,
    /// The partitions to be read, in this order.
    pub(crate) places: Vec<Place>,
}

/// All share sessions of a broker.
#[derive(Debug)]
pub(crate) struct ShareSessions {
    /// How many there may be.
    most: usize,
    /// By group and member.
    sessions: BTreeMap<(String, String), Session>,
    last_id: u64,
}

#[derive(Debug)]
struct Session {
    id: u64,
    /// Of the next request.
    epoch: i32,
    places: Vec<Place>,
}

impl ShareSessions {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            sessions: BTreeMap::new(),
            last_id: 0,
        }
    }

    /// A ShareFetch, which may begin a session, with the partitions that it adds and takes away.
    ///
    /// # Errors
    /// The code for the whole request.
    pub(crate) fn fetch(
        &mut self,
        group: &str,
        member: &str,
        epoch: i32,
        added: &[Place],
        forgotten: &[Place],
    ) -> Result<Begun, ErrorCode> {
        let key = (group.to_owned(), member.to_owned());
        if epoch == FIRST_EPOCH {
            if !self.sessions.contains_key(&key) && self.sessions.len() >= self.most {
                return Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
            }
            self.last_id += 1;
            let session = Session {
                id: self.last_id,
                epoch: FIRST_EPOCH,
                places: Vec::new(),
            };
            self.sessions.insert(key.clone(), session);
        }
        let session = self.step(&key, epoch)?;
        // A member may name many, while all others wait for the lock of the shares.
        let mut there: BTreeSet<_> = session.places.iter().copied().collect();
        for place in added {
            if there.insert(*place) {
                session.places.push(*place);
            }
        }
        let forgotten: BTreeSet<_> = forgotten.iter().collect();
        session.places.retain(|place| !forgotten.contains(place));
        // Another partition comes first each time, so that a large one does not starve the rest.
        if !session.places.is_empty() {
            session.places.rotate_left(1);
        }
        Ok(Begun {
            id: session.id,
            places: session.places.clone(),
        })
    }

    /// A ShareAcknowledge, which goes with a session that is there.
    ///
    /// # Errors
    /// The code for the whole request.
    pub(crate) fn acknowledge(
        &mut self,
        group: &str,
        member: &str,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        if epoch == FIRST_EPOCH {
            return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        }
        let key = (group.to_owned(), member.to_owned());
        self.step(&key, epoch).map(drop)
    }

    fn step(&mut self, key: &(String, String), epoch: i32) -> Result<&mut Session, ErrorCode> {
        let session = self.sessions.get_mut(key);
        let session = session.ok_or(ErrorCode::SHARE_SESSION_NOT_FOUND)?;
        if epoch != LAST_EPOCH {
            if epoch != session.epoch {
                return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
            }
            // After the last number comes 1: 0 begins a session.
            session.epoch = epoch.checked_add(1).unwrap_or(1);
        }
        Ok(session)
    }

    /// Ends the session of a member.
    pub(crate) fn close(&mut self, group: &str, member: &str) {
        let key = (group.to_owned(), member.to_owned());
        self.sessions.remove(&key);
    }

    /// Ends the session with this id, if it is there; gives its group and member.
    pub(crate) fn end(&mut self, id: u64) -> Option<(String, String)> {
        let mut sessions = self.sessions.iter();
        let key = sessions.find(|(_, it)| it.id == id).map(|(key, _)| key);
        let key = key.cloned()?;
        self.sessions.remove(&key);
        Some(key)
    }

    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
    }
}
