#![no_main]

#[path = "../../crates/door-nfs/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::nfs(data));
