//! The right to write, as other machines see it: an object that names the process that writes. It
//! tells people whom to ask and this machine that the holder is dead; what protects the data is the
//! metadata's fencing.

use std::path::PathBuf;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_meta::{LastMount, Meta};
use weir_object::{Bucket, BucketUrl, Component, StripeSet};
use weir_types::{ErrorCode, ErrorKind, FsError, Result, VolumeFormat};

use super::format::{WRITER_KEY, read_format_in};
use super::host::Host;
use super::options::MountOptions;

/// The right to write, as other machines see it.
pub(crate) struct Lease {
    /// The mount that has it.
    pub(crate) mount: LastMount,
    /// The file that says where its log is, gone with a clean end.
    pub(crate) log_place: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    pub(crate) id: String,
    pub(crate) host: Host,
}

impl Lease {
    /// Says that the bucket has all that this mount was told.
    pub(crate) async fn end_cleanly(&self, meta: &Meta) -> Result<()> {
        meta.end_cleanly(&self.mount).await
    }

    /// Says that nobody writes the volume any more.
    pub(crate) async fn give_back(&self, buckets: &StripeSet) -> Result<()> {
        end_lease(buckets, &self.mount.node).await?;
        match std::fs::remove_file(&self.log_place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(FsError::local_io(format!("remove {}", self.log_place.display()), e))
            }
            _ => Ok(()),
        }
    }
}

/// Says that `id` does not write the volume any more.
pub(crate) async fn end_lease(buckets: &StripeSet, id: &str) -> Result<()> {
    match read_lease(buckets.first()).await?.is_some_and(|lease| lease.id == id) {
        true => buckets.first().delete(Component::Volume, WRITER_KEY).await,
        false => Ok(()),
    }
}

/// Who has a lease, in words, and whether it says that it lives.
pub(super) fn shown_of(lease: &LeaseRecord, beats: bool) -> String {
    let host = lease.host.shown();
    match beats {
        true => host,
        false => format!("{host}, which tells nobody that it lives: start it with --standby, too"),
    }
}

pub(crate) async fn read_lease(bucket: &Bucket) -> Result<Option<LeaseRecord>> {
    match bucket.get(Component::Volume, WRITER_KEY).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the right to write says of others.
pub(crate) struct Claim {
    /// Which mount has it, if any.
    id: Option<String>,
    /// Who has it, or had it when they died.
    pub(crate) from: Option<String>,
    /// It is taken from somebody who may be alive.
    pub(crate) forced: bool,
    /// That somebody is not this machine before it was booted: its disks may not be here.
    pub(crate) elsewhere: bool,
}

/// Looks who writes the volume, and refuses to disturb somebody who may be alive.
pub(crate) async fn claim(options: &MountOptions, buckets: &StripeSet) -> Result<Claim> {
    let Some(lease) = read_lease(buckets.first()).await? else {
        return Ok(Claim { id: None, from: None, forced: false, elsewhere: false });
    };
    let holder = &lease.host;
    let name = holder.shown();
    let forced = !options.host.knows_dead(holder);
    if options.only_clean && forced {
        return Err(unclean(&options.url, &name));
    }
    let elsewhere = !options.host.may_have_booted_since(holder);
    if !forced || options.take_over {
        let elsewhere = forced && elsewhere;
        return Ok(Claim { id: Some(lease.id), from: Some(name), forced, elsewhere });
    }
    let text = match elsewhere {
        true => format!(
            "{} is mounted for writing by {name}: unmount or stop it there, or take --read-only, \
             or, if that machine is gone, mount with --take-over (it is fenced, and what it had \
             not flushed stays in its tier)",
            options.url
        ),
        false => format!(
            "{} was mounted for writing by {name}: on this machine before it was booted anew, or \
             on a copy of it; which of the two is not to be seen from here (only root can read the \
             hardware's name, where it has one). If no copy of it runs, mount with --take-over and \
             the same --tier and --journal; else stop it there, or take --read-only",
            options.url
        ),
    };
    Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse))
}

/// What whoever goes on from a clean end only is told of a writer that lives, or left something.
pub(crate) fn unclean(url: &BucketUrl, name: &str) -> FsError {
    let text = format!(
        "{url} belongs to {name}, which still writes it or did not end cleanly: if it runs, ask \
         there; if not, mount or serve the volume with the same --tier as it, which recovers \
         what was not flushed, and then try again"
    );
    FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse)
}

/// For who needs a volume that nobody writes and of which nothing is left in a tier: refuses where
/// somebody has the right to write it who is not known to be dead.
pub(crate) async fn claim_idle(url: &BucketUrl, host: &Host, buckets: &StripeSet) -> Result<bool> {
    let Some(lease) = read_lease(buckets.first()).await? else { return Ok(false) };
    if host.knows_dead(&lease.host) {
        return Ok(true);
    }
    let text = format!(
        "{url} belongs to {}, which writes it or did not end cleanly: unmount or stop it there and \
         try again; if that machine is gone, mount with --take-over and unmount first",
        lease.host.shown()
    );
    Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse))
}

/// Refuses where the last writer of the metadata left something in its tier. `held` is what
/// [`claim_idle`] answered: how an unclean end is known of builds that kept no record.
pub(crate) async fn check_clean(url: &BucketUrl, meta: &Meta, held: bool) -> Result<()> {
    let text = match meta.last_writer().await? {
        (Some(_), Some(mount)) if !mount.clean => format!(
            "{url} was written last by {}, which did not end cleanly: mount it there with --tier {}{} \
             and unmount it, which brings what is left there to the bucket, and then try again",
            mount.host,
            mount.tier,
            mount.journal.map(|journal| format!(" --journal {journal}")).unwrap_or_default(),
        ),
        (Some(_), None) if held => {
            format!("{url} did not end cleanly: mount and unmount it, and then try again")
        }
        _ => return Ok(()),
    };
    Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse))
}

/// Looks once more who writes the volume and where its metadata is, when nobody can begin to write
/// the metadata that was opened without fencing this mount: meanwhile it may have been moved.
pub(crate) async fn confirm(
    options: &MountOptions,
    buckets: &StripeSet,
    claim: &Claim,
    format: &VolumeFormat,
) -> Result<()> {
    let (lease, found) =
        tokio::try_join!(read_lease(buckets.first()), read_format_in(buckets.first()))?;
    if lease.map(|lease| lease.id) == claim.id && found == *format {
        return Ok(());
    }
    let text = format!("{} was in somebody else's hands meanwhile: try again", options.url);
    Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse))
}

/// Says that this mount writes the volume.
pub(crate) async fn write_lease(host: &Host, buckets: &StripeSet, id: &str) -> Result<()> {
    let record = LeaseRecord { id: id.to_owned(), host: host.clone() };
    let text = serde_json::to_vec_pretty(&record)
        .map_err(|e| FsError::new(ErrorKind::Bug, "encode writer.json").with_source(e))?;
    buckets.first().replace(Component::Volume, WRITER_KEY, Bytes::from(text)).await
}
