//! `simulate`: many seeds, with a line of progress and a summary; or one, with its trace.
//!
//! ```text
//! simulate [THEME] COUNT [FIRST]     COUNT seeds from FIRST on (0) of a theme: everything (the default), transactions, groups,
//!                                    consumer-groups, deposed, truncated, share
//! simulate [THEME] seed SEED         one seed: its trace and its anomalies
//! simulate [THEME] traces COUNT [FIRST]    a line for each seed: its number, the lines of its trace, and their hash. A change that
//!                                    moves code and keeps its behaviour leaves all lines as they are
//! simulate hostile ...               the same at malicious brokers: only what holds whatever they send is checked
//! simulate plants                    the planted defects, by name, with the seeds that it takes to see each: docs/results/simulation.md
//! ```

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::process::ExitCode;

use ottla_sim::plant::Plant;
use ottla_sim::run::{Options, run};
use ottla_sim::summary::{Summary, explain, seen};
use ottla_sim::theme::Theme;

/// Seeds between two lines of progress.
const OFTEN: u64 = 250;

/// Failures that are explained; of the others only the seeds are printed.
const EXPLAINED: usize = 3;

/// Seeds in which a planted defect must be seen.
const MOST_FOR_A_PLANT: u64 = 200;

fn main() -> io::Result<ExitCode> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let hostile = words.first().is_some_and(|word| word == "hostile");
    if hostile {
        words.remove(0);
    }
    let theme = words.first().and_then(|word| Theme::named(word));
    if theme.is_some() {
        words.remove(0);
    }
    let options = Options {
        theme: theme.unwrap_or_default(),
        hostile,
        ..Options::default()
    };
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match (words.first().map(String::as_str), number(0), number(1)) {
        (Some("seed"), _, Some(seed)) => one(seed, options),
        (Some("traces"), _, Some(count)) => traces(count, number(2).unwrap_or(0), options),
        (Some("plants"), ..) => plants(),
        (_, Some(count), first) => many(count, first.unwrap_or(0), options),
        _ => {
            writeln!(
                io::stderr(),
                "simulate [hostile] [THEME] (COUNT [FIRST] | seed SEED | traces COUNT [FIRST]) | plants; THEME is everything, transactions, groups, consumer-groups, deposed, truncated or share"
            )?;
            Ok(ExitCode::from(2))
        }
    }
}

fn plants() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    writeln!(out, "| planted | seeds | seen as |\n|---|---|---|")?;
    let mut unseen = false;
    for plant in Plant::ALL {
        if plant.breaks() == ["memory"] {
            writeln!(out, "| {plant} | | what it keeps, in `tests/memory.rs` |")?;
            continue;
        }
        let found = seen(*plant, MOST_FOR_A_PLANT);
        let Some((first, _)) = found.first() else {
            unseen = true;
            writeln!(out, "| {plant} | not in {MOST_FOR_A_PLANT} | |")?;
            continue;
        };
        let said: Vec<_> = found
            .iter()
            .map(|(seeds, anomaly)| {
                let (invariant, name) = (anomaly.invariant, anomaly.name);
                match seeds == first {
                    true => format!("{invariant} {name}"),
                    false => format!("{invariant} {name} ({seeds})"),
                }
            })
            .collect();
        writeln!(out, "| {plant} | {first} | {} |", said.join(", "))?;
    }
    Ok(status(!unseen))
}

fn one(seed: u64, options: Options) -> io::Result<ExitCode> {
    let options = Options {
        trace: true,
        ..options
    };
    let report = run(seed, options);
    let mut out = io::stdout().lock();
    for line in &report.trace {
        writeln!(out, "{line}")?;
    }
    for anomaly in &report.anomalies {
        writeln!(out, "{anomaly}")?;
    }
    Ok(status(report.anomalies.is_empty()))
}

fn traces(count: u64, first: u64, options: Options) -> io::Result<ExitCode> {
    let options = Options {
        trace: true,
        ..options
    };
    let mut out = io::stdout().lock();
    for seed in first..first.saturating_add(count) {
        let lines = run(seed, options).trace;
        let mut hasher = DefaultHasher::new();
        lines.hash(&mut hasher);
        writeln!(out, "{seed} {} {:016x}", lines.len(), hasher.finish())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn many(count: u64, first: u64, options: Options) -> io::Result<ExitCode> {
    let mut failed = Ok(());
    let summary = Summary::of(
        options,
        first..first.saturating_add(count),
        |summary, report| {
            let mut err = io::stderr().lock();
            let written = if summary.failed.len() > EXPLAINED {
                Ok(())
            } else if !report.anomalies.is_empty() {
                let text = explain(report.seed, options);
                writeln!(err, "\n{text}")
            } else if summary.seeds % OFTEN == 0 {
                let hours = summary.time.as_secs_f64() / 3600.0;
                let bad = summary.failed.len();
                writeln!(
                    err,
                    "{} of {count} seeds, {hours:.1} simulated hours, {bad} failed",
                    summary.seeds
                )
            } else {
                Ok(())
            };
            if written.is_err() {
                failed = written;
            }
        },
    );
    failed?;
    writeln!(io::stdout(), "{summary}")?;
    Ok(status(
        summary.failed.is_empty() && (options.hostile || summary.missing().is_empty()),
    ))
}

fn status(fine: bool) -> ExitCode {
    match fine {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
