//! Many seeds, one after another, and what they met together.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::history::Anomaly;
use crate::plant::Plant;
use crate::run::{Options, Report, run, shorten};
use crate::tally::Tally;
use crate::theme::Theme;

/// The lines of a trace that a failure shows: its end, where the anomaly is.
const LINES: usize = 400;

/// What many seeds met.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What they are about.
    pub theme: Theme,
    /// How many there were.
    pub seeds: u64,
    /// How long all of them took, in simulated time.
    pub time: Duration,
    /// Records that were to be sent, and records that were read.
    pub records: (usize, usize),
    /// Events that happened.
    pub events: u64,
    /// What was met.
    pub tally: Tally,
    /// Seeds that failed.
    pub failed: Vec<u64>,
}

impl Summary {
    /// Runs these seeds; `watch` is called for each.
    pub fn of(
        options: Options,
        seeds: Range<u64>,
        mut watch: impl FnMut(&Summary, &Report),
    ) -> Summary {
        let mut summary = Summary {
            theme: options.theme,
            ..Summary::default()
        };
        for seed in seeds {
            let report = run(seed, options);
            summary.add(&report);
            watch(&summary, &report);
        }
        summary
    }

    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.time += report.time;
        self.records.0 += report.records.0;
        self.records.1 += report.records.1;
        self.events += report.events;
        self.tally.add(&report.tally);
        if !report.anomalies.is_empty() {
            self.failed.push(report.seed);
        }
    }

    /// Faults that never struck and states that were never entered.
    pub fn missing(&self) -> Vec<String> {
        self.tally.missing(self.theme.faults(), self.theme.states())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.time.as_secs_f64() / 3600.0;
        writeln!(
            f,
            "{} seeds, {hours:.1} simulated hours, {} events, {} records sent, {} read, {} seeds failed {:?}",
            self.seeds,
            self.events,
            self.records.0,
            self.records.1,
            self.failed.len(),
            self.failed,
        )?;
        for (title, counts) in [
            ("faults that struck", &self.tally.struck),
            ("states that were entered", &self.tally.met),
        ] {
            writeln!(f, "\n{title}")?;
            for (name, count) in counts {
                writeln!(f, "{count:>12}  {name}")?;
            }
        }
        for missing in self.missing() {
            writeln!(f, "\n{missing}")?;
        }
        Ok(())
    }
}

/// Seeds after the first one that sees a planted defect, in which other invariants that it breaks may see it as well.
const BEYOND: u64 = 20;

/// As what a planted defect is seen by the invariants that it breaks, each once, with the number of seeds that it took; nothing if
/// none sees it within `most` seeds.
pub fn seen(plant: Plant, most: u64) -> Vec<(u64, Anomaly)> {
    let options = Options {
        theme: Theme::showing(plant),
        plant: Some(plant),
        ..Options::default()
    };
    let mut found = Vec::<(u64, Anomaly)>::new();
    let (mut seeds, mut last) = (0, most);
    while seeds < last && found.len() < plant.breaks().len() {
        let anomalies = run(seeds, options).anomalies;
        seeds += 1;
        for anomaly in anomalies {
            let is_known = |(_, known): &(u64, Anomaly)| known.invariant == anomaly.invariant;
            if plant.breaks().contains(&anomaly.invariant) && !found.iter().any(is_known) {
                if found.is_empty() {
                    last = seeds + BEYOND;
                }
                found.push((seeds, anomaly));
            }
        }
    }
    found
}

/// A failing seed, for a person: its anomalies, and the trace of the shortest prefix of its steps that still fails.
pub fn explain(seed: u64, options: Options) -> String {
    let report = shorten(seed, options);
    let mut text = format!(
        "seed {seed} fails with the first {} of {} steps:\n",
        report.steps,
        options.theme.plan(seed).steps.len()
    );
    let skipped = report.trace.len().saturating_sub(LINES);
    if skipped > 0 {
        text.push_str(&format!("   ... {skipped} lines before\n"));
    }
    for line in report.trace.iter().skip(skipped) {
        text.push_str(&format!("{line}\n"));
    }
    for anomaly in report.anomalies.iter().take(20) {
        text.push_str(&format!("{anomaly}\n"));
    }
    text
}
