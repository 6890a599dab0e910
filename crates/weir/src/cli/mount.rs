//! The command line of the daemons: mounting, serving, and ending either.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_types::Bytes;

use super::connect::ConnectArgs;
use super::nfs::NfsArgs;
use crate::values;

pub(super) const MOUNT_EXAMPLES: &str = "\
Examples:
  weir mount s3://my-bucket/genomes /mnt/genomes --tier /nvme/weir
  weir mount s3://my-bucket/genomes /mnt/genomes --tier /nvme/weir --tier-size 400GiB \\
      --journal /ebs/weir --flush-age 10s
  weir mount s3://my-bucket/genomes /mnt/ro --tier /nvme/ro --read-only
  weir mount s3://my-bucket/genomes /mnt/genomes --tier /nvme/weir --nbd 127.0.0.1:10809
  weir mount s3://my-bucket/genomes /mnt/genomes --tier /nvme/weir --nfs 0.0.0.0:2049
  mount -t weir s3://my-bucket/genomes /mnt/genomes -o tier=/nvme/weir,tier-size=400GiB
  in /etc/fstab:
  s3://my-bucket/genomes /mnt/genomes weir tier=/nvme/weir,_netdev,nofail 0 0

It returns when the volume can be used, and goes on in the background. SIGTERM unmounts, flushes
and ends it; so does `weir umount`. Should the bucket be away then, the tier keeps what could not
leave, and the next mount with the same --tier goes on with it. After an end that was not clean a
mount without the tier or the journal of the last one is refused and says where they are; where a
tier is on a disk that forgets, -o accept-loss=tier mounts all the same.

With --nbd or --nbd-unix the volume's disks are served beside its files, and with --nfs its files to
other machines, which see what is changed here and the other way round; see `weir serve`.";

pub(super) const UMOUNT_EXAMPLES: &str = "\
Examples:
  weir umount /mnt/genomes           flushes, waits, and fails if somebody uses it, saying who
  weir umount /mnt/genomes --lazy    takes it out of the tree; ends when the last user does
  weir umount /mnt/genomes --force   waits five seconds for those who use it
  umount /mnt/genomes                the same as the first, where umount.fuse.weir is installed";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  weir serve s3://my-bucket/vol --tier /nvme/weir --nfs 0.0.0.0:2049
  mount -t nfs4 -o vers=4.1,hard host:/ /mnt        on any machine
  weir serve s3://my-bucket/vol --tier /nvme/weir --nfs 0.0.0.0:2049 --standby     on two machines
  weir serve s3://my-bucket/disks --tier /nvme/weir --nbd 127.0.0.1:10809
  weir serve s3://my-bucket/disks --tier /nvme/weir --nbd-unix /run/weir-disks
  weir serve s3://my-bucket/disks --tier /nvme/weir --nbd 0.0.0.0:10809 \\
      --nbd-tls-cert server.pem --nbd-tls-key server.key --nbd-tls-client-ca clients.pem
  weir serve s3://my-bucket/disks --tier /nvme/weir     for `weir attach` only
  qemu-img info nbd://127.0.0.1/NAME
  weir stop s3://my-bucket/disks

It returns when the volume can be used, and goes on in the background. SIGTERM and `weir stop` close
all connections, flush and end it. By NFS the volume is exported as a whole, to everybody who
reaches the address, with root squashed: `weir export` changes that. NBD knows no passwords: whoever reaches the address may read and
write every disk, unless --nbd-tls-client-ca says whose certificates to trust. A volume has one
writer: one that is mounted is served by the --nfs and --nbd of `weir mount`.";

pub(super) const STOP_EXAMPLES: &str = "\
Example:
  weir stop s3://my-bucket/disks     fails if a disk is attached and in use, saying where";

/// How a daemon runs: what mounting and serving have in common.
#[derive(Args, Debug)]
pub(crate) struct EngineArgs {
    /// Directory on a local disk for the tier; several volumes may share it
    #[arg(long, value_name = "DIR")]
    pub(crate) tier: PathBuf,
    /// Room that the tier may take, if its disk has that [default: 10GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) tier_size: Option<Bytes>,
    /// Size of the volume: what `df` shows, and what files may fill [default: none, as a bucket has no
    /// end]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Memory for the daemon's caches and transfers, about; the page cache is not among it
    /// [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Directory on a persistent disk for the journal: makes fsync as fast as that disk
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Have the kernel encrypt the tier and the journal on their disks (ext4, f2fs), by a key that comes
    /// from that of the volume, which must be encrypted
    #[arg(long)]
    pub(crate) encrypt_tier: bool,
    /// Where the metadata's database is reached, if not where `weir format` was told: databases move
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Change nothing; may run beside a writer
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Write the volume together with other nodes that mount it so: its metadata must be in a database
    #[arg(long, conflicts_with_all = ["read_only", "take_over", "journal"])]
    pub(crate) shared: bool,
    /// Where this node listens for others that mount with --shared, which give each other what they
    /// fetch; `off` to neither give nor take [default: any free port of the address by which it reaches
    /// the database]
    #[arg(long, value_name = "IP:PORT", requires = "shared")]
    pub(crate) peer_listen: Option<String>,
    /// By which address other nodes reach that, if by another one
    #[arg(long, value_name = "HOST:PORT", requires = "shared")]
    pub(crate) peer_address: Option<String>,
    /// Take the volume from a writer that is gone, or that is to stop
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Go on without what a last writer left that did not end cleanly: `tier`, what was not fsynced;
    /// `all`, also what was fsynced into a journal. Without this such a mount is refused
    #[arg(long, value_name = "WHAT", default_value = "nothing", hide_default_value = true)]
    pub(crate) accept_loss: Loss,
    /// Stay in the foreground, log to the terminal
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Age at which dirty data leaves for the bucket, such as 500ms or 10s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    pub(crate) flush_age: Option<u64>,
    /// JSON file with settings; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Log file, which SIGHUP opens anew [default: /var/log/weir/NAME.log, else NAME.log in the tier]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Serve a page for browsers, /metrics and what changes nothing of the API over HTTP, on a
    /// loopback address
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) admin_listen: Option<SocketAddr>,
    /// File with a token of 16 characters or more that only this user may read: who sends it to
    /// --admin-listen, as the page does when asked, may cancel actions there. Read at each request
    #[arg(long, value_name = "FILE", requires = "admin_listen")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Say `ready`, or what is wrong, on standard output; then be a daemon that logs to this file,
    /// which standard error is already
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) daemon: Option<PathBuf>,
    /// Go on in the place of another binary, with what it left in this descriptor
    #[arg(long, hide = true, value_name = "FD")]
    pub(crate) handed_over: Option<i32>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What may be missing of a writer that did not end cleanly.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// Nothing
    Nothing,
    /// Its tier
    Tier,
    /// Its tier and its journal
    All,
}

