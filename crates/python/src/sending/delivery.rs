//! Handles to the outcomes of sent records: some wait in a thread, their twins are awaited.

use std::sync::Arc;

use ottla_client::{Delivery as Fate, Error, RecordMetadata, Report};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::collector::untracked;
use crate::bridge::errors;
use crate::bridge::operation::{CompletionQueue, Facade, Operation};
use crate::bridge::runtime::Native;
use crate::bridge::wait;
use crate::sending::runs::Runs;
use crate::sending::unobserved_failures::Asked;
use crate::values::numbers::{Timeout, seconds};

/// The class is a tuple: made by `tuple.__new__` itself, without the frame of the class's own `__new__`.
fn metadata(py: Python<'_>, written: &RecordMetadata) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "RecordMetadata")?;
    let find = || {
        py.get_type::<PyTuple>()
            .guarded_attribute(intern!(py, "__new__"))
            .map(Bound::unbind)
    };
    let new = NEW.get_or_try_init(py, find)?.bind(py);
    let fields = (
        &*written.topic,
        written.partition,
        written.offset,
        written.timestamp_ms,
    );
    Ok(new.guarded_call((class, fields))?.unbind())
}

fn outcome(py: Python<'_>, result: Result<RecordMetadata, Error>) -> PyResult<Py<PyAny>> {
    match result {
        Ok(written) => metadata(py, &written),
        Err(error) => Err(errors::to_python(py, &error)),
    }
}

fn not_done(py: Python<'_>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    calls::class(&CLASS, py, "asyncio", "InvalidStateError")
        .and_then(|class| class.guarded_call(("not delivered yet: await it first",)))
        .map_or_else(|failure| failure, PyErr::from_value)
}

/// `module` knows the threads that call `callback(delivery)`: its own, or that of an event loop.
fn call_when_done(
    delivery: &Bound<'_, PyAny>,
    module: &str,
    callback: Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = delivery.py();
    let function = calls::module(py, module)?.guarded_attribute(intern!(py, "call_when_done"))?;
    function.guarded_call((delivery, callback)).map(drop)
}

/// The loop that runs here forgets `callback(delivery)`.
fn call_no_more<'py>(
    delivery: &Bound<'py, PyAny>,
    callback: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = delivery.py();
    let module = calls::module(py, "ottla.aio._completions")?;
    module.guarded_method(intern!(py, "call_no_more"), (delivery, callback))
}

fn unpicklable(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a {what} belongs to its producer in this process and cannot be pickled: wait for its result(), which can"
    ))
}

/// A read-only look at a delivery result. Looking does not observe it: a failure is still reported
/// by the next flush, if nobody else observes it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Watched {
    watching: Native<Watching>,
}

enum Watching {
    One(Fate),
    Many(Runs),
}

impl Watched {
    fn new(watching: Watching) -> Self {
        Watched {
            watching: Native::new("Delivery", watching),
        }
    }
}

#[pymethods]
impl Watched {
    /// Return whether all delivery results are known.
    fn done(&self) -> PyResult<bool> {
        Ok(match self.watching.get()? {
            Watching::One(fate) => fate.is_done(),
            Watching::Many(runs) => runs.is_done(),
        })
    }

    /// Puts `token` into `queue` when all delivery results are known.
    fn _notify(&self, queue: &CompletionQueue, token: u64) -> PyResult<()> {
        let push = queue.pusher(token)?;
        match self.watching.get()? {
            Watching::One(fate) => fate.on_done(push),
            Watching::Many(runs) => runs.on_done(push),
        }
        Ok(())
    }

    /// Where the record was written, or why not; of many, the error of the first that failed. None
    /// where there is nothing to report.
    fn found(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.watching.get()? {
            Watching::One(fate) => fate
                .result()
                .map(|result| match result {
                    Ok(written) => metadata(py, &written),
                    Err(error) => Ok(errors::to_python(py, &error).into_value(py).into_any()),
                })
                .transpose(),
            Watching::Many(runs) => runs
                .report()
                .map_or(Ok(None), |report| exception(py, &report)),
        }
    }
}

/// A handle to the outcome of one record. Threads may share it.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Delivery {
    fate: Native<Asked<Fate>>,
}

