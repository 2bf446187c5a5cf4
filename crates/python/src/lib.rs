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
mod arrow;
mod assignors;
mod batch;
mod broker;
mod certificates;
mod consumer;
mod decoder;
mod delivery;
mod encoding;
mod errors;
mod events;
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

/// The compiled half of ottla.
#[pymodule]
mod _ottla {
    use super::*;

    #[pymodule_export]
    use admin::AdminCore;
    #[pymodule_export]
    use assignors::AssignorQuestion;
    #[pymodule_export]
    use batch::{Batch, Record, RecordIterator};
    #[pymodule_export]
    use broker::{Broker, broker_properties};
    #[pymodule_export]
    use certificates::CertificateAuthority;
    #[pymodule_export]
    use consumer::{Batches, ConsumerCore, Records, Run, SyncConsumer};
    #[pymodule_export]
    use delivery::{AsyncDeliveries, AsyncDelivery, Deliveries, Delivery, Watched};
    #[pymodule_export]
    use encoding::{Encoded, TypedEncoder};
    #[pymodule_export]
    use errors::error_kinds;
    #[pymodule_export]
    use events::EventQueue;
    #[pymodule_export]
    use log::{LogDecoder, outline_log};
    #[pymodule_export]
    use metrics::metric_table;
    #[pymodule_export]
    use open::close_at_exit;
    #[pymodule_export]
    use operation::{CompletionQueue, Operation};
    #[pymodule_export]
    use options::properties;
    #[pymodule_export]
    use partitioner::Keys;
    #[pymodule_export]
    use producer::{ProducerCore, SyncProducer};
    #[pymodule_export]
    use protocol::frames::{decode_frame, encode_request, encode_response};
    #[pymodule_export]
    use protocol::internal::{identify_control, identify_record, internal_topics};
    #[pymodule_export]
    use protocol::messages::{decode_message, encode_message};
    #[pymodule_export]
    use protocol::records::decode_records;
    #[pymodule_export]
    use protocol::refusal::error_response;
    #[pymodule_export]
    use protocol::segment::SegmentWindow;
    #[pymodule_export]
    use protocol::tables::{apis, error_codes, header_versions, messages};
    #[pymodule_export]
    use protocol::writing::encode_records;
    #[pymodule_export]
    use sasl::{SaslQueue, SaslRequest, sign_assertion};
    #[pymodule_export]
    use share::ShareConsumerCore;
    #[pymodule_export]
    use typed::{Decoded, TypedDecoder};

    /// True for a build without optimisation, which is many times slower.
    #[pymodule_export]
    const DEBUG_BUILD: bool = cfg!(debug_assertions);

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        runtime::watch_forks();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
