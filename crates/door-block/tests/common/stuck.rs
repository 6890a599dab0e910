//! A bucket that does not answer reads until it is let.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

/// Objects in whose places are pipes: who opens one waits until somebody writes it.
pub struct Stuck {
    objects: Vec<PathBuf>,
}

impl Stuck {
    /// Makes all objects of at least 1 MiB below a directory so.
    pub fn new(bucket: &Path) -> Self {
        let mut objects = Vec::new();
        find(bucket, &mut objects);
        assert!(!objects.is_empty(), "no objects of 1 MiB in {}", bucket.display());
        for object in &objects {
            fs::rename(object, beside(object, "kept")).expect("an object moves");
            rustix::fs::mknodat(CWD, object, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        }
        Self { objects }
    }
}

impl Drop for Stuck {
    /// Puts the objects back. Those who wait find an empty one.
    fn drop(&mut self) {
        for object in &self.objects {
            let pipe = beside(object, "pipe");
            fs::rename(object, &pipe).expect("a pipe moves");
            fs::rename(beside(object, "kept"), object).expect("an object moves");
            // Opened for both nobody waits for a reader, and every reader goes on.
            drop(OpenOptions::new().read(true).write(true).open(&pipe));
            let _ = fs::remove_file(&pipe);
        }
    }
}

fn find(directory: &Path, objects: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, found) = (entry.path(), entry.metadata().expect("metadata"));
        if found.is_dir() {
            find(&path, objects);
        } else if found.len() >= 1 << 20 {
            objects.push(path);
        }
    }
}

fn beside(object: &Path, what: &str) -> PathBuf {
    object.with_extension(what)
}
