//! How a volume is mounted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_fuse::MountOptions;
use weir_types::{ErrorKind, FsError, Result, UnixTime};

/// The file system type in `mount(8)` is `fuse.weir`.
const SUBTYPE: &str = "weir";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The wall clock: what `utimensat(UTIME_NOW)` sets.
pub type Now = Arc<dyn Fn() -> UnixTime + Send + Sync>;

/// How requests come from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// As serves most: from `/dev/fuse`.
    #[default]
    Auto,
    /// From `/dev/fuse`.
    Dev,
    /// Over io_uring where the kernel offers it and the mount is exclusive, else from `/dev/fuse`.
    Uring,
}

/// How one volume is mounted.
#[derive(Clone)]
pub struct FuseOptions {
    /// The directory to mount on; see [`crate::check_mountpoint`].
    pub mountpoint: PathBuf,
    /// The volume's URL, shown as the device in `mount(8)` and `df`.
    pub fs_name: String,
    /// Mount read-only: the kernel refuses every change with EROFS.
    pub read_only: bool,
    /// Nothing but this mount changes the volume while it is mounted: no other door of this
    /// daemon and no other node. The kernel then keeps file data and listings over opens, decides
    /// where an append lands, and serves the advisory locks itself, without a round trip. Without
    /// it all of that comes to the daemon, and lifetimes should be short.
    pub exclusive: bool,
    /// Other nodes change the volume, and this mount knows what they changed whenever a file is opened.
    pub among_nodes: bool,
    /// Another door of this daemon changes the volume, and has [`crate::FuseView`] told of each change
    /// ([`weir_engine::OtherDoor`]) before its own client knows: the kernel remembers as long as where the
    /// mount is exclusive, but asks the daemon for locks and for where an append lands.
    pub beside: bool,
    /// Let every user in, as local file systems do; else only the one who mounted. Users other
    /// than root need `user_allow_other` in /etc/fuse.conf for it.
    pub allow_other: bool,
    /// Event loops, each with its own channel to the kernel. Default 4, least 1. More help only
    /// with many clients at once, and take 16 MiB of address space each.
    pub threads: usize,
    /// How long the kernel may answer `stat` from memory. Default a day where exclusive, for then
    /// nothing changes behind it, else 1 s.
    pub attr_ttl: Duration,
    /// How long the kernel may remember that a name is there, or is not. Default as `attr_ttl`.
    pub entry_ttl: Duration,
    /// How far the kernel reads ahead of a sequential reader, in KiB. Default 4096; the kernel's
    /// own is 128, too small for requests of 1 MiB. Needs root; else it stays as it is.
    pub read_ahead_kib: u32,
    /// Let the kernel read resident files without the daemon, where it can and the mount is
    /// exclusive or among nodes. Default yes.
    pub passthrough: bool,
    /// Keep and obey POSIX access control lists. Default no: `ls -l` asks for the list of each
    /// file. A volume that ever had one is mounted with it in any case.
    pub acl: bool,
    /// Keep when files, directories and symlinks were read last, as `relatime` does. Default no: the
    /// mount is one with `noatime`, as one that is read-only always is.
    pub relatime: bool,
    /// How requests come from the kernel. Default [`Transport::Auto`].
    pub transport: Transport,
    /// More mount options, as `-o` takes them: `noexec`, `noatime`, `nosuid`, `nodev`, …
    pub extra: Vec<String>,
    /// The wall clock; the one the engine was built with.
    pub now: Now,
}

impl FuseOptions {
    /// The defaults for mounting `fs_name` on `mountpoint`: exclusive and writable.
    pub fn new(mountpoint: impl Into<PathBuf>, fs_name: impl Into<String>, now: Now) -> Self {
        Self {
            mountpoint: mountpoint.into(),
            fs_name: fs_name.into(),
            read_only: false,
            exclusive: true,
            among_nodes: false,
            beside: false,
            allow_other: rustix::process::geteuid().is_root(),
            threads: 4,
            attr_ttl: DAY,
            entry_ttl: DAY,
            read_ahead_kib: 4096,
            passthrough: true,
            acl: false,
            relatime: false,
            transport: Transport::Auto,
            extra: Vec::new(),
            now,
        }
    }

