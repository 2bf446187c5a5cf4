//! Each planted defect is seen within 200 seeds, by an invariant that it breaks; and each invariant sees several of them, which
//! `make nightly` checks.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;

use ottla_sim::plant::Plant;
use ottla_sim::run::{Options, run};
use ottla_sim::summary::seen;
use ottla_sim::theme::Theme;

const SEEDS: u64 = 200;
/// Those that the simulation holds clients and brokers to. Of R15, `memory.rs` shows more.
const INVARIANTS: [&str; 17] = [
    "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R16",
    "R19", "R20",
];

/// All but those whose waste `memory.rs` measures.
fn seen_here() -> impl Iterator<Item = Plant> {
    let is_seen_here = |plant: &Plant| plant.breaks() != ["memory"];
    Plant::ALL.iter().copied().filter(is_seen_here)
}

#[test]
fn every_planted_defect_is_seen() {
    let is_seen = |plant: &Plant| {
        let options = Options {
            theme: Theme::showing(*plant),
            plant: Some(*plant),
            ..Options::default()
        };
        (0..SEEDS).any(|seed| {
            let anomalies = run(seed, options).anomalies;
            anomalies
                .iter()
                .any(|anomaly| plant.breaks().contains(&anomaly.invariant))
        })
    };
    let unseen: Vec<_> = seen_here().filter(|plant| !is_seen(plant)).collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
}

#[test]
#[ignore = "nightly: 20 seeds more of each planted defect"]
fn every_planted_defect_is_seen_and_each_invariant_sees_several() {
    assert!(Plant::ALL.len() >= 30);
    let mut unseen = Vec::new();
    let mut by_invariant = BTreeMap::<&str, Vec<&str>>::new();
    for plant in seen_here() {
        let found = seen(plant, SEEDS);
        if found.is_empty() {
            unseen.push(plant.name());
        }
        for (seeds, anomaly) in found {
            let (invariant, name) = (anomaly.invariant, anomaly.name);
            println!("{seeds:>4} seeds  {plant}: {invariant} {name}");
            by_invariant
                .entry(invariant)
                .or_default()
                .push(plant.name());
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
    for invariant in INVARIANTS {
        let found = by_invariant.remove(invariant).unwrap_or_default();
        assert!(found.len() >= 2, "{invariant} sees {found:?} alone");
        assert!(
            found.iter().any(|plant| plant.starts_with("client: ")),
            "{invariant} sees no mistake of a client: {found:?}"
        );
    }
}
