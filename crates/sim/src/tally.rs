//! What a run met: how often each fault struck, and how often each rare state was entered. A simulation that never meets what it
//! is for proves nothing.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Faults that reached something: a connection, a request, a response.
    pub struck: BTreeMap<&'static str, u64>,
    /// States that clients were seen in.
    pub met: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// A fault reached something.
    pub fn strike(&mut self, fault: &'static str) {
        *self.struck.entry(fault).or_default() += 1;
    }

    /// A state was entered.
    pub fn meet(&mut self, state: &'static str) {
        *self.met.entry(state).or_default() += 1;
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Tally) {
        for (into, from) in [
            (&mut self.struck, &other.struck),
            (&mut self.met, &other.met),
        ] {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
    }

    /// The names among these that no run met.
    pub fn missing(&self, struck: &[&'static str], met: &[&'static str]) -> Vec<String> {
        let absent = |counts: &BTreeMap<&'static str, u64>, names: &[&'static str], what: &str| {
            let names = names.iter().filter(|name| !counts.contains_key(*name));
            names
                .map(|name| format!("{what}: {name}"))
                .collect::<Vec<_>>()
        };
        let mut missing = absent(&self.struck, struck, "fault that never struck");
        missing.extend(absent(&self.met, met, "state never entered"));
        missing
    }
}
