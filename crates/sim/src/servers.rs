//! What the world needs of a cluster of brokers: connections by number, bytes in, bytes out, and a hand on its weather.

use std::time::Instant;

use bytes::Bytes;

/// What a broker does to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It sends bytes.
    Bytes(u64, Bytes),
    /// It closes it.
    Close(u64),
}

/// A cluster, as bytes.
pub trait Servers {
    /// A client has connected to a node; the number is never used again.
    fn connect(&mut self, now: Instant, node: i32, connection: u64);
    /// Bytes came from it.
    fn handle(&mut self, now: Instant, node: i32, connection: u64, bytes: &[u8]);
    /// The client is gone.
    fn disconnect(&mut self, node: i32, connection: u64);
    /// The next thing that a broker does.
    fn poll(&mut self) -> Option<Served>;
    /// When [`Servers::handle_timeout`] is due.
    fn next_timeout(&self) -> Option<Instant>;
    /// Looks at the clock.
    fn handle_timeout(&mut self, now: Instant);

    /// A node ends; the world resets its connections.
    fn stop(&mut self, now: Instant, node: i32);
    /// It comes back.
    fn start(&mut self, now: Instant, node: i32);
    /// A partition gets another leader, if there is another node for it; says whether it did.
    fn move_leader(&mut self, now: Instant, topic: &str, partition: i32) -> bool;
    /// Makes a topic; false if it is there.
    fn create(&mut self, now: Instant, topic: &str, partitions: i32) -> bool;
    /// Deletes a topic; false if it is not there.
    fn delete(&mut self, now: Instant, topic: &str) -> bool;
    /// Adds a partition to a topic; how many it has then, 0 if it is not there.
    fn grow(&mut self, now: Instant, topic: &str) -> i32;
}
