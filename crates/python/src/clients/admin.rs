//! `AdminCore`, whose methods return operations.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_client::admin::{
    AbortTransaction, ClusterDescription, DelegationToken, Each, GroupDescription, GroupListing,
    MemberDescription, NewTopic, Principal, ProducerIdentity, ProducerState, TopicDescription,
    TopicListing, TransactionDescription, TransactionListing,
};
use ottla_client::{Admin as Client, Role};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyMapping, PyString};

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::{calls, errors, events, runtime};
use crate::clients::lifecycle::{self, Opened};
use crate::clients::{metrics, options};
use crate::values::numbers::{Timeout, seconds, whole};
use crate::values::partitions::{Named, Partition, pairs, topic_partitions};
use crate::values::scalars;
use crate::values::scalars::names;

/// The core of both facades of an admin client. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct AdminCore {
    client: Opened<Client>,
}

fn new_topics(object: &Bound<'_, PyAny>) -> PyResult<Vec<NewTopic>> {
    let one = object.is_instance_of::<PyString>()
        || object.guarded_has(intern!(object.py(), "replication"))?;
    if one {
        Ok(vec![new_topic(object)?])
    } else {
        object
            .guarded_items()?
            .map(|topic| new_topic(&topic?))
            .collect()
    }
}

fn new_topic(object: &Bound<'_, PyAny>) -> PyResult<NewTopic> {
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(NewTopic {
            name: name.to_str()?.to_owned(),
            partitions: 1,
            replication: -1,
            config: BTreeMap::new(),
        });
    }
    let py = object.py();
    if !object.guarded_has(intern!(py, "replication"))? {
        let found = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "a topic to create is a NewTopic or its name, not {}",
            found.qualname()?
        )));
    }
    let mut config = Vec::new();
    let given = object.guarded_attribute(intern!(py, "config"))?;
    if !given.is_none() {
        options::texts(None, given.cast()?, &mut config)?;
    }
    Ok(NewTopic {
        name: object.guarded_attribute(intern!(py, "name"))?.extract()?,
        partitions: whole(
            "partitions of a NewTopic",
            "an int that fits 32 bits",
            &object.guarded_attribute(intern!(py, "partitions"))?,
        )?,
        replication: whole(
            "replication of a NewTopic",
            "an int that fits 16 bits",
            &object.guarded_attribute(intern!(py, "replication"))?,
        )?,
        config: config.into_iter().collect(),
    })
}

/// The results by name or partition: values if all went well, else the first error, with all errors in its `failures`.
fn all<'py, K, T>(py: Python<'py>, each: Each<K, T>) -> PyResult<Vec<(K, T)>>
where
    K: IntoPyObject<'py>,
{
    let mut values = Vec::with_capacity(each.len());
    let mut failures = Vec::new();
    for (name, result) in each {
        match result {
            Ok(value) => values.push((name, value)),
            Err(error) => failures.push((name, errors::to_python(py, &error))),
        }
    }
    let Some((_, first)) = failures.first() else {
        return Ok(values);
    };
    let raised = first.clone_ref(py);
    let errors = PyDict::new(py);
    for (name, error) in failures {
        errors.set_item(name, error.into_value(py))?;
    }
    raised.value(py).setattr("failures", errors)?;
    Err(raised)
}

fn nothing(py: Python<'_>, each: Each<String, ()>) -> PyResult<Py<PyAny>> {
    all(py, each)?;
    Ok(py.None())
}

fn listed(py: Python<'_>, topics: Vec<TopicListing>) -> PyResult<Py<PyAny>> {
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    Ok(names.into_pyobject(py)?.into_any().unbind())
}

