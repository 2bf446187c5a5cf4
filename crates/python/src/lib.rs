//! The Python extension module: thin shells that extract arguments, cross into Rust, and convert what comes back.
//!
//! A verb is written once: a method of a core (`ProducerCore`, ...) that returns an `Operation`. The facades in Python, which
//! carry the documentation, wait for it or await it. What is called for each record or batch has no facade in between: the sync
//! facades inherit it from `SyncProducer` and `SyncConsumer`.
//!
//! Which thread does what: threads of the runtime never attach to Python (`runtime`); a sync call waits on the caller's
//! thread, detached, in slices that look for signals (`wait`); an asyncio call is polled by the task that awaits it, on the
//! loop's thread (`operation`).

use pyo3::prelude::*;

mod admin;
mod arguments;
mod arrow;
mod assignors;
mod batch;
mod broker;
mod calls;
mod certificates;
mod consumer;
mod decoder;
mod delivery;
mod doorbell;
mod encoding;
mod errors;
mod events;
mod initialized;
mod interpreters;
mod log;
mod memory;
mod metrics;
mod open;
mod operation;
mod options;
mod outgoing;
mod partitioner;
mod partitions;
mod producer;
mod protocol;
mod rebalances;
mod runs;
mod runtime;
mod sasl;
mod sending;
mod share;
mod table;
mod typed;
mod unasked;
mod values;
mod wait;

/// Fill the extension module `ottla._ottla`, which the crate `ottla-module` links.
///
/// # Errors
/// Python's, if it runs out of memory; ImportError in a second interpreter of the process.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use protocol::{frames, internal, messages, records, refusal, segment, tables, writing};

    interpreters::check()?;
    module.add_class::<admin::AdminCore>()?;
    module.add_class::<assignors::AssignorQuestion>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Record>()?;
    module.add_class::<batch::RecordIterator>()?;
    module.add_class::<broker::Broker>()?;
    module.add_function(wrap_pyfunction!(broker::broker_properties, module)?)?;
    module.add_class::<certificates::CertificateAuthority>()?;
    module.add_class::<consumer::Batches>()?;
    module.add_class::<consumer::ConsumerCore>()?;
    module.add_class::<consumer::Records>()?;
    module.add_class::<consumer::Run>()?;
    module.add_class::<consumer::SyncConsumer>()?;
    module.add_class::<delivery::AsyncDeliveries>()?;
    module.add_class::<delivery::AsyncDelivery>()?;
    module.add_class::<delivery::Deliveries>()?;
    module.add_class::<delivery::Delivery>()?;
    module.add_class::<delivery::Watched>()?;
    module.add_class::<encoding::Encoded>()?;
    module.add_class::<encoding::TypedEncoder>()?;
    module.add_function(wrap_pyfunction!(errors::error_kinds, module)?)?;
    module.add_class::<events::EventQueue>()?;
    module.add_class::<log::LogDecoder>()?;
    module.add_function(wrap_pyfunction!(log::outline_log, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::metric_table, module)?)?;
    module.add_function(wrap_pyfunction!(open::close_at_exit, module)?)?;
    module.add_class::<operation::CompletionQueue>()?;
    module.add_class::<operation::Operation>()?;
    module.add_function(wrap_pyfunction!(options::properties, module)?)?;
    module.add_class::<partitioner::Keys>()?;
    module.add_class::<producer::ProducerCore>()?;
    module.add_class::<producer::SyncProducer>()?;
    module.add_function(wrap_pyfunction!(frames::decode_frame, module)?)?;
    module.add_function(wrap_pyfunction!(frames::encode_request, module)?)?;
    module.add_function(wrap_pyfunction!(frames::encode_response, module)?)?;
    module.add_function(wrap_pyfunction!(internal::identify_control, module)?)?;
    module.add_function(wrap_pyfunction!(internal::identify_record, module)?)?;
    module.add_function(wrap_pyfunction!(internal::internal_topics, module)?)?;
    module.add_function(wrap_pyfunction!(messages::decode_message, module)?)?;
    module.add_function(wrap_pyfunction!(messages::encode_message, module)?)?;
    module.add_function(wrap_pyfunction!(records::decode_records, module)?)?;
    module.add_function(wrap_pyfunction!(refusal::error_response, module)?)?;
    module.add_class::<segment::SegmentWindow>()?;
    module.add_function(wrap_pyfunction!(tables::apis, module)?)?;
    module.add_function(wrap_pyfunction!(tables::error_codes, module)?)?;
    module.add_function(wrap_pyfunction!(tables::header_versions, module)?)?;
    module.add_function(wrap_pyfunction!(tables::messages, module)?)?;
    module.add_function(wrap_pyfunction!(writing::encode_records, module)?)?;
    module.add_class::<sasl::SaslQueue>()?;
    module.add_class::<sasl::SaslRequest>()?;
    module.add_function(wrap_pyfunction!(sasl::sign_assertion, module)?)?;
    module.add_class::<share::ShareConsumerCore>()?;
    module.add_class::<typed::Decoded>()?;
    module.add_class::<typed::TypedDecoder>()?;

    // True for a build without optimisation, which is many times slower.
    module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    runtime::watch_forks();
    Ok(())
}
