//! DeleteTopics, to the controller.

use ottla_protocol::messages::DeleteTopicsRequest;
use ottla_protocol::messages::delete_topics_request::DeleteTopicState;
use ottla_protocol::{ApiKey, ErrorCode};

use super::interface::{Effect, Retry, results};
use super::{About, Asked, Call, Target, TopicKey, controller};
use crate::api::{Request, Response};
use crate::error::Error;

/// Deletes topics. An item is a topic.
#[derive(Clone, Debug)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicKey>,
    /// How long the broker may take, in ms.
    pub timeout_ms: i32,
}

/// The first version that names topics by their ids.
const BY_ID: i16 = 6;

impl Call for DeleteTopics {
    type Found = ();
    type Answer = Vec<Result<(), Error>>;
    const API: ApiKey = ApiKey::DeleteTopics;

    fn versions(&self) -> (i16, i16) {
        let by_id = self.topics.iter().any(|it| matches!(it, TopicKey::Id(_)));
        (if by_id { BY_ID } else { 0 }, i16::MAX)
    }

    fn items(&self) -> usize {
        self.topics.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let topics = items.iter().filter_map(|item| self.topics.get(*item));
        let mut request = DeleteTopicsRequest {
            timeout_ms: self.timeout_ms,
            ..Default::default()
        };
        let fields = topics.map(TopicKey::fields);
        if about.version < BY_ID {
            request.topic_names = fields.filter_map(|(name, _)| name).collect();
        } else {
            let topics = fields.map(|(name, topic_id)| DeleteTopicState {
                name,
                topic_id,
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
            let topic = self.topics.get(asked.item)?;
            let mut rows = answer.responses.iter();
            let row = rows.find(|row| topic.is(row.name.as_deref(), row.topic_id))?;
            let code = ErrorCode(row.error_code);
            let unknown = [
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode::UNKNOWN_TOPIC_ID,
            ];
            let explains = asked.repeated && unknown.contains(&code);
            let text = row.error_message.as_deref();
            Some(controller::result(
                topic,
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
        match self.topics.get(item)? {
            TopicKey::Name(name) => Some(Effect::Deleted(name)),
            TopicKey::Id(_) => None,
        }
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}
