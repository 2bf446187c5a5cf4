//! The same seed is the same run, byte for byte; another seed, another network or another step is another run.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use ottla_sim::run::{Options, run};
use ottla_sim::theme::Theme;

fn trace(seed: u64, steps: Option<usize>) -> Vec<String> {
    trace_of(Theme::Everything, seed, steps)
}

fn trace_of(theme: Theme, seed: u64, steps: Option<usize>) -> Vec<String> {
    let options = Options {
        theme,
        trace: true,
        steps,
        ..Options::default()
    };
    run(seed, options).trace
}

#[test]
fn a_seed_repeats_itself_and_no_other_seed_does() {
    for seed in [1, 2, 3, 17, 99, 1234] {
        let first = trace(seed, None);
        assert!(first.len() > 100, "{} lines", first.len());
        assert_eq!(first, trace(seed, None), "seed {seed}");
        assert_ne!(first, trace(seed + 1, None), "seed {seed}");
    }
}

fn repeats_itself(theme: Theme) {
    for seed in [1, 2, 3, 17, 99] {
        let first = trace_of(theme, seed, None);
        assert!(first.len() > 100, "{} lines", first.len());
        assert_eq!(first, trace_of(theme, seed, None), "seed {seed}");
        assert_ne!(first, trace_of(theme, seed + 1, None), "seed {seed}");
    }
}

#[test]
fn a_seed_of_groups_repeats_itself() {
    repeats_itself(Theme::Groups);
}

#[test]
fn a_seed_of_share_groups_repeats_itself() {
    repeats_itself(Theme::Share);
}

#[test]
fn a_seed_of_groups_whose_coordinators_assign_repeats_itself() {
    repeats_itself(Theme::ConsumerGroups);
}

#[test]
fn a_seed_of_transactions_repeats_itself() {
    repeats_itself(Theme::Transactions);
}

#[test]
fn a_seed_of_deposed_leaders_repeats_itself() {
    repeats_itself(Theme::Deposed);
}

#[test]
fn a_seed_of_truncated_logs_repeats_itself() {
    repeats_itself(Theme::Truncated);
}

/// What another process prints of a seed: one with other addresses in memory, and other seeds of what the standard library
/// draws by itself.
fn printed(theme: &str, seed: u64) -> String {
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_simulate"));
    if !theme.is_empty() {
        simulate.arg(theme);
    }
    let done = simulate.args(["seed", &seed.to_string()]).output().unwrap();
    assert!(done.status.success(), "{theme} seed {seed}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn another_process_runs_the_same() {
    // Everything has no name.
    let of_themes = [
        "transactions",
        "groups",
        "consumer-groups",
        "deposed",
        "truncated",
        "share",
    ];
    for name in std::iter::once("").chain(of_themes) {
        let theme = Theme::named(name).unwrap_or_default();
        for seed in [7, 42] {
            let mut here = trace_of(theme, seed, None).join("\n");
            here.push('\n');
            assert!(here.lines().count() > 100);
            let there = printed(name, seed);
            let mut both = here.lines().zip(there.lines());
            assert_eq!(
                both.find(|(one, other)| one != other),
                None,
                "{name} {seed}"
            );
            assert!(here == there, "{name} {seed}: one is longer");
            assert!(here != printed(name, seed + 1), "{name} {seed}");
        }
    }
}

#[test]
fn one_step_less_is_another_run_with_the_same_beginning() {
    let all = Theme::Everything.plan(5).steps;
    let whole = trace(5, None);
    assert_eq!(whole, trace(5, Some(all.len())));
    let shorter = trace(5, Some(all.len() - 1));
    assert_ne!(whole, shorter);
    let common = whole.iter().zip(&shorter).take_while(|(a, b)| a == b);
    assert!(common.count() > whole.len() / 4);
}

#[test]
fn a_prefix_of_steps_is_found_by_which_a_defect_shows() {
    let options = Options {
        plant: Some(ottla_sim::plant::Plant::OffsetsTooHigh),
        ..Options::default()
    };
    let seed = (0..200).find(|seed| !run(*seed, options).anomalies.is_empty());
    let report = ottla_sim::run::shorten(seed.unwrap(), options);
    assert!(!report.anomalies.is_empty());
    assert!(!report.trace.is_empty());
    let fewer = report.steps.checked_sub(1).map(|steps| {
        let options = Options {
            steps: Some(steps),
            ..options
        };
        run(seed.unwrap(), options).anomalies
    });
    assert_eq!(fewer.unwrap_or_default(), []);
}
