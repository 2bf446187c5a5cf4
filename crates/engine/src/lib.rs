//! What a Kafka client decides, as state machines without sockets or clocks.
