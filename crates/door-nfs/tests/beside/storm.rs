//! Programs of the mount look at everything all the time, so that answers of before are always on their way to
//! the kernel, while a client changes it: what it was told is what the mount shows then.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::both::Both;
use crate::common::attrs::Set;
use crate::common::codes::{OK, stable};
use crate::common::ops::{Open, close, remove, rename};
use crate::common::{noise, seed};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROUNDS: usize = 600;

/// Looks at all in every way until it is told to end.
fn look(at: &Path, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        for name in NAMES {
            let path = at.join(name);
            let _ = fs::metadata(&path);
            if let Ok(file) = fs::File::open(&path) {
                let _ = file.metadata();
                let _ = file.read_at(&mut [0; 8_192], 0);
            }
        }
        let entries = fs::read_dir(at).expect("lists").flatten();
        entries.for_each(|entry| drop(entry.metadata()));
    }
}

#[test]
fn what_a_client_was_told_is_what_the_mount_shows() {
    let Some(both) = Both::new() else { return };
    let mut random = StdRng::seed_from_u64(seed());
    let mut client = both.client("a");
    let root = client.root();
    let mut model: [Option<(Vec<u8>, u32)>; 4] = Default::default();
    let ends = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| look(&both.at, &ends));
        }
        // They end also where something is wrong.
        let _end = End(&ends);
        for round in 0..ROUNDS {
            let (one, two) = (random.random_range(0..4), random.random_range(0..4));
            match (random.random_range(0..5), model[one].clone()) {
                (0, Some(_)) => {
                    assert_eq!(client.stat(&root, remove(NAMES[one])), OK);
                    model[one] = None;
                }
                (1, Some(_)) if one != two => {
                    let renamed = client.between(&root, &root, rename(NAMES[one], NAMES[two]));
                    assert_eq!(renamed.stat, OK);
                    model[two] = model[one].take();
                }
                (2, Some((bytes, _))) => {
                    let mode = random.random_range(0..0o1000);
                    let file = client.lookup(&root, NAMES[one]).expect("is there");
                    assert_eq!(client.set(&file, &Set::new().mode(mode)), OK);
                    model[one] = Some((bytes, mode));
                }
                (_, Some((mut bytes, mode))) => {
                    let (at, len) = (random.random_range(0..6_000), random.random_range(1..3_000));
                    let data = noise(round as u64, len);
                    let (file, opened) =
                        client.open(&root, &Open::both(NAMES[one])).expect("opens");
                    let id = opened.id;
                    client.write(&file, id, at as u64, stable::UNSTABLE, &data).expect("writes");
                    assert_eq!(client.stat(&file, close(id)), OK);
                    bytes.resize(bytes.len().max(at + len), 0);
                    bytes[at..at + len].copy_from_slice(&data);
                    model[one] = Some((bytes, mode));
                }
                (_, None) => {
                    let data = noise(round as u64, random.random_range(0..5_000));
                    client.file(&root, NAMES[one], &data);
                    model[one] = Some((data, 0o644));
                }
            }
            for (name, wanted) in NAMES.iter().zip(&model) {
                check(&both.path(name), wanted.as_ref(), round);
            }
        }
    });
}

fn check(path: &Path, wanted: Option<&(Vec<u8>, u32)>, round: usize) {
    let found = fs::metadata(path);
    match wanted {
        None => assert!(found.is_err(), "{} is there in round {round}", path.display()),
        Some((bytes, mode)) => {
            let found = found.expect("it is there");
            let context = format!("{} in round {round}", path.display());
            assert_eq!(found.len(), bytes.len() as u64, "{context}");
            assert_eq!(found.mode() & 0o7777, *mode, "{context}");
            assert!(fs::read(path).expect("reads") == *bytes, "the bytes of {context}");
        }
    }
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