    /// The same, where others change the volume: a read-only follower, or a volume that another
    /// door serves too. What the kernel remembers is a second old at most.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.exclusive = false;
        self.attr_ttl = Duration::from_secs(1);
        self.entry_ttl = Duration::from_secs(1);
        self
    }

    /// The same, where other nodes change the volume: names are asked for each time, so that who opens a
    /// file finds it as it was when its last writer closed it.
    #[must_use]
    pub fn among_nodes(self) -> Self {
        Self { entry_ttl: Duration::ZERO, among_nodes: true, ..self.shared() }
    }

    /// The same, beside another door of this daemon that tells of what it changes.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { exclusive: false, beside: true, ..self }
    }

    /// Whether nothing changes that this kernel did not change itself or is not told of.
    pub(crate) fn knows_all(&self) -> bool {
        self.exclusive || (self.beside && !self.among_nodes)
    }

    /// What the mount itself takes of it all.
    pub(crate) fn mount_options(&self) -> Result<MountOptions> {
        let user = !rustix::process::geteuid().is_root();
        if user && self.allow_other && !users_may_allow_other() {
            let text = "--allow-other: users may let others in only where root put the line \
                        `user_allow_other` into /etc/fuse.conf: ask for that, or mount without";
            return Err(FsError::new(ErrorKind::Permission, text));
        }
        let mut options = MountOptions {
            source: self.fs_name.clone(),
            subtype: SUBTYPE.to_owned(),
            flags: Vec::new(),
            words: vec!["default_permissions".to_owned()],
        };
        if self.read_only {
            options.flags.push("ro".to_owned());
        }
        if self.allow_other {
            options.words.push("allow_other".to_owned());
        }
        for text in &self.extra {
            for word in text.split(',').filter(|word| !word.is_empty()) {
                add_option(&mut options, word)?;
            }
        }
        let noatime = "noatime".to_owned();
        if (!self.relatime || self.read_only) && !options.flags.contains(&noatime) {
            options.flags.push(noatime);
        }
        Ok(options)
    }
}

/// Whether users who are not root may let others into their mounts, as /etc/fuse.conf says it. One
/// that they cannot read is taken for a yes: fusermount3 decides.
pub fn users_may_allow_other() -> bool {
    match std::fs::read_to_string("/etc/fuse.conf") {
        Ok(text) => text.lines().any(|line| line.trim() == "user_allow_other"),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// One word after `-o`. Those that change what the door promises are refused.
fn add_option(options: &mut MountOptions, word: &str) -> Result<()> {
    match word {
        "nodev" | "nosuid" | "noexec" | "noatime" | "sync" | "dirsync" => {
            options.flags.push(word.to_owned());
        }
        // What a mount is without them, as in `mount(8)`'s `defaults`.
        "dev" | "suid" | "exec" | "atime" | "async" | "default_permissions" => {}
        _ if word.starts_with("context=") || word.starts_with("max_read=") => {
            options.words.push(word.to_owned());
        }
        _ => {
            let text = format!(
                "mount option `{word}` is not known: use dev, nodev, suid, nosuid, exec, noexec, \
                 atime, noatime, sync, async, dirsync, context=… or max_read=…"
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(extra: &[&str]) -> FuseOptions {
        let mut options = FuseOptions::new("/mnt", "s3://b/v", Arc::new(|| UnixTime(0)));
        options.extra = extra.iter().map(|word| (*word).to_owned()).collect();
        options
    }

    #[test]
    fn permissions_are_always_checked_and_devices_work_unless_told() {
        let plain = options(&[]).mount_options().unwrap();
        assert!(plain.words.contains(&"default_permissions".to_owned()));
        assert_eq!(plain.source, "s3://b/v");
        let strict = options(&["nodev,nosuid", "noexec,exec"]).mount_options().unwrap();
        assert_eq!(strict.flags, ["nodev", "nosuid", "noexec", "noatime"]);
    }

    #[test]
    fn the_kernel_shows_whether_times_of_reads_are_kept() {
        let flags = |relatime, read_only, extra: &[&str]| {
            let options = FuseOptions { relatime, read_only, ..options(extra) };
            options.mount_options().unwrap().flags
        };
        assert_eq!(flags(false, false, &[]), ["noatime"]);
        assert!(flags(true, false, &[]).is_empty());
        assert_eq!(flags(true, true, &[]), ["ro", "noatime"]);
        assert_eq!(flags(false, false, &["noatime"]), ["noatime"]);
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        let error = options(&["big_writes"]).mount_options().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("big_writes"), "{error}");
    }

    #[test]
    fn sharing_shortens_what_the_kernel_remembers() {
        let shared = options(&[]).shared();
        assert!(!shared.exclusive);
        assert!(shared.attr_ttl <= Duration::from_secs(1));
        assert!(shared.entry_ttl <= Duration::from_secs(1));
    }

    #[test]
    fn beside_another_door_the_kernel_remembers_as_if_it_were_alone_and_locks_here() {
        let beside = options(&[]).beside();
        assert!(!beside.exclusive && beside.knows_all());
        assert_eq!((beside.attr_ttl, beside.entry_ttl), (DAY, DAY));
        let nodes = options(&[]).beside().among_nodes();
        assert!(nodes.beside && !nodes.knows_all() && nodes.entry_ttl.is_zero());
    }
}
