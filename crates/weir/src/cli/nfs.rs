//! The command line of what is about NFS: serving, exports, access points, clients.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_door_nfs::Network;

use crate::api::ExportLimit;
use crate::values;

/// Where the volume is served by NFS.
#[derive(Args, Debug)]
pub(crate) struct NfsArgs {
    /// Serve the volume by NFS 4.1 and 4.2 on this address; 2049 is NFS's port
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) nfs: Option<SocketAddr>,
    /// PEM file with the certificates of --nfs, its own first: clients may use TLS then
    #[arg(long, value_name = "FILE", requires_all = ["nfs", "nfs_tls_key"])]
    pub(crate) nfs_tls_cert: Option<PathBuf>,
    /// PEM file with the key of --nfs-tls-cert
    #[arg(long, value_name = "FILE", requires = "nfs_tls_cert")]
    pub(crate) nfs_tls_key: Option<PathBuf>,
    /// PEM file with authorities: only TLS with a certificate of theirs is begun (xprtsec=mtls)
    #[arg(long, value_name = "FILE", requires = "nfs_tls_cert")]
    pub(crate) nfs_tls_client_ca: Option<PathBuf>,
    /// Let in nobody without TLS
    #[arg(long, requires = "nfs_tls_cert")]
    pub(crate) nfs_tls_required: bool,
    /// After how long others may have what a silent NFS client holds, and how long clients are waited for
    /// after a restart, at most [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, requires = "nfs")]
    pub(crate) nfs_lease: Option<u64>,
    /// Ask this machine's /etc/group for the groups of users in 16 or more, of which NFS tells 16
    #[arg(long, requires = "nfs")]
    pub(crate) manage_gids: bool,
}

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  weir export list s3://my-bucket/vol
  weir export add s3://my-bucket/vol /home --name home --allow 10.0.0.0/8
  weir export add s3://my-bucket/vol /data --name data --ro --squash none
  weir export add s3://my-bucket/vol / --name '' --squash none     host:/ itself, with root as root
  weir export remove s3://my-bucket/vol home
  mount -t nfs4 -o vers=4.1,hard host:/home /mnt

A volume that is served with --nfs exports all of itself as host:/, to everybody who reaches the
address, with root squashed, until `weir export remove URL ''`. What is changed holds from the next
request of any client on, and over restarts.";

