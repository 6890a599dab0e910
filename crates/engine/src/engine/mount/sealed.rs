//! What a mount keeps on local disks, encrypted there.

use std::path::Path;
use std::sync::Arc;

use weir_keys::VolumeKeys;
use weir_tier::{SealedDirectory, Sealing, sealing};
use weir_types::{ErrorKind, FsError, Result};

use crate::volume::options::MountOptions;

/// Opens a volume's own directory below the one that an option names, where it is encrypted, or makes it so where
/// that is wanted. `None`: it is not.
///
/// # Errors
/// `Invalid` where the volume has no key; `Conflict` where something is there that is not encrypted; those of
/// [`SealedDirectory`].
pub(super) fn unseal(
    options: &MountOptions,
    keys: &VolumeKeys,
    (what, directory): (&str, &Path),
) -> Result<Option<Arc<SealedDirectory>>> {
    let shown = directory.display();
    let wanted = options.settings.encrypt_tier;
    if wanted && keys.is_empty() {
        let text = format!(
            "--encrypt-tier: {} is not encrypted, so that there is no key for the tier. `weir format --encrypt` \
             makes a volume that is; or have the tier's disk encrypted as a whole (LUKS)",
            options.url
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let opened = match sealing(directory)? {
        Sealing::Sealed => SealedDirectory::open(what, directory, |number| keys.disk_keys(number))?,
        Sealing::Nothing if wanted => {
            SealedDirectory::make(what, directory, |number| keys.disk_keys(number).swap_remove(0))?
        }
        Sealing::Clear if wanted => {
            let text = format!(
                "{what} {shown} is not encrypted: it was used without --encrypt-tier. Mount once more without, \
                 unmount (so that all is in the bucket), remove that directory, and mount again; or name another one"
            );
            return Err(FsError::new(ErrorKind::Conflict, text));
        }
        Sealing::Nothing | Sealing::Clear => return Ok(None),
    };
    Ok(Some(Arc::new(opened)))
}