impl Delivery {
    pub(crate) fn new(py: Python<'_>, fate: Fate) -> PyResult<Bound<'_, Self>> {
        let fate = Native::new("Delivery", Asked::new(fate));
        untracked(py, Delivery { fate })
    }
}

#[pymethods]
impl Delivery {
    /// Wait until the record is delivered.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.
    ///
    /// Returns:
    ///     Where the record was written.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The delivery result was not known in time.
    ///     KafkaError: The record was not delivered.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<Py<PyAny>> {
        let limit = seconds(timeout)?;
        let fate = self.fate.get()?;
        if let Some(result) = fate.told(fate.peek().result()) {
            return outcome(py, result);
        }
        let _waits = fate.waits();
        let waited = wait::block_on(py, fate.peek().wait(limit))?;
        outcome(py, fate.told(fate.peek().result()).unwrap_or(waited))
    }

    /// Wait for the delivery result of the record.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.
    ///
    /// Returns:
    ///     Why the record was not delivered; None if it was.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The delivery result was not known in time.
    #[pyo3(signature = (timeout = None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<Option<Py<PyAny>>> {
        let limit = seconds(timeout)?;
        let fate = self.fate.get()?;
        let mut known = fate.peek().result();
        let _waits = fate.waits();
        if known.is_none() {
            let waited = wait::block_on(py, fate.peek().wait(limit))?;
            known = fate.peek().result();
            // The record's own error is returned; a timeout before that is raised.
            if let (None, Err(error)) = (&known, waited) {
                return Err(errors::to_python(py, &error));
            }
        }
        Ok(fate
            .told(known)
            .and_then(Result::err)
            .map(|error| errors::to_python(py, &error).into_value(py).into_any()))
    }

    /// Return whether the delivery result is known.
    ///
    /// Returns:
    ///     True if the record was delivered, or has failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.fate.get()?.peek().is_done())
    }

    /// Call `callback(delivery)` once, when the delivery result is known.
    ///
    /// Callbacks run on ottla's thread, one after the other, in the order in which delivery results become known.
    /// Within a partition that is the order of the records, unless some fail or are sent again. If the result is known
    /// already, the callback runs at once on the calling thread, or after callbacks that are due or running.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().fate.get()?.ask();
        call_when_done(slf.as_any(), "ottla._callbacks", callback)
    }

    /// Puts `token` into `queue` when the delivery result is known.
    fn _notify(&self, queue: &CompletionQueue, token: u64) -> PyResult<()> {
        self.fate.get()?.peek().on_done(queue.pusher(token)?);
        Ok(())
    }

    /// A view of the delivery result that does not count as observing it.
    fn _watch(&self) -> PyResult<Watched> {
        Ok(Watched::new(Watching::One(self.fate.get()?.peek().clone())))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(shown("Delivery", self.fate.get()?.peek()))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable("Delivery"))
    }
}

fn shown(class: &str, fate: &Fate) -> String {
    let place = format!(
        "topic={:?}, partition={}",
        &**fate.topic(),
        fate.partition()
    );
    match fate.result() {
        None => format!("{class}({place}, pending)"),
        Some(Ok(written)) => format!("{class}({place}, offset={})", written.offset),
        Some(Err(error)) => format!("{class}({place}, failed: {error})"),
    }
}

/// An awaitable handle to the outcome of one record, a `RecordMetadata` with the topic, partition and offset.
///
/// `asyncio.gather`, `wait`, `wait_for`, `shield` and `as_completed` take it as it is. It is not a coroutine, which
/// `asyncio.create_task` and task groups require: `asyncio.ensure_future(delivery)` makes a task of it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct AsyncDelivery {
    fate: Native<Arc<Asked<Fate>>>,
}

impl AsyncDelivery {
    pub(crate) fn new(py: Python<'_>, fate: Asked<Fate>) -> PyResult<Bound<'_, Self>> {
        let fate = Native::new("Delivery", Arc::new(fate));
        untracked(py, AsyncDelivery { fate })
    }
}

#[pymethods]
impl AsyncDelivery {
    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Operation::__await__(Bound::new(py, self.wait(None)?)?)
    }

