#![no_main]

#[allow(dead_code, reason = "every target takes one of the entry points")]
#[path = "../../crates/segment/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::scan(data));
