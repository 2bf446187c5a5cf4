//! Every target with its seeds, with slight damage to them, and with every input that a fuzzer ever found.

// What stands outside the test function is test all the same.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;

use ottla_fuzz::{TARGETS, Target};

/// How many seeds each target is given here; `make fuzz` gives all.
const SEEDS: usize = 500;

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}

fn replay(name: &str) {
    let target = target(name);
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("found")
        .join(name);
    // A target that nothing was found for has no folder.
    for entry in found.read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        (target.run)(&std::fs::read(path).unwrap());
    }
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let step = seeds.len().div_ceil(SEEDS);
    for (number, seed) in seeds.into_iter().enumerate().step_by(step) {
        (target.run)(&seed);
        let mut damaged = seed;
        let place = number % damaged.len().max(1);
        if let Some(byte) = damaged.get_mut(place) {
            *byte = !*byte;
        }
        (target.run)(&damaged);
        damaged.truncate(place);
        (target.run)(&damaged);
    }
    (target.run)(&[]);
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_has_its_binary_and_is_replayed() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            for name in names {
                let binary = format!("{}/targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
                assert!(Path::new(&binary).exists(), "{binary}");
            }
        }
    };
}

replays! {
    request response message consumer_protocol reference records batch message_set segment internal frames connection sasl login
    old_broker certificates
}
