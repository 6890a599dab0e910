#![no_main]

#[path = "../../crates/door-block/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::nbd(data));
