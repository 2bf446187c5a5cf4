//! `AdminCore`, whose methods return operations. A file for each noun makes what they return.

mod cluster;
mod delegation_tokens;
mod groups;
mod producers;
mod results;
mod topics;
mod transactions;

use bytes::Bytes;
use ottla_client::admin::AbortTransaction;
use ottla_client::{Admin as Client, Role};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::bridge::operation::Operation;
use crate::bridge::{errors, events, runtime};
use crate::clients::lifecycle::{self, Opened};
use crate::clients::options;
use crate::values::numbers::{Timeout, seconds};
use crate::values::partitions::{Named, pairs};
use crate::values::scalars::names;

/// The core of both facades of an admin client. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct AdminCore {
    client: Opened<Client>,
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
            client: Opened::new(client),
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
        let topics = topics::create(topics)?;
        Ok(Operation::new(
            async move { client.create_topics(&topics, validate_only, timeout).await },
            results::nothing,
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
            results::nothing,
        ))
    }

    #[pyo3(signature = (internal, timeout))]
    fn list_topics(&self, internal: bool, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_topics(internal, timeout).await },
            topics::listed,
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
            topics::described,
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
            cluster::described,
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
            producers::described,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn list_groups(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_groups(timeout).await },
            groups::listed,
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
            groups::described,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn list_transactions(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_transactions(timeout).await },
            transactions::listed,
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
            transactions::described,
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
            transactions::fenced,
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
            owner.map(delegation_tokens::principal),
            renewers
                .into_iter()
                .map(delegation_tokens::principal)
                .collect(),
        );
        Ok(Operation::new(
            async move {
                client
                    .create_delegation_token(owner, renewers, max_lifetime_ms, timeout)
                    .await
            },
            |py, made| delegation_tokens::made(py, &made).map(Bound::unbind),
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
        let owners = owners.map(|owners| {
            owners
                .into_iter()
                .map(delegation_tokens::principal)
                .collect()
        });
        Ok(Operation::new(
            async move { client.describe_delegation_tokens(owners, timeout).await },
            |py, found| {
                let found = found.iter().map(|made| delegation_tokens::made(py, made));
                let found = found.collect::<PyResult<Vec<_>>>()?;
                Ok(found.into_pyobject(py)?.into_any().unbind())
            },
        ))
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.close(timeout, lifecycle::closed)
    }

    /// All metrics at this moment. `even_closed` is for whoever reports the last ones.
    #[pyo3(signature = (*, even_closed = false))]
    fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        self.client.metrics(py, even_closed)
    }

    /// The id that brokers know this client by.
    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.instance_id(timeout)
    }

    /// Seconds between two calls of `on_metrics`.
    fn metrics_interval(&self) -> PyResult<f64> {
        self.client.metrics_interval()
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    fn interrupt_timeout(&self) -> PyResult<f64> {
        self.client.interrupt_timeout()
    }

    /// Raises if the client can no longer be used.
    fn check(&self) -> PyResult<()> {
        self.client.check()
    }
}