fn described(py: Python<'_>, each: Each<String, TopicDescription>) -> PyResult<Py<PyAny>> {
    static TOPIC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static PARTITION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let topic = calls::class(&TOPIC, py, "ottla._types", "TopicDescription")?;
    let partition = calls::class(&PARTITION, py, "ottla._types", "PartitionInfo")?;
    let described = PyDict::new(py);
    for (name, found) in all(py, each)? {
        let partitions = found
            .partitions
            .iter()
            .map(|info| {
                partition.guarded_call((
                    info.partition,
                    info.leader,
                    info.replicas.clone(),
                    info.in_sync.clone(),
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let id = topic_id(py, found.listing.id)?;
        described.set_item(
            &name,
            topic.guarded_call((&name, id, found.listing.internal, partitions))?,
        )?;
    }
    Ok(described.into_any().unbind())
}

fn producing(py: Python<'_>, each: Each<Partition, Vec<ProducerState>>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "ProducerState")?;
    let (partitions, found): (Vec<_>, Vec<_>) = each.into_iter().unzip();
    let each = topic_partitions(py, &partitions)?.into_iter().zip(found);
    let described = PyDict::new(py);
    for (partition, states) in all(py, each.collect())? {
        let states = states
            .iter()
            .map(|state| {
                class.guarded_call((
                    state.producer_id,
                    state.producer_epoch,
                    state.last_sequence,
                    state.last_timestamp_ms,
                    state.coordinator_epoch,
                    state.transaction_start,
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        described.set_item(partition, states)?;
    }
    Ok(described.into_any().unbind())
}

/// Kafka's operations of ACLs by their codes, from 3 on.
const OPERATIONS: [&str; 13] = [
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
];

fn operations<'py>(py: Python<'py>, bits: i32) -> PyResult<Bound<'py, PyFrozenSet>> {
    let named = (3..).zip(OPERATIONS);
    let allowed = named.filter(|(code, _)| bits & (1 << code) != 0);
    PyFrozenSet::new(py, allowed.map(|(_, name)| name))
}

fn described_cluster(py: Python<'_>, found: ClusterDescription) -> PyResult<Py<PyAny>> {
    static CLUSTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static NODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&NODE, py, "ottla._types", "Node")?;
    let mut controller = None;
    let mut nodes = Vec::with_capacity(found.nodes.len());
    for node in found.nodes {
        let made = class.guarded_call((node.id, node.host, node.port, node.rack, node.fenced))?;
        if found.controller == Some(node.id) {
            controller = Some(made.clone());
        }
        nodes.push(made);
    }
    let operations = found.operations.map(|bits| operations(py, bits));
    let class = calls::class(&CLUSTER, py, "ottla._types", "ClusterDescription")?;
    let operations = operations.transpose()?;
    let described = class.guarded_call((found.cluster_id, controller, nodes, operations))?;
    Ok(described.unbind())
}

fn listed_groups(py: Python<'_>, groups: Vec<GroupListing>) -> PyResult<Py<PyAny>> {
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

fn described_groups(py: Python<'_>, each: Each<String, GroupDescription>) -> PyResult<Py<PyAny>> {
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

fn listed_transactions(py: Python<'_>, found: Vec<TransactionListing>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "TransactionListing")?;
    let rows = found
        .into_iter()
        .map(|row| class.guarded_call((row.transactional_id, row.producer_id, row.state)));
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    Ok(rows.into_pyobject(py)?.into_any().unbind())
}

fn described_transactions(
    py: Python<'_>,
    each: Each<String, TransactionDescription>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "TransactionDescription")?;
    let described = PyDict::new(py);
    for (id, found) in all(py, each)? {
        let transaction = class.guarded_call((
            found.transactional_id,
            found.state,
            found.producer_id,
            found.producer_epoch,
            found.timeout_ms,
            found.started_ms,
            topic_partitions(py, &found.partitions)?,
        ))?;
        described.set_item(id, transaction)?;
    }
    Ok(described.into_any().unbind())
}

fn fenced(py: Python<'_>, each: Each<String, ProducerIdentity>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "FencedProducer")?;
    let fenced = PyDict::new(py);
    for (id, now) in all(py, each)? {
        fenced.set_item(id, class.guarded_call((now.id, now.epoch))?)?;
    }
    Ok(fenced.into_any().unbind())
}

fn principal((kind, name): (String, String)) -> Principal {
    Principal { kind, name }
}

fn pair(principal: &Principal) -> (&str, &str) {
    (&principal.kind, &principal.name)
}

fn token<'py>(py: Python<'py>, token: &DelegationToken) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let renewers: Vec<_> = token.renewers.iter().map(pair).collect();
    calls::class(&CLASS, py, "ottla._types", "DelegationToken")?.guarded_call((
        &token.id,
        PyBytes::new(py, &token.hmac),
        pair(&token.owner),
        token.requester.as_ref().map(pair),
        renewers,
        token.issued_ms,
        token.expires_ms,
        token.ends_ms,
    ))
}

/// A topic's id; None for that of brokers that have none.
fn topic_id(py: Python<'_>, id: [u8; 16]) -> PyResult<Option<Py<PyAny>>> {
    (id != [0; 16]).then(|| scalars::uuid(py, id)).transpose()
}

#[pymethods]
impl AdminCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Admin, bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::handle()?, events::queue(py)?)
            .map_err(|error| errors::to_python(py, &error))?;
        Ok(AdminCore {
            client: Opened::new("Admin", client),
        })
    }

    #[pyo3(signature = (topics, validate_only, timeout))]
    fn create_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        validate_only: bool,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let topics = new_topics(topics)?;
        Ok(Operation::new(
            async move { client.create_topics(&topics, validate_only, timeout).await },
            nothing,
        ))
    }

    #[pyo3(signature = (topics, timeout))]
    fn delete_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let topics = names(topics)?;
        Ok(Operation::new(
            async move { client.delete_topics(&topics, timeout).await },
            nothing,
        ))
    }

    #[pyo3(signature = (internal, timeout))]
    fn list_topics(&self, internal: bool, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_topics(internal, timeout).await },
            listed,
        ))
    }

    #[pyo3(signature = (topics, timeout))]
    fn describe_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let topics = names(topics)?;
        Ok(Operation::new(
            async move { client.describe_topics(&topics, timeout).await },
            described,
        ))
    }

    #[pyo3(signature = (include_authorized_operations, include_fenced_brokers, timeout))]
    fn describe_cluster(
        &self,
        include_authorized_operations: bool,
        include_fenced_brokers: bool,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let (operations, fenced) = (include_authorized_operations, include_fenced_brokers);
        Ok(Operation::new(
            async move { client.describe_cluster(operations, fenced, timeout).await },
            described_cluster,
        ))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn describe_producers(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let partitions = pairs(partitions)?;
        Ok(Operation::new(
            async move { client.describe_producers(&partitions, timeout).await },
            producing,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn list_groups(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_groups(timeout).await },
            listed_groups,
        ))
    }

    #[pyo3(signature = (groups, timeout))]
    fn describe_groups(
        &self,
        groups: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let groups = names(groups)?;
        Ok(Operation::new(
            async move { client.describe_groups(&groups, timeout).await },
            described_groups,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn list_transactions(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_transactions(timeout).await },
            listed_transactions,
        ))
    }

    #[pyo3(signature = (transactional_ids, timeout))]
    fn describe_transactions(
        &self,
        transactional_ids: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let ids = names(transactional_ids)?;
        Ok(Operation::new(
            async move { client.describe_transactions(&ids, timeout).await },
            described_transactions,
        ))
    }

    #[pyo3(signature = (transactional_ids, timeout))]
    fn fence_producers(
        &self,
        transactional_ids: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let ids = names(transactional_ids)?;
        Ok(Operation::new(
            async move { client.fence_producers(&ids, timeout).await },
            fenced,
        ))
    }

    #[pyo3(signature = (partition, producer_id, producer_epoch, coordinator_epoch, timeout))]
    fn abort_transaction(
        &self,
        partition: Named,
        producer_id: i64,
        producer_epoch: i16,
        coordinator_epoch: i32,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let (topic, partition) = partition.partition();
        let call = AbortTransaction {
            topic,
            partition,
            producer_id,
            producer_epoch,
            coordinator_epoch,
        };
        Ok(Operation::new(
            async move { client.abort_transaction(call, timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (owner, renewers, max_lifetime_ms, timeout))]
    fn create_delegation_token(
        &self,
        owner: Option<(String, String)>,
        renewers: Vec<(String, String)>,
        max_lifetime_ms: i64,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let (owner, renewers) = (
            owner.map(principal),
            renewers.into_iter().map(principal).collect(),
        );
        Ok(Operation::new(
            async move {
                client
                    .create_delegation_token(owner, renewers, max_lifetime_ms, timeout)
                    .await
            },
            |py, made| token(py, &made).map(Bound::unbind),
        ))
    }

    #[pyo3(signature = (hmac, period_ms, timeout))]
    fn renew_delegation_token(
        &self,
        hmac: &[u8],
        period_ms: i64,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let hmac = Bytes::copy_from_slice(hmac);
        Ok(Operation::new(
            async move {
                client
                    .renew_delegation_token(hmac, period_ms, timeout)
                    .await
            },
            |py, expires| Ok(expires.into_pyobject(py)?.into_any().unbind()),
        ))
    }

    #[pyo3(signature = (hmac, period_ms, timeout))]
    fn expire_delegation_token(
        &self,
        hmac: &[u8],
        period_ms: i64,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let hmac = Bytes::copy_from_slice(hmac);
        Ok(Operation::new(
            async move {
                client
                    .expire_delegation_token(hmac, period_ms, timeout)
                    .await
            },
            |py, expires| Ok(expires.into_pyobject(py)?.into_any().unbind()),
        ))
    }

    #[pyo3(signature = (owners, timeout))]
    fn describe_delegation_tokens(
        &self,
        owners: Option<Vec<(String, String)>>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let owners = owners.map(|owners| owners.into_iter().map(principal).collect());
        Ok(Operation::new(
            async move { client.describe_delegation_tokens(owners, timeout).await },
            |py, found| {
                let found = found.iter().map(|made| token(py, made));
                let found = found.collect::<PyResult<Vec<_>>>()?;
                Ok(found.into_pyobject(py)?.into_any().unbind())
            },
        ))
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.even_closed()?.clone(), seconds(timeout)?);
        let close = async move { client.close(timeout).await };
        Ok(lifecycle::closing(
            self.client.closed(),
            close,
            lifecycle::closed,
        ))
    }

    /// All metrics at this moment. `even_closed` is for whoever reports the last ones.
    #[pyo3(signature = (*, even_closed = false))]
    fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        let client = self.client.get_or_closed(even_closed)?;
        metrics::to_python(py, &py.detach(|| client.metrics()))
    }

    /// The id that brokers know this client by.
    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.instance_id(timeout).await },
            scalars::uuid,
        ))
    }

    /// Seconds between two calls of `on_metrics`.
    fn metrics_interval(&self) -> PyResult<f64> {
        let client = self.client.even_closed()?;
        Ok(client.config().metrics_interval.as_secs_f64())
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    fn interrupt_timeout(&self) -> PyResult<f64> {
        let client = self.client.even_closed()?;
        Ok(client.config().close_interrupt_timeout.as_secs_f64())
    }

    /// Raises if the client can no longer be used.
    fn check(&self) -> PyResult<()> {
        self.client.get().map(|_| ())
    }
}

impl Drop for AdminCore {
    fn drop(&mut self) {
        self.client.on_drop(|client| {
            let client = client.clone();
            async move { client.close(None).await }
        });
    }
}
