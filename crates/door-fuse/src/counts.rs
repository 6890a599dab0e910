//! How many requests the kernel sent, by kind.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_fuse::Operation;

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

/// Its name in the counts; none for what is not counted.
pub(crate) fn counted(operation: &Operation<'_>) -> &'static str {
    use Operation as O;
    match operation {
        O::Read { .. } => "read",
        O::Write { .. } => "write",
        O::Lookup { .. } => "lookup",
        O::Getattr | O::Statx => "getattr",
        O::Open { .. } => "open",
        O::Release { .. } => "release",
        O::Create { .. } => "create",
        O::Unlink { .. } => "unlink",
        O::Readdirplus { .. } => "readdirplus",
        O::Setattr(_) => "setattr",
        O::Fsync { .. } => "fsync",
        O::Getxattr { .. } => "getxattr",
        O::Readdir { .. } => "readdir",
        O::Opendir => "opendir",
        O::Releasedir { .. } => "releasedir",
        O::Rename { .. } => "rename",
        O::Mkdir { .. } => "mkdir",
        O::Rmdir { .. } => "rmdir",
        O::Link { .. } => "link",
        O::Symlink { .. } => "symlink",
        O::Readlink => "readlink",
        O::Mknod { .. } => "mknod",
        O::Flush { .. } => "flush",
        O::Fsyncdir => "fsyncdir",
        O::Statfs => "statfs",
        O::Setxattr { .. } => "setxattr",
        O::Listxattr { .. } => "listxattr",
        O::Removexattr { .. } => "removexattr",
        O::Setlk { .. } => "setlk",
        O::Lseek { .. } => "lseek",
        O::Fallocate { .. } => "fallocate",
        O::CopyFileRange { .. } => "copy_file_range",
        _ => "",
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
