//! Every seed holds every invariant, and together they meet every fault and every state that the simulation is for.

#![allow(clippy::panic)]

use ottla_sim::run::Options;
use ottla_sim::summary::{Summary, explain};
use ottla_sim::theme::Theme;

fn hold_and_meet_everything(theme: Theme, seeds: u64) {
    let options = Options {
        theme,
        ..Options::default()
    };
    let summary = Summary::of(options, 0..seeds, |_, _| {});
    if let Some(seed) = summary.failed.first() {
        let text = explain(*seed, options);
        panic!("{text}\nseeds that failed: {:?}", summary.failed);
    }
    let missing = summary.missing();
    assert!(missing.is_empty(), "{missing:#?}\n{summary}");
}

#[test]
fn five_hundred_seeds_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Everything, 500);
}

#[test]
fn three_hundred_seeds_of_leaders_of_the_past_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Deposed, 300);
}

#[test]
fn a_thousand_seeds_of_truncated_logs_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Truncated, 1000);
}

#[test]
fn a_thousand_seeds_of_transactions_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Transactions, 1000);
}

#[test]
fn a_thousand_seeds_of_share_groups_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Share, 1000);
}

#[test]
fn a_thousand_seeds_of_groups_whose_coordinators_assign_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::ConsumerGroups, 1000);
}

#[test]
fn a_thousand_seeds_of_groups_hold_and_meet_everything() {
    hold_and_meet_everything(Theme::Groups, 1000);
}
