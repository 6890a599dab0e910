//! Files that a program of the mount has mapped.
#![allow(unsafe_code, reason = "a mapping is memory")]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use weir_door_fuse::FuseOptions;

use crate::both::Both;
use crate::common::codes::stable;
use crate::common::noise;
use crate::common::ops::Open;

const BYTES: usize = 256 << 10;

/// A shared mapping of a file.
struct Mapping(*mut u8);

impl Mapping {
    fn new(file: &File, access: i32) -> Self {
        let fd = file.as_raw_fd();
        // SAFETY: a new mapping is nobody's memory.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        // SAFETY: the mapping is as long as that, and the file never shorter.
        unsafe { std::ptr::copy_nonoverlapping(self.0, bytes.as_mut_ptr(), BYTES) };
        bytes
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= BYTES);
        // SAFETY: within the mapping, which is writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(at), bytes.len()) };
    }

    fn sync(&self) {
        // SAFETY: the mapping is as long as that.
        assert_eq!(unsafe { libc::msync(self.0.cast(), BYTES, libc::MS_SYNC) }, 0);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}

fn mapped(both: &Both) {
    let mut client = both.client("a");
    let root = client.root();
    let mut model = noise(1, BYTES);
    let file = client.file(&root, "file", &model);
    let held = File::open(both.path("file")).expect("opens");
    let mapping = Mapping::new(&held, libc::PROT_READ);
    assert!(mapping.bytes() == model);
    let (_, opened) = client.open(&root, &Open::both("file")).expect("opens");
    for round in 0..20 {
        let (at, data) = (round * 9_999, noise(round as u64 + 9, 5_000));
        client.write(&file, opened.id, at as u64, stable::UNSTABLE, &data).expect("writes");
        model[at..at + 5_000].copy_from_slice(&data);
        assert!(mapping.bytes() == model, "round {round}");
    }
    drop((mapping, held));
    let own = OpenOptions::new().read(true).write(true).open(both.path("file")).expect("opens");
    let mapping = Mapping::new(&own, libc::PROT_READ | libc::PROT_WRITE);
    for round in 0..20 {
        let (at, data) = (round * 7_777, noise(round as u64 + 99, 3_000));
        mapping.store(at, &data);
        model[at..at + 3_000].copy_from_slice(&data);
        mapping.sync();
        assert!(client.content(&file) == model, "stored in round {round}");
        // In the same pages.
        let data = noise(round as u64 + 999, 3_000);
        let at = at + 3_000;
        client.write(&file, opened.id, at as u64, stable::UNSTABLE, &data).expect("writes");
        model[at..at + 3_000].copy_from_slice(&data);
        assert!(mapping.bytes() == model, "written in round {round}");
    }
}

#[test]
fn a_mapping_shows_what_nfs_writes_and_nfs_what_is_stored_in_it() {
    let through = |options| FuseOptions { passthrough: false, ..options };
    let Some(both) = Both::with(through) else { return };
    mapped(&both);
}

#[test]
fn a_mapping_of_a_file_that_the_kernel_reads_by_itself_does_so_too() {
    let Some(both) = Both::new() else { return };
    mapped(&both);
}
