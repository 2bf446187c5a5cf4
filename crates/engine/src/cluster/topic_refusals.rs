//! Topics that the metadata reports an error for, and what polls raised of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::ErrorCode;

use crate::error::Error;

/// The topics of a consumer that cannot be read, each with its error.
#[derive(Debug, Default)]
pub(crate) struct TopicRefusals(BTreeMap<Arc<str>, Refusal>);

#[derive(Debug)]
struct Refusal {
    error: Error,
    /// How often a poll raised it.
    raised: u32,
}

impl TopicRefusals {
    /// The metadata reports this error for the topic.
    pub(crate) fn insert(&mut self, topic: &Arc<str>, code: ErrorCode) {
        let error = Error::from_code(code, None)
            .calling("Metadata")
            .with_topic(topic)
            .with_retriable(false);
        let error = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => error.adding(
                format_args!("topic {topic:?} does not exist: correct its name, or create it"),
            ),
            _ => error,
        };
        let before = self.0.get(topic).filter(|it| it.error == error);
        let raised = before.map_or(0, |it| it.raised);
        self.0.insert(Arc::clone(topic), Refusal { error, raised });
    }

    pub(crate) fn remove(&mut self, topic: &str) {
        self.0.remove(topic);
    }

    pub(crate) fn retain(&mut self, keeps: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|topic, _| keeps(topic));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Error> {
        self.0.get(topic).map(|it| &it.error)
    }

    /// The error that was raised least often, and how often that was. A denial is raised once: an administrator can lift it.
    pub(crate) fn next(&self) -> Option<(&Error, u32)> {
        let each = self.0.values().map(|it| (&it.error, it.raised));
        each.filter(|(error, raised)| *raised == 0 || !is_denial(error))
            .min_by_key(|(_, raised)| *raised)
    }

    /// A poll raises the topic's error.
    pub(crate) fn note_raised(&mut self, topic: &str) {
        if let Some(refusal) = self.0.get_mut(topic) {
            refusal.raised = refusal.raised.saturating_add(1);
        }
    }

    /// Whether a poll raised that the topic is denied.
    pub(crate) fn is_denial_raised(&self, topic: &str) -> bool {
        let refusal = self.0.get(topic);
        refusal.is_some_and(|it| it.raised > 0 && is_denial(&it.error))
    }
}

/// Whether brokers deny the client a topic.
pub(crate) fn is_denial(error: &Error) -> bool {
    error.code() == Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
}