    /// Wait until the record is delivered.
    ///
    /// The error of a timeout names what delayed the record. The error of `asyncio.wait_for` does not.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; None waits until `delivery.timeout.ms` decides.
    ///
    /// Returns:
    ///     Where the record was written.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The time was up first. The record may still be delivered.
    ///     KafkaError: The record was not delivered.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let fate = Arc::clone(self.fate.get()?);
        let limit = seconds(timeout)?;
        let wait = async move {
            let _waits = fate.waits();
            let waited = fate.peek().wait(limit).await;
            fate.told(fate.peek().result()).unwrap_or(waited)
        };
        Ok(Operation::new(wait, |py, written| metadata(py, &written)))
    }

    /// Return where the record was written, once that is known.
    ///
    /// It does not wait.
    ///
    /// Returns:
    ///     The topic, partition and offset.
    ///
    /// Raises:
    ///     asyncio.InvalidStateError: The delivery result is not known yet.
    ///     KafkaError: The record was not delivered.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fate = self.fate.get()?;
        fate.told(fate.peek().result())
            .map_or_else(|| Err(not_done(py)), |result| outcome(py, result))
    }

    /// Return why the record was not delivered, once that is known.
    ///
    /// It does not wait.
    ///
    /// Returns:
    ///     The error; None if the record was delivered.
    ///
    /// Raises:
    ///     asyncio.InvalidStateError: The delivery result is not known yet.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let fate = self.fate.get()?;
        match fate.told(fate.peek().result()) {
            None => Err(not_done(py)),
            Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Ok(Some(
                errors::to_python(py, &error).into_value(py).into_any(),
            )),
        }
    }

    /// Return whether the delivery result is known.
    ///
    /// Returns:
    ///     True if the record was delivered, or has failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.fate.get()?.peek().is_done())
    }

    /// Call `callback(delivery)` once on the running loop, soon after the delivery result is known.
    ///
    /// Callbacks run in the order in which delivery results become known. Within a partition that is the order of the
    /// records, unless some fail or are sent again.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().fate.get()?.ask();
        call_when_done(slf.as_any(), "ottla.aio._completions", callback)
    }

    /// Forget this callback on the running loop, however often it was added.
    ///
    /// Returns:
    ///     How often it was added.
    fn remove_done_callback<'py>(
        slf: &Bound<'py, Self>,
        callback: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call_no_more(slf.as_any(), callback)
    }

    /// Return whether sending was cancelled.
    ///
    /// Returns:
    ///     False: a record that was sent cannot be cancelled.
    #[expect(clippy::unused_self, reason = "as futures have it")]
    fn cancelled(&self) -> bool {
        false
    }

    /// A view of the delivery result that does not count as observing it.
    fn _watch(&self) -> PyResult<Watched> {
        Ok(Watched::new(Watching::One(self.fate.get()?.peek().clone())))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(shown("aio.Delivery", self.fate.get()?.peek()))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable("Delivery"))
    }
}

/// `array.array(code)` over the machine's own bytes of numbers: no object for each of them.
/// An `array.array` of numbers that are given as their bytes.
fn array<'py, const SIZE: usize>(
    py: Python<'py>,
    code: char,
    numbers: impl ExactSizeIterator<Item = [u8; SIZE]>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let bytes = PyBytes::new_with(py, SIZE * numbers.len(), |bytes| {
        let (places, _) = bytes.as_chunks_mut();
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = number;
        }
        Ok(())
    })?;
    calls::class(&CLASS, py, "array", "array")?.guarded_call((code, bytes))
}

/// For a `repr`: how far the records are, and how many of them failed.
fn state(runs: &Runs) -> String {
    match runs.report() {
        None => "pending".to_owned(),
        Some(report) if report.errors.is_empty() => "done".to_owned(),
        Some(report) => format!("done, {} failed", report.errors.len()),
    }
}

/// The deliveries of a call that sent many records, for the facade that made it.
pub(crate) fn deliveries(py: Python<'_>, facade: Facade, runs: Asked<Runs>) -> PyResult<Py<PyAny>> {
    Ok(match facade {
        Facade::Sync => Py::new(py, Deliveries::new(runs))?.into_any(),
        Facade::Asyncio => Py::new(py, AsyncDeliveries::new(runs))?.into_any(),
    })
}

/// The first row's error, with a note that counts them; `None` if all rows were delivered.
fn first_failure(py: Python<'_>, report: &Report) -> PyResult<Option<PyErr>> {
    let Some((row, error)) = report.errors.first() else {
        return Ok(None);
    };
    let error = errors::to_python(py, error);
    errors::note(
        py,
        &error,
        &format!(
            "{} of {} rows were not delivered, the first is row {row}; `errors` lists them all",
            report.errors.len(),
            report.partitions.len()
        ),
    )?;
    Ok(Some(error))
}

fn exception(py: Python<'_>, report: &Report) -> PyResult<Option<Py<PyAny>>> {
    Ok(first_failure(py, report)?.map(|error| error.into_value(py).into_any()))
}

