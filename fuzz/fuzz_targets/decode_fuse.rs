#![no_main]

#[path = "../../crates/fuse/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::fuse(data));
