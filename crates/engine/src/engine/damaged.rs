//! Files of the tier whose rows in the metadata are damaged: they refuse no mount.

use std::sync::Arc;

use weir_meta::Meta;
use weir_tier::{ASIDE, Cause, Mirror, Tier, Why};
use weir_types::{ErrorKind, FsError, Ino, Inode, Result, UnixTime};

use crate::services::quarantine;

/// What the metadata has of a file that is in the tier.
pub(super) enum Known {
    File(Inode),
    Gone,
    /// It cannot be read, which is no reason to refuse the others.
    Damaged(FsError),
}

/// What the metadata has of these files. One read, and where that meets damage one for each file.
pub(super) async fn known(meta: &Meta, inos: &[Ino]) -> Result<Vec<Known>> {
    let of = |inode: Option<Inode>| inode.map_or(Known::Gone, Known::File);
    match meta.inodes(inos).await {
        Ok(found) => return Ok(found.into_iter().map(of).collect()),
        Err(error) if error.kind() == ErrorKind::Corrupt => {}
        Err(error) => return Err(error),
    }
    let mut all = Vec::with_capacity(inos.len());
    for ino in inos {
        all.push(match meta.inodes(&[*ino]).await {
            Ok(mut found) => of(found.pop().flatten()),
            Err(error) if error.kind() == ErrorKind::Corrupt => Known::Damaged(error),
            Err(error) => return Err(error),
        });
    }
    Ok(all)
}

/// Moves away what is not in the bucket of files whose rows in the metadata are damaged.
pub(super) fn set_damaged_aside(tier: &Tier, mirrors: &[Arc<Mirror>], now: UnixTime) -> Result<()> {
    if mirrors.is_empty() {
        return Ok(());
    }
    let label = quarantine::label_for(&tier.directory().join(ASIDE), &[], now)?;
    let cause = Cause {
        why: Why::Damaged,
        unix_ms: (now.0 / 1_000_000).max(0).cast_unsigned(),
        commits_hold: true,
        ..Cause::default()
    };
    let aside = tier.set_aside_these(mirrors, &label, &cause)?;
    tracing::error!(
        label = %aside.label,
        files = aside.files,
        dirty_bytes = aside.dirty_bytes,
        directory = %aside.directory.display(),
        "the metadata of these files is damaged: what of them had not been flushed was set aside; \
         run weir fsck, and `weir recover` for what was set aside"
    );
    Ok(())
}
