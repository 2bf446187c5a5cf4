//! Simulation by seeds: clients and brokers as one program. What engines and their connections say to brokers goes as bytes over
//! a simulated network, under simulated time; a seed decides everything, and so repeats it.
//!
//! * [`plan`]: what a seed stands for; [`theme`]: what seeds are about. [`run`]: one run, and the shortest prefix of it that fails.
//! * [`world`]: time and the network; [`gate`]: exchanges at a broker's door, [`keeper`]: what doors share; [`brokers`]: the embedded broker's cluster.
//! * [`host`]: an engine and its connections. [`producer`], [`transactor`], [`consumer`], [`member`], [`sharer`], [`admin`]: applications
//!   around one; [`client`]: any; [`batches`]: what producers count; [`habits`]: how a group's consumers work.
//! * [`lies`]: falsified responses of malicious brokers. [`meter`]: what a client's own code
//!   allocates.
//! * [`history`]: what was done and seen, [`shared`]: in share groups. [`check`]: which invariants did not hold.
//! * [`plant`]: defects made on purpose, which the checker must see.
//! * [`summary`]: many seeds, and what they met.
//! * [`tally`], [`trace`], [`book`]: what was met, what happened, and where both are written down. [`chance`]: the generator.
//!
//! Nothing here ships, and nothing depends on it.

pub mod admin;
pub mod batches;
pub mod book;
pub mod brokers;
pub mod chance;
pub mod check;
pub mod client;
pub mod consumer;
pub mod gate;
pub mod habits;
pub mod history;
pub mod host;
pub mod keeper;
pub mod lies;
pub mod member;
pub mod meter;
pub mod plan;
pub mod plant;
pub mod producer;
mod reading;
pub mod record;
pub mod run;
pub mod shared;
pub mod sharer;
pub mod summary;
pub mod tally;
pub mod theme;
pub mod trace;
pub mod transactor;
pub mod world;
