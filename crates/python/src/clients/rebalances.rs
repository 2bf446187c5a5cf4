//! Rebalances of a group, as listeners in Python are called with them.

use ottla_client::{GroupMetadata, Listeners, Pattern, Polled, Rebalance, Selection, TopicRead};
use ottla_protocol::Uuid;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::values::partitions::Partition;
use crate::values::scalars::names;

/// A listener, and the partitions that it is to be called with.
pub(crate) type Listener = (Py<PyAny>, Vec<Py<PyAny>>);

/// What a listener is called for.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Assigned,
    Revoked,
    Lost,
}

impl Kind {
    pub(crate) fn of(change: Rebalance) -> (Kind, Vec<Partition>) {
        match change {
            Rebalance::Assigned(partitions) => (Kind::Assigned, partitions),
            Rebalance::Revoked(partitions) => (Kind::Revoked, partitions),
            Rebalance::Lost(partitions) => (Kind::Lost, partitions),
        }
    }
}

/// The listeners of one subscription.
#[derive(Default)]
pub(crate) struct Callables {
    assign: Option<Py<PyAny>>,
    revoke: Option<Py<PyAny>>,
    lost: Option<Py<PyAny>>,
}

impl Callables {
    /// # Errors
    /// `TypeError` if one cannot be called.
    pub(crate) fn new(
        on_assign: Option<&Bound<'_, PyAny>>,
        on_revoke: Option<&Bound<'_, PyAny>>,
        on_lost: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Callables> {
        let checked = |name: &str, given: Option<&Bound<'_, PyAny>>| match given {
            Some(given) if !given.is_callable() => {
                let text = format!("{name} must be a function that takes a list of partitions");
                Err(PyTypeError::new_err(text))
            }
            given => Ok(given.map(|given| given.clone().unbind())),
        };
        Ok(Callables {
            assign: checked("on_assign", on_assign)?,
            revoke: checked("on_revoke", on_revoke)?,
            lost: checked("on_lost", on_lost)?,
        })
    }

    /// Which rebalances somebody listens to.
    pub(crate) fn wanted(&self) -> Listeners {
        Listeners {
            assigned: self.assign.is_some(),
            revoked: self.revoke.is_some(),
            lost: self.lost.is_some() || self.revoke.is_some(),
        }
    }

    /// The listener to call. For lost partitions it is the listener for revoked ones, if there is
    /// no other.
    pub(crate) fn get(&self, py: Python<'_>, kind: Kind) -> Option<Py<PyAny>> {
        let listener = match kind {
            Kind::Assigned => self.assign.as_ref(),
            Kind::Revoked => self.revoke.as_ref(),
            Kind::Lost => self.lost.as_ref().or(self.revoke.as_ref()),
        };
        listener.map(|listener| listener.clone_ref(py))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for listener in [&self.assign, &self.revoke, &self.lost] {
            visit.call(listener)?;
        }
        Ok(())
    }
}

/// Whether it is a `SubscriptionPattern`, which the group's coordinator matches.
pub(crate) fn is_for_coordinator(topics: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, topics.py(), "ottla._types", "SubscriptionPattern")?;
    topics.guarded_is_instance(class)
}

/// Topics by name, a compiled pattern, or one that the coordinator matches.
pub(crate) fn selection(topics: &Bound<'_, PyAny>) -> PyResult<Selection> {
    let py = topics.py();
    if is_for_coordinator(topics)? {
        let text: String = topics.extract()?;
        if text.is_empty() {
            return Err(errors::argument(
                "an empty SubscriptionPattern matches no topic: write what their names match, such as \"flights-.*\"",
            ));
        }
        return Ok(Selection::Regex(text.into()));
    }
    if topics.guarded_has(intern!(py, "fullmatch"))? {
        let text: String = topics
            .guarded_attribute(intern!(py, "pattern"))?
            .extract()?;
        let flags: u32 = topics.guarded_attribute(intern!(py, "flags"))?.extract()?;
        let pattern = Pattern::parse(&format!("{}{text}", inline_flags(flags)?));
        return pattern
            .map(Selection::Pattern)
            .map_err(|error| errors::to_python(py, &error));
    }
    let names = names(topics)?;
    if let Some(name) = names.iter().find(|name| name.starts_with('^')) {
        let text = format!(
            "{name:?} is no topic: write subscribe(re.compile({name:?})) for a pattern, or SubscriptionPattern({name:?}) for \
                     one that brokers match"
        );
        return Err(errors::argument(&text));
    }
    let names = names.iter().map(|name| name.as_str().into());
    Ok(Selection::Names(names.collect()))
}

