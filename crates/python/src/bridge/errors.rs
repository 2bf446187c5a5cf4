//! From the core's errors to the exceptions of `ottla.errors`, in this one place.

use ottla_client::{Error, Kind, Written};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// The party at fault, as the word that Python code sees as `KafkaError.kind`.
const KINDS: [(Kind, &str); 19] = [
    (Kind::Config, "config"),
    (Kind::Argument, "argument"),
    (Kind::TooLarge, "too_large"),
    (Kind::Unreachable, "unreachable"),
    (Kind::Unresolved, "unreachable"),
    (Kind::NotKafka, "not_kafka"),
    (Kind::Authentication, "authentication"),
    (Kind::Timeout, "timeout"),
    (Kind::Broker, "broker"),
    (Kind::Unsupported, "unsupported"),
    (Kind::Protocol, "protocol"),
    (Kind::Corrupt, "corrupt"),
    (Kind::Truncated, "truncated"),
    (Kind::Closed, "closed"),
    (Kind::Abortable, "abortable"),
    (Kind::CommitFailed, "commit_failed"),
    (Kind::Fenced, "fenced"),
    (Kind::Fatal, "fatal"),
    (Kind::OutcomeUnknown, "outcome_unknown"),
];

fn kind_name(kind: Kind) -> &'static str {
    let found = KINDS.iter().find(|(known, _)| *known == kind);
    // `Kind` may grow; until the table has it, the code and the text have the rest.
    found.map_or("broker", |(_, name)| *name)
}

/// The words of all kinds, so that a test can hold the classes of `ottla.errors` against them.
#[pyfunction]
pub(crate) fn error_kinds() -> Vec<&'static str> {
    KINDS.iter().map(|(_, name)| *name).collect()
}

/// The Python exception of an error. Its class shows what a handler would do.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    facts(py, error)
        .and_then(|facts| build(py, &error.to_string(), facts))
        .map_or_else(|failure| failure, PyErr::from_value)
}

fn facts<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("kind", kind_name(error.kind()))?;
    facts.set_item("cause", error.message())?;
    facts.set_item("retriable", error.is_retriable())?;
    facts.set_item("attempts", error.attempts())?;
    facts.set_item("may_be_done", error.may_have_been_done())?;
    facts.set_item("broker", error.broker())?;
    facts.set_item("api", error.api())?;
    facts.set_item("topic", error.topic())?;
    facts.set_item("partition", error.partition())?;
    if let Some(code) = error.code() {
        facts.set_item("code", code.0)?;
        facts.set_item("name", code.name())?;
    }
    let damage = error.damage();
    if let Some(damage) = damage.filter(|_| error.kind() == Kind::Corrupt) {
        facts.set_item("offset", damage.offset)?;
        facts.set_item("next_offset", damage.next_offset)?;
        facts.set_item("data", PyBytes::new(py, &damage.data))?;
    }
    if let Some(truncation) = error.truncation() {
        let epoch = |epoch: i32| (epoch >= 0).then_some(epoch);
        facts.set_item("offset", truncation.offset)?;
        facts.set_item("leader_epoch", epoch(truncation.leader_epoch))?;
        if let Some((offset, before)) = truncation.divergent {
            facts.set_item("divergent_offset", offset)?;
            facts.set_item("divergent_epoch", epoch(before))?;
        }
    }
    if error.written() == Some(Written::No) {
        facts.set_item("written", false)?;
    }
    Ok(facts)
}

fn build<'py>(
    py: Python<'py>,
    text: &str,
    facts: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static FROM_NATIVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = calls::class(&FROM_NATIVE, py, "ottla.errors", "_from_native")?;
    function.guarded_call((text, facts))
}

/// Adds a note to an error where Python has notes, since 3.11.
pub(crate) fn note(py: Python<'_>, error: &PyErr, text: &str) -> PyResult<()> {
    let (value, add_note) = (error.value(py), intern!(py, "add_note"));
    if value.guarded_has(add_note)? {
        value.guarded_method(add_note, (text,))?;
    }
    Ok(())
}

/// An exception that the binding itself has reason to raise, of the class that `kind` names.
fn own(kind: &'static str, text: &str) -> PyErr {
    Python::attach(|py| {
        let facts = PyDict::new(py);
        let made = facts
            .set_item("kind", kind)
            .and_then(|()| facts.set_item("cause", text))
            .and_then(|()| build(py, text, facts));
        made.map_or_else(|failure| failure, PyErr::from_value)
    })
}

/// For an object that crossed a fork.
pub(crate) fn forked(what: &str) -> PyErr {
    own(
        "forked",
        &format!(
            "this {what} was made before the process was forked, and connections and threads do not cross a fork: make it in \
             the child, or start children with multiprocessing's \"spawn\" method"
        ),
    )
}

/// For a client that was closed.
pub(crate) fn closed() -> PyErr {
    own("closed", "the client is closed")
}

/// For an argument that can never work.
pub(crate) fn argument(text: &str) -> PyErr {
    own("argument", text)
}

/// For values that do not encode, and bytes that do not decode.
pub(crate) fn protocol(error: &impl std::fmt::Display) -> PyErr {
    own("protocol", &error.to_string())
}

/// For records that are damaged.
pub(crate) fn corrupt(text: &str) -> PyErr {
    own("corrupt", text)
}

/// For a record that does not fit a schema.
pub(crate) fn undecodable(
    topic: &str,
    partition: i32,
    offset: i64,
    column: &str,
    reason: &impl std::fmt::Display,
) -> PyErr {
    let text = format!(
        "the record at offset {offset} of partition {partition} of topic {topic:?} does not decode: {reason}; to go on without \
         such records, decode with mode=\"permissive\" or mode=\"drop\""
    );
    Python::attach(|py| {
        let facts = PyDict::new(py);
        let made = facts
            .set_item("kind", "decode")
            .and_then(|()| facts.set_item("cause", reason.to_string()))
            .and_then(|()| facts.set_item("topic", topic))
            .and_then(|()| facts.set_item("partition", partition))
            .and_then(|()| facts.set_item("offset", offset))
            .and_then(|()| facts.set_item("column", column))
            .and_then(|()| build(py, &text, facts));
        made.map_or_else(|failure| failure, PyErr::from_value)
    })
}

/// For a row that does not fit a schema.
pub(crate) fn unencodable(row: usize, column: &str, reason: &impl std::fmt::Display) -> PyErr {
    let text = format!("row {row} does not fit the schema: {reason}");
    Python::attach(|py| {
        let facts = PyDict::new(py);
        let made = facts
            .set_item("kind", "encode")
            .and_then(|()| facts.set_item("cause", reason.to_string()))
            .and_then(|()| facts.set_item("row", row))
            .and_then(|()| facts.set_item("column", column))
            .and_then(|()| build(py, &text, facts));
        made.map_or_else(|failure| failure, PyErr::from_value)
    })
}

/// For an option that is wrong in a way that only the binding can see.
pub(crate) fn config(text: &str) -> PyErr {
    own("config", text)
}
