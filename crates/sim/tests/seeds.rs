//! Every seed holds every invariant, and together they meet every fault and every state that the simulation is for.
//!
//! By default each theme runs the first tenth of its seeds, and every seed that ever failed runs too. The ignored tests run all
//! seeds, and check that each fault struck and each state was entered; `make nightly` runs 20,000 new ones of each theme.

#![allow(clippy::panic)]

use ottla_sim::run::{Options, run};
use ottla_sim::summary::{Summary, explain};
use ottla_sim::theme::Theme;

/// How many seeds of a theme meet every fault and state.
fn enough(theme: Theme) -> u64 {
    match theme {
        Theme::Everything => 500,
        Theme::Deposed => 300,
        _ => 1000,
    }
}

fn hold(theme: Theme, seeds: u64) -> Summary {
    let options = Options {
        theme,
        ..Options::default()
    };
    let summary = Summary::of(options, 0..seeds, |_, _| {});
    if let Some(seed) = summary.failed.first() {
        let text = explain(*seed, options);
        panic!("{text}\nseeds that failed: {:?}", summary.failed);
    }
    summary
}

fn hold_and_meet_everything(theme: Theme) {
    let summary = hold(theme, enough(theme));
    let missing = summary.missing();
    assert!(missing.is_empty(), "{missing:#?}\n{summary}");
}

#[test]
fn the_first_tenth_of_each_theme_holds() {
    for theme in Theme::ALL {
        let summary = hold(theme, enough(theme) / 10);
        assert!(summary.records.1 > 0, "{theme:?}: nothing was read");
    }
}

/// `found_seeds.txt`: `[hostile] THEME SEED` on each line.
#[test]
fn every_seed_that_ever_failed_holds() {
    let lines = include_str!("found_seeds.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (hostile, theme, seed) = match words.as_slice() {
            [theme, seed] => (false, *theme, *seed),
            ["hostile", theme, seed] => (true, *theme, *seed),
            _ => panic!("found_seeds.txt: {line:?} is not `[hostile] THEME SEED`"),
        };
        let (Some(theme), Ok(seed)) = (Theme::named(theme), seed.parse()) else {
            panic!("found_seeds.txt: {line:?} is not `[hostile] THEME SEED`");
        };
        let options = Options {
            theme,
            hostile,
            ..Options::default()
        };
        if !run(seed, options).anomalies.is_empty() {
            panic!("{line}: {}", explain(seed, options));
        }
    }
}

#[test]
#[ignore = "nightly: 500 seeds"]
fn seeds_of_everything_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Everything);
}

#[test]
#[ignore = "nightly: 300 seeds"]
fn seeds_of_deposed_leaders_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Deposed);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn seeds_of_truncated_logs_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Truncated);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn seeds_of_transactions_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Transactions);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn seeds_of_share_groups_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Share);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn seeds_of_groups_whose_coordinators_assign_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::ConsumerGroups);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn seeds_of_groups_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Groups);
}