fn written(py: Python<'_>, report: &Report, check: bool) -> PyResult<Py<PyAny>> {
    if check {
        first_failure(py, report)?.map_or(Ok(()), Err)?;
    }
    let partitions = report.partitions.iter().map(|number| number.to_ne_bytes());
    let offsets = report.offsets.iter().map(|number| number.to_ne_bytes());
    Ok((array(py, 'i', partitions)?, array(py, 'q', offsets)?)
        .into_pyobject(py)?
        .into_any()
        .unbind())
}

fn failures(py: Python<'_>, report: &Report) -> PyResult<Py<PyAny>> {
    let failures = PyDict::new(py);
    for (row, error) in &report.errors {
        failures.set_item(row, errors::to_python(py, error).into_value(py))?;
    }
    Ok(failures.into_any().unbind())
}

/// A handle to the outcomes of many records, in columns. Threads may share it. `len()` counts the records.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Deliveries {
    runs: Native<Asked<Runs>>,
}

impl Deliveries {
    fn new(runs: Asked<Runs>) -> Self {
        Deliveries {
            runs: Native::new("Deliveries", runs),
        }
    }
}

#[pymethods]
impl Deliveries {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.runs.get()?.peek().len())
    }

    /// Return whether all delivery results are known.
    ///
    /// Returns:
    ///     True if each record was delivered, or has failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.runs.get()?.peek().is_done())
    }

    /// Wait for the delivery results of all records.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.
    ///     check: Whether to raise where a record was not delivered.
    ///
    /// Returns:
    ///     Partitions and offsets by row, as arrays of 32 and 64 bits that numpy and others take without a copy.
    ///     Without `check`, the offset of a row that was not delivered is -1.
    ///
    /// Raises:
    ///     KafkaTimeoutError: Not every delivery result was known in time.
    ///     KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
    ///         counts the failed rows.
    #[pyo3(signature = (timeout = None, *, check = true))]
    fn result(&self, py: Python<'_>, timeout: Option<Timeout>, check: bool) -> PyResult<Py<PyAny>> {
        let runs = self.runs.get()?;
        let _waits = runs.waits();
        let report = wait::result(py, runs.peek().clone().wait(seconds(timeout)?))?;
        runs.ask();
        written(py, &report, check)
    }

    /// Wait for the delivery results of all records.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.
    ///
    /// Returns:
    ///     The error of the first row that failed, with a note that counts the failed rows; None if all were delivered.
    ///
    /// Raises:
    ///     KafkaTimeoutError: Not every delivery result was known in time.
    #[pyo3(signature = (timeout = None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<Option<Py<PyAny>>> {
        let runs = self.runs.get()?;
        let _waits = runs.waits();
        let report = wait::result(py, runs.peek().clone().wait(seconds(timeout)?))?;
        runs.ask();
        exception(py, &report)
    }

    /// The errors of rows that were not delivered, by row; empty if all were.
    ///
    /// It waits for all delivery results.
    #[getter]
    fn errors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let runs = self.runs.get()?;
        let _waits = runs.waits();
        let report = wait::result(py, runs.peek().clone().wait(None))?;
        runs.ask();
        failures(py, &report)
    }

    /// Call `callback(deliveries)` once, when all delivery results are known.
    ///
    /// Where, when and in which order callbacks run: see `Delivery.add_done_callback`.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().runs.get()?.ask();
        call_when_done(slf.as_any(), "ottla._callbacks", callback)
    }

    /// Puts `token` into `queue` when the delivery results of all rows are known.
    fn _notify(&self, queue: &CompletionQueue, token: u64) -> PyResult<()> {
        self.runs.get()?.peek().on_done(queue.pusher(token)?);
        Ok(())
    }

    /// A view of the delivery results that does not count as observing them.
    fn _watch(&self) -> PyResult<Watched> {
        Ok(Watched::new(Watching::Many(
            self.runs.get()?.peek().clone(),
        )))
    }

    fn __repr__(&self) -> PyResult<String> {
        let runs = self.runs.get()?.peek();
        Ok(format!(
            "Deliveries({} records, {})",
            runs.len(),
            state(runs)
        ))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable("Deliveries"))
    }
}

/// An awaitable handle to the outcomes of many records.
///
/// Its value is the partitions and offsets by row, as `result` returns them. Functions of asyncio take it as they take
/// a `Delivery`.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct AsyncDeliveries {
    runs: Native<Arc<Asked<Runs>>>,
}

impl AsyncDeliveries {
    fn new(runs: Asked<Runs>) -> Self {
        AsyncDeliveries {
            runs: Native::new("Deliveries", Arc::new(runs)),
        }
    }
}

