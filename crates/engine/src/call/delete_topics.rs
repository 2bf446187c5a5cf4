//! DeleteTopics, to the controller.

use ottla_protocol::messages::DeleteTopicsRequest;
use ottla_protocol::messages::delete_topics_request::DeleteTopicState;
use ottla_protocol::{ApiKey, ErrorCode};

use super::interface::{Effect, Retry, results};
use super::{About, Asked, Call, Target, controller};
use crate::api::{Request, Response};
use crate::error::Error;

/// Deletes topics. An item is a topic.
#[derive(Clone, Debug)]
pub struct DeleteTopics {
    /// The topics' names.
    pub names: Vec<String>,
    /// How long the broker may take, in ms.
    pub timeout_ms: i32,
}

impl Call for DeleteTopics {
    type Found = ();
    type Answer = Vec<Result<(), Error>>;
    const API: ApiKey = ApiKey::DeleteTopics;

    fn items(&self) -> usize {
        self.names.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let names = items.iter().filter_map(|item| self.names.get(*item));
        let mut request = DeleteTopicsRequest {
            timeout_ms: self.timeout_ms,
            ..Default::default()
        };
        if about.version < 6 {
            request.topic_names = names.map(|name| name.as_str().into()).collect();
        } else {
            let topics = names.map(|name| DeleteTopicState {
                name: Some(name.as_str().into()),
                ..Default::default()
            });
            request.topics = topics.collect();
        }
        Request::DeleteTopics(request)
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::DeleteTopics(answer) = response else {
            return Vec::new();
        };
        let result = |asked: &Asked| {
            let name = self.names.get(asked.item)?.as_str();
            let row = answer
                .responses
                .iter()
                .find(|row| row.name.as_deref() == Some(name))?;
            let code = ErrorCode(row.error_code);
            let explains = asked.repeated && code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let text = row.error_message.as_deref();
            Some(controller::result(
                name,
                code,
                text,
                explains.then_some("deleted"),
            ))
        };
        results(items, "a topic", result)
    }

    fn changes(&self) -> bool {
        true
    }

    fn effect(&self, item: usize) -> Option<Effect<'_>> {
        self.names.get(item).map(|name| Effect::Deleted(name))
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}
