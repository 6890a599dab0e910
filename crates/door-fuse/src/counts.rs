//! How many requests the kernel sent, by kind.

use std::sync::atomic::{AtomicU64, Ordering};

/// All kinds, the frequent ones first.
const OPS: [&str; 32] = [
    "read",
    "write",
    "lookup",
    "getattr",
    "open",
    "release",
    "create",
    "unlink",
    "readdirplus",
    "setattr",
    "fsync",
    "getxattr",
    "readdir",
    "opendir",
    "releasedir",
    "rename",
    "mkdir",
    "rmdir",
    "link",
    "symlink",
    "readlink",
    "mknod",
    "flush",
    "fsyncdir",
    "statfs",
    "setxattr",
    "listxattr",
    "removexattr",
    "setlk",
    "lseek",
    "fallocate",
    "copy_file_range",
];

/// A counter for each kind of request.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counts: [AtomicU64; OPS.len()],
}

impl Counts {
    /// One more of `op`; of what is not named above, none.
    pub(crate) fn add(&self, op: &str) {
        if let Some(at) = OPS.iter().position(|name| *name == op) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those that came, by name.
    pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        OPS.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_told_by_name() {
        let counts = Counts::default();
        counts.add("read");
        counts.add("read");
        counts.add("copy_file_range");
        assert_eq!(counts.all(), [("read", 2), ("copy_file_range", 1)]);
    }
}
