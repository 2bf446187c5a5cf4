//! What happened in a run, to be read by a person: a line each, with the time, who, and what.

use std::fmt;
use std::time::Duration;

/// The lines of a run, or nothing where nobody reads them.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its lines if `kept`.
    pub fn new(kept: bool) -> Trace {
        Trace {
            lines: kept.then(Vec::new),
        }
    }

    /// Whether somebody reads it.
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Writes a line.
    pub fn say(&mut self, at: Duration, who: impl fmt::Display, what: impl fmt::Display) {
        if let Some(lines) = &mut self.lines {
            let (seconds, micros) = (at.as_secs(), at.subsec_micros());
            lines.push(format!("{seconds:>4}.{micros:06} {who:<12} {what}"));
        }
    }

    /// All lines.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
