//! CreateTopics, to the controller.

use ottla_protocol::messages::CreateTopicsRequest;
use ottla_protocol::messages::create_topics_request::CreatableTopic;
use ottla_protocol::{ApiKey, ErrorCode};

use super::interface::{Effect, Retry, results};
use super::{About, Asked, Call, Target, TopicKey, controller};
use crate::api::{Request, Response};
use crate::error::Error;

/// Creates topics, or only checks whether they could be. An item is a topic.
#[derive(Clone, Debug)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<CreatableTopic>,
    /// Whether nothing is created.
    pub validate_only: bool,
    /// How long the broker may take, in ms.
    pub timeout_ms: i32,
}

impl Call for CreateTopics {
    type Found = ();
    type Answer = Vec<Result<(), Error>>;
    const API: ApiKey = ApiKey::CreateTopics;

    fn items(&self) -> usize {
        self.topics.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let topics = items.iter().filter_map(|item| self.topics.get(*item));
        Request::CreateTopics(CreateTopicsRequest {
            topics: topics.cloned().collect(),
            timeout_ms: self.timeout_ms,
            validate_only: self.validate_only,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::CreateTopics(answer) = response else {
            return Vec::new();
        };
        let result = |asked: &Asked| {
            let name = &self.topics.get(asked.item)?.name;
            let row = answer.topics.iter().find(|row| row.name == *name)?;
            let code = ErrorCode(row.error_code);
            let may_be_ours = asked.repeated && !self.validate_only;
            let explains = may_be_ours && code == ErrorCode::TOPIC_ALREADY_EXISTS;
            let text = row.error_message.as_deref();
            Some(controller::result(
                &TopicKey::Name(name.to_string()),
                code,
                text,
                explains.then_some("created"),
            ))
        };
        results(items, "a topic", result)
    }

    fn changes(&self) -> bool {
        !self.validate_only
    }

    fn effect(&self, item: usize) -> Option<Effect<'_>> {
        let topic = self.topics.get(item).filter(|_| !self.validate_only)?;
        Some(Effect::Created(&topic.name))
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}
