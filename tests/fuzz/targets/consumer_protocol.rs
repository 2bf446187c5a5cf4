#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ottla_fuzz::consumer_protocol::blob(data));