/// What of a volume NFS clients may mount.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    pub(crate) command: ExportCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ExportCommand {
    /// Export a directory, or change how it is exported
    Add(ExportAddArgs),
    /// Show what is exported
    List {
        /// The volume that is served, or where it is mounted
        #[arg(value_name = "URL|DIR")]
        place: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Export something no more
    Remove {
        /// The volume that is served, or where it is mounted
        #[arg(value_name = "URL|DIR")]
        place: PathBuf,
        /// What clients mount it as
        name: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ExportAddArgs {
    /// The volume that is served, or where it is mounted
    #[arg(value_name = "URL|DIR")]
    pub(crate) place: PathBuf,
    /// The directory, below the volume's root
    pub(crate) path: String,
    /// What clients mount it as: host:/NAME
    #[arg(long)]
    pub(crate) name: String,
    /// Clients change nothing in it
    #[arg(long, conflicts_with = "rw")]
    pub(crate) ro: bool,
    /// Clients may change it; this is how it is without --ro
    #[arg(long)]
    pub(crate) rw: bool,
    /// Who is somebody else: root, all or none
    #[arg(long, value_name = "WHO", value_enum, default_value = "root")]
    pub(crate) squash: Who,
    /// Who those are
    #[arg(long, value_name = "UID:GID", default_value = "65534:65534", value_parser = user_and_group)]
    pub(crate) anonymous: (u32, u32),
    /// From where it may be mounted: an address or a network; several times for several
    #[arg(long, value_name = "IP[/BITS]")]
    pub(crate) allow: Vec<Network>,
    /// MiB a second that all may move in the directory together, by whatever door, or none: its rule of
    /// `weir throughput`, provisioned. Reads count a third
    #[arg(long, value_name = "N|none", value_parser = limit)]
    pub(crate) mibps: Option<ExportLimit>,
    /// Answer changes of names and attributes before they are durable
    #[arg(long = "async")]
    pub(crate) asynchronous: bool,
    /// Only by TLS
    #[arg(long)]
    pub(crate) tls: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who is squashed.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Who {
    Root,
    All,
    None,
}

pub(super) const ACCESS_POINT_EXAMPLES: &str = "\
Examples:
  weir access-point create s3://my-bucket/vol ap1 --path /projects/x --uid 1000 --gid 1000 --mode 0750
  weir access-point create s3://my-bucket/vol ap2 --path /projects/y --uid 1001 --gid 1001 --groups 50,60
  weir access-point delete s3://my-bucket/vol ap1
  mount -t nfs4 -o vers=4.1,hard host:/ap1 /mnt

An access point is an export in which everybody is one user; `weir export list` shows it too. Its
directory is made if it is not there, and stays when the access point is deleted.";

/// Exports with a user of their own, as EFS has them.
#[derive(Args, Debug)]
pub(crate) struct AccessPointArgs {
    #[command(subcommand)]
    pub(crate) command: AccessPointCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AccessPointCommand {
    /// Make one
    Create(AccessPointCreateArgs),
    /// End one
    Delete {
        /// The volume that is served, or where it is mounted
        #[arg(value_name = "URL|DIR")]
        place: PathBuf,
        name: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct AccessPointCreateArgs {
    /// The volume that is served, or where it is mounted
    #[arg(value_name = "URL|DIR")]
    pub(crate) place: PathBuf,
    /// What clients mount it as: host:/NAME
    pub(crate) name: String,
    /// Its directory, below the volume's root
    #[arg(long)]
    pub(crate) path: String,
    /// The user that everybody is
    #[arg(long)]
    pub(crate) uid: u32,
    /// The group that everybody is in
    #[arg(long)]
    pub(crate) gid: u32,
    /// Other groups that everybody is in
    #[arg(long, value_delimiter = ',', value_name = "GID,...")]
    pub(crate) groups: Vec<u32>,
    /// MiB a second that all may move in the directory together, by whatever door, or none: its rule of
    /// `weir throughput`, provisioned. Reads count a third
    #[arg(long, value_name = "N|none", value_parser = limit)]
    pub(crate) mibps: Option<ExportLimit>,
    /// Permission bits of the directory, if it is made
    #[arg(long, value_name = "OCTAL", default_value = "0755", value_parser = octal)]
    pub(crate) mode: u32,
    /// Clients change nothing in it
    #[arg(long)]
    pub(crate) ro: bool,
    /// From where it may be mounted: an address or a network; several times for several
    #[arg(long, value_name = "IP[/BITS]")]
    pub(crate) allow: Vec<Network>,
    /// Only by TLS
    #[arg(long)]
    pub(crate) tls: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const CLIENTS_EXAMPLES: &str = "\
Examples:
  weir clients s3://my-bucket/vol
  weir clients s3://my-bucket/vol --by-export             what was done, also by those that are gone
  weir clients s3://my-bucket/vol --json

It shows who has the volume mounted by NFS. A client that is silent for longer than the lease keeps
what it holds until somebody else wants it.";

#[derive(Args, Debug)]
pub(crate) struct ClientsArgs {
    /// The volume that is served, or where it is mounted
    #[arg(value_name = "URL|DIR")]
    pub(crate) place: PathBuf,
    /// What was done since the server began, by address and export
    #[arg(long)]
    pub(crate) by_export: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn user_and_group(text: &str) -> Result<(u32, u32), String> {
    let parse = || {
        let (uid, gid) = text.split_once(':')?;
        Some((uid.parse().ok()?, gid.parse().ok()?))
    };
    parse().ok_or_else(|| format!("`{text}` is no user and group: give numbers, as 65534:65534"))
}

fn limit(text: &str) -> Result<ExportLimit, String> {
    if text == "none" {
        return Ok(ExportLimit::None);
    }
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    let wrong = || format!("`{text}` is no limit: give MiB a second, as 50, or `none`");
    rate.map(ExportLimit::MibPerS).ok_or_else(wrong)
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("`{text}` are no permission bits: give octal digits, as 0750"))
}
