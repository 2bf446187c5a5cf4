#![no_main]

use ottla_fuzz::reference;

libfuzzer_sys::fuzz_target!(init: reference::ready(), |data: &[u8]| reference::differential(data));
