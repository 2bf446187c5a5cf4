//! ShareGroupHeartbeat: the only request of a member of a share group to its coordinator, and its
//! response (KIP-932). A part sends it without retries and handles errors itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use ottla_protocol::{ApiKey, ErrorCode};

use super::consumer_heartbeat::Standing;
use super::interface::only;
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::error::{Error, Kind};

/// What a member sends to the coordinator of its group. The epoch is 0 to join, and -1 to leave.
#[derive(Clone, Debug)]
pub(crate) struct ShareGroupHeartbeat {
    pub(crate) group: Arc<str>,
    pub(crate) member_id: Arc<str>,
    pub(crate) epoch: i32,
    pub(crate) rack: Option<Arc<str>>,
    /// The topics that it wants; `None` if the coordinator knows them.
    pub(crate) topics: Option<BTreeSet<Arc<str>>>,
}

impl Call for ShareGroupHeartbeat {
    type Found = Standing;
    type Answer = Standing;
    const API: ApiKey = ApiKey::ShareGroupHeartbeat;

    fn target(&self, _: usize) -> Target {
        Target::Coordinator(CoordinatorType::Group, Arc::clone(&self.group))
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let topics = self.topics.as_ref();
        Request::ShareGroupHeartbeat(ShareGroupHeartbeatRequest {
            group_id: (&*self.group).into(),
            member_id: (&*self.member_id).into(),
            member_epoch: self.epoch,
            rack_id: self.rack.as_deref().map(Into::into),
            subscribed_topic_names: topics
                .map(|topics| topics.iter().map(|topic| (&**topic).into()).collect()),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Standing, Error>> {
        match response {
            Response::ShareGroupHeartbeat(answer) => vec![self.standing(&answer)],
            _ => Vec::new(),
        }
    }

    fn merge(self, found: Vec<Result<Standing, Error>>) -> Result<Standing, Error> {
        only(found, "the member")
    }
}

impl ShareGroupHeartbeat {
    fn standing(&self, answer: &ShareGroupHeartbeatResponse) -> Result<Standing, Error> {
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let detail = answer.error_message.as_deref();
            return Err(Error::from_code(code, detail).with_group(&self.group));
        }
        if self.epoch >= 0 && answer.member_epoch <= 0 {
            let epoch = answer.member_epoch;
            let text = format!("the coordinator names {epoch} as the member's epoch");
            return Err(Error::new(Kind::Protocol, text).with_group(&self.group));
        }
        let interval = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(0);
        let assigned = answer.assignment.as_ref().map(|assignment| {
            let topics = assignment.topic_partitions.iter();
            let partitions = topics.flat_map(|topic| {
                let numbers = topic.partitions.iter().filter(|number| **number >= 0);
                numbers.map(|number| (topic.topic_id, *number))
            });
            partitions.filter(|(id, _)| !id.is_zero()).collect()
        });
        Ok(Standing {
            epoch: answer.member_epoch,
            interval: Duration::from_millis(interval),
            assigned,
        })
    }
}