/// The flags of a Python pattern that mean the same here.
fn inline_flags(flags: u32) -> PyResult<&'static str> {
    const IGNORECASE: u32 = 2;
    const UNICODE: u32 = 32;
    const ASCII: u32 = 256;
    match flags & !(UNICODE | ASCII) {
        0 => Ok(""),
        IGNORECASE => Ok("(?i)"),
        _ => Err(errors::argument(
            "of a pattern's flags only re.IGNORECASE, re.ASCII and re.UNICODE are supported",
        )),
    }
}

/// Whether listeners have to be called before an operation is done.
#[expect(clippy::needless_pass_by_value, reason = "what an operation brought")]
pub(crate) fn must_tell(py: Python<'_>, polled: Polled<()>) -> PyResult<Py<PyAny>> {
    let tells = matches!(polled, Polled::Rebalance);
    Ok(tells.into_pyobject(py)?.to_owned().into_any().unbind())
}

/// A `GroupMetadata`, which has the topics that the consumer has read on it.
pub(crate) fn metadata(
    py: Python<'_>,
    found: &GroupMetadata,
    reads: &[TopicRead],
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "GroupMetadata")?;
    let instance = found.instance_id.as_deref();
    let made =
        class.guarded_call((&*found.group, found.generation, &*found.member_id, instance))?;
    let rows = reads.iter().map(|read| {
        let id = PyBytes::new(py, &read.topic_id.0);
        (&*read.topic, read.partition, id, read.end)
    });
    made.setattr(
        intern!(py, "_reads"),
        PyTuple::new(py, rows.collect::<Vec<_>>())?,
    )?;
    Ok(made.unbind())
}

/// The topics that a consumer has read, of its `GroupMetadata`; none of a group's name.
pub(crate) fn reads(given: &Bound<'_, PyAny>) -> PyResult<Vec<TopicRead>> {
    let Some(rows) = given.guarded_optional(intern!(given.py(), "_reads"))? else {
        return Ok(Vec::new());
    };
    let rows: Vec<(String, i32, [u8; 16], i64)> = rows.extract()?;
    let read = |(topic, partition, id, end): (String, i32, [u8; 16], i64)| TopicRead {
        topic: topic.into(),
        partition,
        topic_id: Uuid(id),
        end,
    };
    Ok(rows.into_iter().map(read).collect())
}

/// A group's name, or a `GroupMetadata`.
///
/// # Errors
/// `ArgumentError` if the `GroupMetadata` names nobody: brokers would take offsets from whoever names nobody, also from a member that
/// was replaced.
pub(crate) fn member(given: &Bound<'_, PyAny>) -> PyResult<GroupMetadata> {
    if let Ok(group) = given.extract::<String>() {
        return Ok(GroupMetadata::outside(group.into()));
    }
    let fields = given.extract::<(String, i32, String, Option<String>)>();
    let (group, generation, member_id, instance_id) = fields.map_err(|_| {
        PyTypeError::new_err(
            "group must be a group's name, or what consumer.group_metadata() returns",
        )
    })?;
    if generation < 0 && member_id.is_empty() {
        return Err(errors::argument(&format!(
            "the consumer is not a member of group {group} yet: call group_metadata() after a poll has brought an assignment. Where \
             partitions are assigned by hand, pass the group's name"
        )));
    }
    Ok(GroupMetadata {
        group: group.into(),
        generation,
        member_id: member_id.into(),
        instance_id: instance_id.map(Into::into),
    })
}
