//! Partition assignors in Python: the arguments of their calls, and the results.
//!
//! A poll calls them as it calls listeners; `ottla._assignors` has them on threads of their own,
//! with a deadline.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ottla_client::assignor::{Member, Question, Reply};
use ottla_client::config::{Config, CustomAssignor, OfferedAssignor, offered_assignors};
use ottla_client::{Consumer, Error, Kind, QuestionId};
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::records::decoder::Decoder;
use crate::values::partitions::{pairs, topic_partition};

/// The assignors that a consumer was given, by name.
#[derive(Default)]
pub(crate) struct Assignors(Vec<(Arc<str>, Py<PyAny>)>);

impl Assignors {
    /// Offers what `partition_assignment_strategy` lists, names and assignors.
    pub(crate) fn offer(config: &mut Config, given: &Bound<'_, PyAny>) -> PyResult<Assignors> {
        let py = given.py();
        config
            .group_protocol
            .check_uses("partition.assignment.strategy")
            .map_err(|error| wrong(&error.problem))?;
        let mut assignors = Assignors::default();
        let mut offered = Vec::new();
        for each in listed(given)? {
            if let Ok(name) = each.cast::<PyString>() {
                offered.push(OfferedAssignor::Name(name.to_str()?.to_owned()));
                continue;
            }
            if !is_assignor(&each)? {
                let found = each.get_type().name()?;
                return Err(wrong(&format!(
                    "must be names and ottla.Assignor objects, and one is {found}"
                )));
            }
            let name: String = each.guarded_attribute(intern!(py, "name"))?.extract()?;
            let protocol: String = each.guarded_attribute(intern!(py, "protocol"))?.extract()?;
            let cooperates = match protocol.as_str() {
                "eager" => false,
                "cooperative" => true,
                other => {
                    return Err(wrong(&format!(
                        "the protocol of assignor {name:?} must be eager or cooperative, and is {other:?}"
                    )));
                }
            };
            let name: Arc<str> = name.into();
            assignors.0.push((Arc::clone(&name), each.unbind()));
            offered.push(OfferedAssignor::Custom(CustomAssignor { name, cooperates }));
        }
        let (names, customs) = offered_assignors(offered).map_err(|text| wrong(&text))?;
        config.partition_assignment_strategy = names;
        config.assignors = customs;
        Ok(assignors)
    }

    /// Of each name its assignor.
    pub(crate) fn by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, assignor) in &self.0 {
            found.set_item(&**name, assignor)?;
        }
        Ok(found)
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .iter()
            .try_for_each(|(_, assignor)| visit.call(assignor))
    }
}

/// Whether a property is more than text: an assignor, or a list with one.
pub(crate) fn has_assignors(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    if given.is_instance_of::<PyString>() {
        return Ok(false);
    }
    for each in listed(given)? {
        if is_assignor(&each)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn listed<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        given.guarded_items()?.collect()
    } else {
        Ok(vec![given.clone()])
    }
}

fn is_assignor(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, given.py(), "ottla._assignors", "Assignor")?;
    given.guarded_is_instance(class)
}

fn wrong(text: &str) -> PyErr {
    errors::config(&format!("partition_assignment_strategy: {text}"))
}

/// A member's call of its assignors. Without a result the member tries again after a pause.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct AssignorQuestion {
    client: Consumer<Decoder>,
    question: Question,
    id: Mutex<Option<QuestionId>>,
}

impl AssignorQuestion {
    pub(crate) fn new(client: Consumer<Decoder>, (id, question): (QuestionId, Question)) -> Self {
        AssignorQuestion {
            client,
            question,
            id: Mutex::new(Some(id)),
        }
    }

    fn tell(&self, reply: Result<Reply, Error>) {
        let id = self.id.lock().take();
        if let Some(id) = id {
            self.client.answer(id, reply);
        }
    }
}

#[pymethods]
impl AssignorQuestion {
    /// The names of the assignors whose `subscription_user_data` is called.
    #[getter]
    fn subscribes(&self) -> Vec<String> {
        match &self.question {
            Question::Subscribe { assignors, .. } => {
                assignors.iter().map(ToString::to_string).collect()
            }
            Question::Assign { .. } => Vec::new(),
        }
    }

    /// The name of the assignor whose `assign` is called.
    #[getter]
    fn assigns(&self) -> Option<&str> {
        match &self.question {
            Question::Subscribe { .. } => None,
            Question::Assign { assignor, .. } => Some(assignor),
        }
    }

    /// The topics, with their numbers of partitions; 0 for a call of `subscription_user_data`.
    #[getter]
    fn topics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let topics = PyDict::new(py);
        match &self.question {
            Question::Subscribe { topics: names, .. } => {
                for name in names {
                    topics.set_item(&**name, 0)?;
                }
            }
            Question::Assign { topics: counts, .. } => {
                for (name, count) in counts {
                    topics.set_item(&**name, *count)?;
                }
            }
        }
        Ok(topics)
    }

    /// What a `GroupMember` is made of, for each member.
    #[getter]
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        match &self.question {
            Question::Subscribe { .. } => Ok(Vec::new()),
            Question::Assign { members, .. } => {
                members.iter().map(|member| described(py, member)).collect()
            }
        }
    }

    /// Pass on the user data that the member sends to each assignor.
    fn answer_subscription(&self, user_data: Vec<Option<Vec<u8>>>) {
        let user_data = user_data.into_iter().map(|each| each.map(Bytes::from));
        self.tell(Ok(Reply::Subscribe(user_data.collect())));
    }

    /// Pass on the partitions of each member.
    fn answer_assignment(&self, assigned: &Bound<'_, PyMapping>) -> PyResult<()> {
        let mut assignments = BTreeMap::new();
        for item in calls::entries(assigned)? {
            let (member, partitions) = item?.extract::<(String, Bound<'_, PyAny>)>()?;
            assignments.insert(Arc::from(member), pairs(&partitions)?);
        }
        self.tell(Ok(Reply::Assign(assignments)));
        Ok(())
    }

    /// Report why there is no result.
    fn fail(&self, text: &str) {
        self.tell(Err(Error::new(Kind::Argument, text)));
    }
}

impl Drop for AssignorQuestion {
    fn drop(&mut self) {
        let text = "its assignor was called and returned nothing";
        self.tell(Err(Error::new(Kind::Argument, text)));
    }
}

fn described<'py>(py: Python<'py>, member: &Member) -> PyResult<Bound<'py, PyTuple>> {
    let told = &member.subscription;
    let owned = told.owned.iter();
    let owned: Vec<_> = owned
        .map(|(topic, partition)| topic_partition(py, topic, *partition))
        .collect::<PyResult<_>>()?;
    let topics: Vec<&str> = told.topics.iter().map(|topic| &**topic).collect();
    let user_data = told.user_data.as_ref().map(|data| PyBytes::new(py, data));
    (
        &*member.id,
        member.instance_id.as_deref(),
        topics,
        owned,
        told.generation,
        told.rack.as_deref(),
        user_data,
    )
        .into_pyobject(py)
}
