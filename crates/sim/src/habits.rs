//! How the application around a consumer of a group works.

use std::sync::Arc;
use std::time::Duration;

/// When it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Never itself: its polls do (`enable.auto.commit`).
    ByPolls,
    /// When it has worked on what a poll gave, and it waits for the end of that.
    Waiting,
    /// Then, too, and it continues at once.
    Later,
}

/// How it selects its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By their names.
    Names,
    /// By a pattern, which its client matches.
    Pattern,
    /// By an expression, which the group's coordinator matches (KIP-848).
    Regex,
}

/// A consumer of a group, its settings, and what its application makes of it. All its processes have the same.
#[derive(Clone, Debug)]
pub struct Habits {
    /// The group's number.
    pub group: usize,
    /// Kafka's names and values.
    pub pairs: Vec<(&'static str, String)>,
    /// Its `group.instance.id`, which is among them.
    pub instance: Option<Arc<str>>,
    /// All its assignors are cooperative.
    pub cooperates: bool,
    /// Its coordinator assigns, and members have epochs of their own (KIP-848).
    pub by_epoch: bool,
    /// When it commits.
    pub commits: Commits,
    /// Its listener commits before partitions go.
    pub commits_in_listener: bool,
    /// How long its listener takes at most.
    pub listens: Duration,
    /// How long it works on what a poll gave at most.
    pub works: Duration,
    /// The most records of a poll.
    pub most: usize,
    /// How it subscribes.
    pub subscribes: By,
    /// `max.poll.interval.ms`.
    pub poll_interval: Duration,
}
