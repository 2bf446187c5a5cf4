//! Every seed holds every invariant, and together they meet every fault and every state that the simulation is for.

#![allow(clippy::panic)]

use ottla_sim::run::Options;
use ottla_sim::summary::{Summary, explain};

const SEEDS: u64 = 500;

#[test]
fn five_hundred_seeds_hold_and_meet_everything() {
    let summary = Summary::of(0..SEEDS, |_, _| {});
    if let Some(seed) = summary.failed.first() {
        let text = explain(*seed, Options::default());
        panic!("{text}\nseeds that failed: {:?}", summary.failed);
    }
    let missing = summary.missing();
    assert!(missing.is_empty(), "{missing:#?}\n{summary}");
}
