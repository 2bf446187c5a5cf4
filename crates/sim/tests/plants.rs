//! Each planted defect is seen within 200 seeds, by an invariant that it breaks.

#![allow(clippy::print_stdout)]

use ottla_sim::plant::Plant;
use ottla_sim::summary::seen;

const SEEDS: u64 = 200;

#[test]
fn every_planted_defect_is_seen() {
    assert!(Plant::ALL.len() >= 30);
    let mut unseen = Vec::new();
    // `memory.rs` measures what others waste.
    let seen_here = |plant: &&Plant| plant.breaks() != ["memory"];
    for plant in Plant::ALL.iter().filter(seen_here) {
        match seen(*plant, SEEDS) {
            Some((seeds, anomaly)) => {
                println!(
                    "{seeds:>4} seeds  {plant}: {} {}",
                    anomaly.invariant, anomaly.name
                );
            }
            None => unseen.push(plant.name()),
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}