#[pymethods]
impl AsyncDeliveries {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.runs.get()?.peek().len())
    }

    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Operation::__await__(Bound::new(py, self.wait(None, true)?)?)
    }

    /// Wait until every record is delivered.
    ///
    /// The error of a timeout names what delayed the records. The error of `asyncio.wait_for` does not.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; None waits until `delivery.timeout.ms` decides.
    ///     check: Whether to raise where a record was not delivered; without it, the offset of such a row is -1.
    ///
    /// Returns:
    ///     Partitions and offsets by row, as `result` returns them.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The time was up first. The records may still be delivered.
    ///     KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
    ///         counts the failed rows.
    #[pyo3(signature = (timeout = None, *, check = true))]
    fn wait(&self, timeout: Option<Timeout>, check: bool) -> PyResult<Operation> {
        let runs = Arc::clone(self.runs.get()?);
        let limit = seconds(timeout)?;
        let wait = async move {
            let _waits = runs.waits();
            let waited = runs.peek().clone().wait(limit).await;
            match runs.told(runs.peek().report()) {
                Some(report) => Ok(report),
                None => waited,
            }
        };
        Ok(Operation::new(wait, move |py, report| {
            written(py, &report, check)
        }))
    }

    /// Return whether all delivery results are known.
    ///
    /// Returns:
    ///     True if each record was delivered, or has failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.runs.get()?.peek().is_done())
    }

    /// Return partitions and offsets by row, once all are known.
    ///
    /// It does not wait.
    ///
    /// Args:
    ///     check: Whether to raise where a record was not delivered; without it, the offset of such a row is -1.
    ///
    /// Returns:
    ///     Partitions and offsets by row, as arrays of 32 and 64 bits that numpy and others take without a copy.
    ///
    /// Raises:
    ///     asyncio.InvalidStateError: Some delivery result is not known yet.
    ///     KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
    ///         counts the failed rows.
    #[pyo3(signature = (*, check = true))]
    fn result(&self, py: Python<'_>, check: bool) -> PyResult<Py<PyAny>> {
        let runs = self.runs.get()?;
        runs.told(runs.peek().report())
            .map_or_else(|| Err(not_done(py)), |report| written(py, &report, check))
    }

    /// Return why records were not delivered, once that is known.
    ///
    /// It does not wait.
    ///
    /// A note of the error counts the rows that failed.
    ///
    /// Returns:
    ///     The error of the first row that was not delivered; None if all were.
    ///
    /// Raises:
    ///     asyncio.InvalidStateError: Some delivery result is not known yet.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let runs = self.runs.get()?;
        runs.told(runs.peek().report())
            .map_or_else(|| Err(not_done(py)), |report| exception(py, &report))
    }

    /// The errors of rows that were not delivered, by row; empty if all were.
    ///
    /// It does not wait.
    ///
    /// Raises:
    ///     asyncio.InvalidStateError: Some delivery result is not known yet.
    #[getter]
    fn errors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let runs = self.runs.get()?;
        runs.told(runs.peek().report())
            .map_or_else(|| Err(not_done(py)), |report| failures(py, &report))
    }

    /// Call `callback(deliveries)` once on the running loop, soon after all delivery results are known.
    ///
    /// In which order callbacks run: see `AsyncDelivery.add_done_callback`.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().runs.get()?.ask();
        call_when_done(slf.as_any(), "ottla.aio._completions", callback)
    }

    /// Forget this callback on the running loop, however often it was added.
    ///
    /// Returns:
    ///     How often it was added.
    fn remove_done_callback<'py>(
        slf: &Bound<'py, Self>,
        callback: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call_no_more(slf.as_any(), callback)
    }

    /// Return whether sending was cancelled.
    ///
    /// Returns:
    ///     False: a record that was sent cannot be cancelled.
    #[expect(clippy::unused_self, reason = "as futures have it")]
    fn cancelled(&self) -> bool {
        false
    }

    /// A view of the delivery results that does not count as observing them.
    fn _watch(&self) -> PyResult<Watched> {
        Ok(Watched::new(Watching::Many(
            self.runs.get()?.peek().clone(),
        )))
    }

    fn __repr__(&self) -> PyResult<String> {
        let runs = self.runs.get()?.peek();
        Ok(format!(
            "aio.Deliveries({} records, {})",
            runs.len(),
            state(runs)
        ))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable("Deliveries"))
    }
}
