//! The example of a whole file system, mounted and used.
//!
//! Where nothing can be mounted the test says so and does nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/memory.rs"]
mod memory;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::mount::UnmountFlags;

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn is_used(dir: &Path) {
    let at = |name: &str| dir.join(name);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(at("a"), &bytes).unwrap();
    assert!(fs::read(at("a")).unwrap() == bytes);
    assert!(File::open(at("nothing")).is_err());
    for number in 0..300 {
        fs::write(at(&format!("n{number}")), "text").unwrap();
    }
    assert_eq!(names(dir).len(), 301);

    fs::rename(at("a"), at("n7")).unwrap();
    assert_eq!(fs::metadata(at("n7")).unwrap().len(), bytes.len() as u64);
    let mut open = File::options().read(true).write(true).open(at("n7")).unwrap();
    fs::remove_file(at("n7")).unwrap();
    open.seek(SeekFrom::Start(1)).unwrap();
    open.write_all(b"x").unwrap();
    open.set_len(3).unwrap();
    let mut read = Vec::new();
    open.seek(SeekFrom::Start(0)).unwrap();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(read, [0, b'x', 2], "a file without a name lives until its last close");
    drop(open);
    assert_eq!(names(dir).len(), 299);
}

#[test]
fn the_example_is_a_file_system() {
    let dir = std::env::temp_dir().join(format!("weir-memory-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let session = match memory::mount(&dir) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("SKIPPED: mounting on {}: {error}", dir.display());
            return fs::remove_dir(&dir).unwrap();
        }
    };
    let serving = std::thread::spawn(|| session.serve(Arc::new(memory::Memory::default()), 2));
    let used = std::panic::catch_unwind(|| is_used(&dir));
    rustix::mount::unmount(&dir, UnmountFlags::DETACH).unwrap();
    serving.join().unwrap().unwrap();
    fs::remove_dir(&dir).unwrap();
    used.unwrap();
}
