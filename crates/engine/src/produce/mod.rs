//! Batches from their first record to the leaders' responses.
//!
//! ```text
//!            full, lingered, or its broker is idle          the request is in flight
//!  append ─▶ open ─────────────────────────▶ ready ───────────────▶ sent ──▶ delivered
//!                                              ▲                     │ └────▶ failed
//!                                              └── in order, after ◀─┘
//!                                                  a pause: retry
//! ```
//!
//! Rules that keep records in order and single:
//! * A partition's batches are sent in the order of their first append, over one connection at a
//!   time. After a failure nothing more of the partition is sent until every batch in flight has
//!   its response; then all go again in order.
//! * With idempotence (KIP-98) a batch gets producer id, epoch and sequence when it is first sent
//!   and keeps them in every retry, so the broker can recognize a repeat. It remembers five
//!   requests in flight.
//! * A broker that has no record of a producer in a partition takes any sequence number. So until the first batch under an
//!   identity is acknowledged there, no second one is sent: were the first refused, the second would overtake it.
//! * A batch that was abandoned leaves a gap in the sequence. If no other batch carries numbers,
//!   the next one begins a new epoch (KIP-360): should the request of the old one still arrive, the
//!   broker refuses it. Else the broker responds to the next one with OUT_OF_ORDER_SEQUENCE_NUMBER,
//!   which proves that it is not in the log; then the epoch is bumped and pending batches are
//!   numbered from 0 again. No batch gets new numbers without such a proof. If another broker may
//!   have written the batch, the leader must report the error for 10 s, because another replica may
//!   have the batch and be elected (`denial`). The error is no proof for a batch that was sent over
//!   a connection that ended before the response: the broker may still have both requests before
//!   it. Nor is it from a broker before 1.0, which remembers one batch, where later batches may be
//!   written, too.
//! * A request owns its batches' bytes until its response or its connection's end, even if the
//!   batches were abandoned before.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | what it decides or keeps |
//! |---|---|
//! | `stamp` | a batch's identity and sequence number, and the next numbers of a partition |
//! | `denial` | when a report that a batch is missing is proof |
//! | `batch` | one batch: open, closed or split, its size, and the bytes that still have to be made of it |
//! | `outcomes` | counts over all batches: bytes in use, batches without a delivery result, and the results to report |
//! | `queue` | one partition's batches: which may go, and when |
//! | `hash` | the hashes of keys, as other clients compute them |
//! | `lanes` | the connections to each broker that carry batches, and the bytes in flight on each |
//! | `stalls` | which brokers take nothing although something waits for them |
//! | `partitioner` | which partition a record goes to |
//! | `topics` | which topics are in use, for how long, and whether one may be created |
//! | `request` | a Produce request whose batches still must be finished, and what is kept of one that was sent |
//! | `identity` | the state of the producer's id; knows nothing of batches |
//! | `transaction` | the state of a transactional producer's id and of its transactions; knows nothing of batches |
//! | `scope` | the transaction that batches belong to |
//! | `accumulator` | the state of all batches, and the methods that several steps share |
//! | `row` | a record as its caller has it |
//! | `append` | from a record to the open batch of its partition |
//! | `gather` | which batches the next request to a broker takes |
//! | `may_be_written` | whether a batch can be in the log after an error code |
//! | `answer` | the meaning of a response for each batch |
//! | `expiry` | which batches are abandoned |
//! | `pump` | the step that runs after every event |
//! | `part` | the accumulator as a part of a client |
//!
//! `append` to `pump` are steps of [`Accumulator`]. They do not import each other; `part` calls them for the client.

pub(crate) mod accumulator;
mod answer;
pub(crate) mod append;
pub(crate) mod batch;
mod denial;
mod expiry;
mod gather;
mod hash;
pub(crate) mod identity;
mod lanes;
mod may_be_written;
mod outcomes;
mod part;
mod partitioner;
mod pump;
mod queue;
pub(crate) mod request;
mod row;
mod scope;
mod stalls;
mod stamp;
mod topics;
pub(crate) mod transaction;

#[cfg(test)]
mod tests;

pub use accumulator::Accumulator;
pub use append::{Appended, NotAppended, check_topic};
pub use batch::{Done, Stored};
pub use row::{NoHeaders, Row, Rows};
