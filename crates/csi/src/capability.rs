//! How a volume is to be used, and whether that can be.

use rustix::mount::MountFlags;

use crate::fault::{Fault, Result};
use crate::proto::VolumeCapability;
use crate::proto::volume_capability::AccessType;
use crate::proto::volume_capability::access_mode::Mode;

/// What is asked for, in our words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read_only: bool,
    /// One pod only.
    pub(crate) alone: bool,
    /// Options of the bind.
    pub(crate) flags: MountFlags,
}

impl Access {
    pub(crate) fn of(capability: Option<&VolumeCapability>) -> Result<Self> {
        let capability =
            capability.ok_or_else(|| Fault::invalid("no volume capability is given"))?;
        let flags = match &capability.access_type {
            Some(AccessType::Mount(mount)) => flags_of(&mount.mount_flags)?,
            Some(AccessType::Block(_)) => {
                return Err(Fault::invalid(
                    "volumeMode Block: this driver mounts file systems only",
                ));
            }
            None => return Err(Fault::invalid("the volume capability has no access type")),
        };
        let mode = capability.access_mode.as_ref().map(|mode| mode.mode());
        let read_only = match mode {
            None | Some(Mode::Unknown) => return Err(Fault::invalid("no access mode is given")),
            Some(Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly) => true,
            Some(_) => flags.contains(MountFlags::RDONLY),
        };
        Ok(Self { read_only, alone: mode == Some(Mode::SingleNodeSingleWriter), flags })
    }

    /// All capabilities that a volume is to have.
    pub(crate) fn check_all(capabilities: &[VolumeCapability]) -> Result<()> {
        if capabilities.is_empty() {
            return Err(Fault::invalid("no volume capabilities are given"));
        }
        capabilities.iter().try_for_each(|one| Self::of(Some(one)).map(drop))
    }
}

/// Options that a bind may have by itself; others are those of the volume's one mount.
fn flags_of(words: &[String]) -> Result<MountFlags> {
    let mut flags = MountFlags::empty();
    for word in words.iter().flat_map(|words| words.split(',')) {
        flags |= match word {
            "ro" => MountFlags::RDONLY,
            "noexec" => MountFlags::NOEXEC,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noatime" => MountFlags::NOATIME,
            "" | "rw" => MountFlags::empty(),
            other => {
                let text = "there are ro, noexec, nosuid, nodev and noatime";
                return Err(Fault::invalid(format!("mount option {other}: {text}")));
            }
        };
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn asked(mode: Mode, options: &[&str]) -> VolumeCapability {
        let mount_flags = options.iter().map(|word| (*word).to_owned()).collect();
        let mount = MountVolume { mount_flags, ..MountVolume::default() };
        VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(AccessType::Mount(mount)),
        }
    }

    #[test]
    fn readers_are_told_from_writers() {
        for (mode, options, read_only) in [
            (Mode::SingleNodeWriter, &[][..], false),
            (Mode::MultiNodeMultiWriter, &["noatime"], false),
            (Mode::MultiNodeMultiWriter, &["noexec,ro"], true),
            (Mode::MultiNodeReaderOnly, &[], true),
            (Mode::SingleNodeReaderOnly, &[], true),
        ] {
            let access = Access::of(Some(&asked(mode, options))).unwrap();
            assert_eq!(access.read_only, read_only, "{mode:?} {options:?}");
        }
        let alone = Access::of(Some(&asked(Mode::SingleNodeSingleWriter, &[]))).unwrap();
        assert!(alone.alone);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let block = VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..asked(Mode::SingleNodeWriter, &[])
        };
        let nothing = VolumeCapability { access_type: None, ..block.clone() };
        let unknown = asked(Mode::Unknown, &[]);
        let option = asked(Mode::SingleNodeWriter, &["tier=/etc"]);
        for wrong in [Some(&block), Some(&nothing), Some(&unknown), Some(&option), None] {
            Access::of(wrong).unwrap_err();
        }
        Access::check_all(&[]).unwrap_err();
        Access::check_all(&[asked(Mode::SingleNodeWriter, &[]), block]).unwrap_err();
    }
}