/// Where disks are served by NBD.
#[derive(Args, Debug)]
pub(crate) struct NbdArgs {
    /// Serve all disks by NBD on this address; 10809 is NBD's port
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) nbd: Option<SocketAddr>,
    /// Serve all disks by NBD on this Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) nbd_unix: Option<PathBuf>,
    /// PEM file with the certificates of --nbd, its own first: clients must use TLS then
    #[arg(long, value_name = "FILE", requires_all = ["nbd", "nbd_tls_key"])]
    pub(crate) nbd_tls_cert: Option<PathBuf>,
    /// PEM file with the key of --nbd-tls-cert
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_key: Option<PathBuf>,
    /// PEM file with authorities: only clients with a certificate of theirs are let in
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_client_ca: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Transport {
    Auto,
    Dev,
    Uring,
}

#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    /// The volume
    pub(crate) url: String,
    /// An empty directory to mount it on
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Options of the kernel's mount: noexec, nodev, nosuid, relatime, sync, ... [default: noatime]
    #[arg(short = 'o', value_name = "OPT,...")]
    pub(crate) options: Vec<String>,
    /// Let all users in [default: if root mounts]
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Keep and obey POSIX access control lists (setfacl); a volume that has any obeys them anyway
    #[arg(long)]
    pub(crate) acl: bool,
    /// FUSE event loops
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) threads: usize,
    /// Serve all reads by the daemon, also those of files that are wholly on the local disk
    #[arg(long)]
    pub(crate) no_passthrough: bool,
    /// How requests come from the kernel: `dev`, from /dev/fuse; `uring`, over io_uring, where the
    /// kernel offers it; `auto`, as `dev`
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    #[arg(env = "WEIR_TRANSPORT", hide_env = true)]
    pub(crate) transport: Transport,
    #[command(flatten)]
    pub(crate) nfs: NfsArgs,
    #[command(flatten)]
    pub(crate) nbd: NbdArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The volume
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) nfs: NfsArgs,
    /// Serve when no other machine does that was started so, too: wait as long as one lives, and take the
    /// volume when it is gone, or says nothing for 15 s
    #[arg(long, requires = "nfs")]
    #[arg(conflicts_with_all = ["shared", "read_only", "take_over", "journal", "nbd", "nbd_unix"])]
    pub(crate) standby: bool,
    #[command(flatten)]
    pub(crate) nbd: NbdArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// Where it is mounted
    pub(crate) dir: PathBuf,
    /// Take it out of the tree even if it is in use
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// Take it from those who still use it after five seconds; what they wrote is kept
    #[arg(short, long, conflicts_with = "lazy")]
    pub(crate) force: bool,
}

pub(super) const REMOUNT_EXAMPLES: &str = "\
Examples:
  weir remount -o ro /mnt/genomes
  mount -o remount,ro /mnt/genomes     the same, where mount.fuse.weir is installed";

#[derive(Args, Debug)]
pub(crate) struct RemountArgs {
    /// Where it is mounted
    pub(crate) dir: PathBuf,
    /// ro, rw, noexec, nodev, nosuid, noatime, sync, ...
    #[arg(short = 'o', value_name = "OPT,...")]
    pub(crate) options: Vec<String>,
}

pub(super) const UPGRADE_EXAMPLES: &str = "\
Examples:
  weir upgrade /mnt/genomes                                  to the weir that runs this command
  weir upgrade /mnt/genomes --binary /opt/weir-0.2/bin/weir

Programs that use the mount wait for a moment, and see no error: files that are open, mappings and
locks stay. What is in the way is told, and then nothing has changed. With the new binary in the
place of the old one and no way to use the volume, the old one goes on.";

#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    /// Where it is mounted
    pub(crate) dir: PathBuf,
    /// The program that is to go on [default: the one that runs this command]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    /// The volume that is served
    pub(crate) url: String,
}
