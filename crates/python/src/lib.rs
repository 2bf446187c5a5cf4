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

mod bridge;
mod clients;
mod compat;
mod protocol;
mod records;
mod sending;
mod testing;
mod values;

/// Fill the extension module `ottla._ottla`, which the crate `ottla-module` links.
///
/// # Errors
/// Python's, if it runs out of memory; ImportError in a second interpreter of the process.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use protocol::{
        frames, internal, messages, records as record_sets, refusal, segment, tables, writing,
    };

    bridge::interpreters::check()?;
    module.add_class::<clients::admin::AdminCore>()?;
    module.add_class::<clients::app_metric::AppMetric>()?;
    module.add_class::<clients::assignors::AssignorQuestion>()?;
    module.add_class::<records::batch::Batch>()?;
    module.add_class::<records::batch::Record>()?;
    module.add_class::<records::batch::RecordIterator>()?;
    module.add_class::<testing::broker::Broker>()?;
    module.add_function(wrap_pyfunction!(
        testing::broker::broker_properties,
        module
    )?)?;
    module.add_class::<testing::certificates::CertificateAuthority>()?;
    module.add_class::<clients::consumer::Batches>()?;
    module.add_class::<clients::consumer::ConsumerCore>()?;
    module.add_class::<clients::consumer::Records>()?;
    module.add_class::<clients::consumer::Run>()?;
    module.add_class::<clients::consumer::SyncConsumer>()?;
    module.add_class::<compat::consumer::PollingConsumer>()?;
    module.add_class::<compat::futures::FutureOutbox>()?;
    module.add_class::<compat::inbox::Inbox>()?;
    module.add_class::<compat::message::Message>()?;
    module.add_class::<compat::outbox::Outbox>()?;
    module.add_class::<compat::producer::ReportingProducer>()?;
    module.add_function(wrap_pyfunction!(compat::message::messages_of, module)?)?;
    module.add_class::<sending::delivery::AsyncDeliveries>()?;
    module.add_class::<sending::delivery::AsyncDelivery>()?;
    module.add_class::<sending::delivery::Deliveries>()?;
    module.add_class::<sending::delivery::Delivery>()?;
    module.add_class::<sending::delivery::Watched>()?;
    module.add_class::<records::encoding::Encoded>()?;
    module.add_class::<records::encoding::TypedEncoder>()?;
    module.add_function(wrap_pyfunction!(bridge::errors::error_kinds, module)?)?;
    module.add_class::<bridge::events::EventQueue>()?;
    module.add_class::<records::lines::JoinedValues>()?;
    module.add_class::<records::lines::LineSplitter>()?;
    module.add_class::<records::lines::Lines>()?;
    module.add_class::<records::log::LogDecoder>()?;
    module.add_function(wrap_pyfunction!(records::log::outline_log, module)?)?;
    module.add_function(wrap_pyfunction!(clients::metrics::metric_table, module)?)?;
    module.add_function(wrap_pyfunction!(clients::lifecycle::close_at_exit, module)?)?;
    module.add_class::<bridge::operation::CompletionQueue>()?;
    module.add_class::<bridge::operation::Operation>()?;
    module.add_function(wrap_pyfunction!(clients::options::properties, module)?)?;
    module.add_class::<sending::partitioner::Keys>()?;
    module.add_class::<clients::producer::ProducerCore>()?;
    module.add_class::<clients::producer::SyncProducer>()?;
    module.add_function(wrap_pyfunction!(frames::decode_frame, module)?)?;
    module.add_function(wrap_pyfunction!(frames::encode_request, module)?)?;
    module.add_function(wrap_pyfunction!(frames::encode_response, module)?)?;
    module.add_function(wrap_pyfunction!(internal::identify_control, module)?)?;
    module.add_function(wrap_pyfunction!(internal::identify_record, module)?)?;
    module.add_function(wrap_pyfunction!(internal::internal_topics, module)?)?;
    module.add_function(wrap_pyfunction!(messages::decode_message, module)?)?;
    module.add_function(wrap_pyfunction!(messages::encode_message, module)?)?;
    module.add_function(wrap_pyfunction!(record_sets::decode_records, module)?)?;
    module.add_function(wrap_pyfunction!(refusal::error_response, module)?)?;
    module.add_class::<segment::SegmentWindow>()?;
    module.add_function(wrap_pyfunction!(tables::apis, module)?)?;
    module.add_function(wrap_pyfunction!(tables::error_codes, module)?)?;
    module.add_function(wrap_pyfunction!(tables::header_versions, module)?)?;
    module.add_function(wrap_pyfunction!(tables::messages, module)?)?;
    module.add_function(wrap_pyfunction!(writing::encode_records, module)?)?;
    module.add_class::<clients::login::SaslLogin>()?;
    module.add_class::<clients::sasl::SaslQueue>()?;
    module.add_class::<clients::sasl::SaslRequest>()?;
    module.add_function(wrap_pyfunction!(clients::sasl::sign_assertion, module)?)?;
    module.add_class::<clients::share::ShareConsumerCore>()?;
    module.add_class::<records::typed::Decoded>()?;
    module.add_class::<records::typed::TypedDecoder>()?;

    // True for a build without optimisation, which is many times slower.
    module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    bridge::runtime::watch_forks();
    Ok(())
}
