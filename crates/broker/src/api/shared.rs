//! What ShareFetch and ShareAcknowledge have in common (KIP-932): the member, its acknowledgements,
//! and the leaders.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ErrorCode, Str, Uuid};

use super::Cx;
use crate::cluster::image::Address;
use crate::core::{Core, ShareFailure};
use crate::now::Now;
use crate::security::acl::{Operation, Resource};
use crate::security::session::Who;
use crate::sharing::{Key, Place, Said, SharingRules};
use crate::topics::Topic;

/// A member of a share group that sends a request.
#[derive(Debug, Clone)]
pub(super) struct Sharer {
    pub(super) group: String,
    pub(super) member: String,
    pub(super) rules: SharingRules,
    who: Who,
}

/// What became of acknowledgements of a partition.
pub(super) type Settled = Result<(), (ShareFailure, Option<&'static str>)>;

impl Sharer {
    /// # Errors
    /// The code for the whole request.
    pub(super) fn new(
        cx: &Cx<'_>,
        group: Option<&Str>,
        member: Option<&Str>,
    ) -> Result<Self, ErrorCode> {
        let text = |text: Option<&Str>| text.map(ToString::to_string).unwrap_or_default();
        let (group, member) = (text(group), text(member));
        cx.check(Operation::Read, Resource::group(&group))?;
        if group.is_empty() || member.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let own = cx.core.group_settings.of(&group);
        Ok(Self {
            rules: cx.core.settings.sharing_rules(&own),
            group,
            member,
            who: cx.who.clone(),
        })
    }

    pub(super) fn key(&self, (topic, partition): Place) -> Key {
        Key {
            group: self.group.clone(),
            topic,
            partition,
        }
    }

    /// A topic that the member may read.
    pub(super) fn topic(&self, core: &Core, id: Uuid) -> Result<Arc<Topic>, ErrorCode> {
        let topic = core.topic_by_id(id)?;
        let resource = Resource::topic(&topic.name);
        let may = core
            .security
            .authorizes(&self.who, Operation::Read, resource);
        may.then_some(topic)
            .ok_or(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    /// Takes its acknowledgements for a partition.
    pub(super) fn acknowledge(
        &self,
        core: &Core,
        place: Place,
        said: &[Said],
        renews: bool,
        now: Now,
    ) -> Settled {
        let plain = |code| ((code, None), None);
        let topic = self.topic(core, place.0).map_err(plain)?;
        let replica = topic.partition(place.1).map_err(plain)?;
        let led = {
            let replica = replica.lock();
            let checked = replica.check(-1);
            checked.map_err(|code| ((code, Some(replica.standing().clone())), None))
        };
        led?;
        let until: Option<Instant> = renews.then(|| now.instant + self.rules.lock);
        let (settled, written) = core.keep_shares(now, |shares| {
            shares.acknowledge(&self.key(place), &self.member, said, until)
        });
        settled.map_err(|(code, message)| ((code, None), Some(message)))?;
        written.map_err(plain)
    }

    /// The session is over: frees what the member has still.
    pub(super) fn leave(&self, core: &Core, now: Now) {
        core.with_shares(now, |shares| {
            shares.sessions.close(&self.group, &self.member);
            shares.release(&self.group, &self.member);
        });
    }

    pub(super) fn lock_ms(&self) -> i32 {
        i32::try_from(self.rules.lock.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Where clients of a listener reach the leaders that failures name.
pub(super) fn endpoints(
    core: &Core,
    listener: usize,
    named: impl Iterator<Item = i32>,
) -> Vec<(i32, Address)> {
    let named: Vec<i32> = named.filter(|leader| *leader >= 0).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let nodes = super::nodes(core, listener).into_iter();
    nodes.filter(|(id, _)| named.contains(id)).collect()
}
