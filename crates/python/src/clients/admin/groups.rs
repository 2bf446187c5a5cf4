//! Groups: listings, descriptions and members.

use ottla_client::admin::{Each, GroupDescription, GroupListing, MemberDescription};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

use super::results::all;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::values::partitions::topic_partitions;

pub(super) fn listed(py: Python<'_>, groups: Vec<GroupListing>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "GroupListing")?;
    let rows = groups.into_iter().map(|group| {
        class.guarded_call((
            group.group_id,
            group.protocol_type,
            group.state,
            group.group_type,
        ))
    });
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    Ok(rows.into_pyobject(py)?.into_any().unbind())
}

pub(super) fn described(
    py: Python<'_>,
    each: Each<String, GroupDescription>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "GroupDescription")?;
    let described = PyDict::new(py);
    for (id, found) in all(py, each)? {
        let members = found
            .members
            .iter()
            .map(|member| described_member(py, member));
        let members = members.collect::<PyResult<Vec<_>>>()?;
        let group = class.guarded_call((
            found.group_id,
            found.state,
            found.protocol_type,
            found.protocol,
            members,
            found.epochs.map(|it| it.group),
            found.epochs.map(|it| it.assignment),
        ))?;
        described.set_item(id, group)?;
    }
    Ok(described.into_any().unbind())
}

fn described_member<'py>(
    py: Python<'py>,
    member: &MemberDescription,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let assignment = member.assignment.as_deref();
    let assignment = assignment.map(|partitions| topic_partitions(py, partitions));
    let target = member.target.as_deref();
    let target = target.map(|partitions| topic_partitions(py, partitions));
    let topics = member.topics.as_deref();
    let topics: Option<Vec<&str>> = topics.map(|it| it.iter().map(|topic| &**topic).collect());
    calls::class(&CLASS, py, "ottla._types", "MemberDescription")?.guarded_call((
        &member.member_id,
        member.group_instance_id.as_deref(),
        &member.client_id,
        &member.client_host,
        assignment.transpose()?,
        PyBytes::new(py, &member.metadata),
        PyBytes::new(py, &member.assignment_data),
        topics,
        member.regex.as_deref(),
        member.rack.as_deref(),
        member.epoch,
        target.transpose()?,
    ))
}
