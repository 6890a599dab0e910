//! The names of errors that people meet in many shapes.

use std::fmt;

/// What an error is called in docs/errors.md, which says what to do at more length than a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "docs/errors.md says what each is")]
pub enum ErrorCode {
    NotAVolume,
    VolumeNewer,
    VolumeLocked,
    VolumeInUse,
    Fenced,
    LeftBehind,
    VolumeDamaged,
    BucketMissing,
    BucketDenied,
    CredentialsMissing,
    BucketAway,
    Archived,
    MetadataMissing,
    MetadataDenied,
    MetadataAway,
    MetadataOlder,
    TierInUse,
    TierOwner,
    TierFull,
    Mountpoint,
    NoFuse,
    MountDead,
    MountBusy,
    NotMounted,
    OnlyRoot,
    DaemonSilent,
    ObjectChanged,
    Bug,
}

use ErrorCode as C;

const NAMES: [(ErrorCode, &str); 28] = [
    (C::NotAVolume, "not-a-volume"),
    (C::VolumeNewer, "volume-newer"),
    (C::VolumeLocked, "volume-locked"),
    (C::VolumeInUse, "volume-in-use"),
    (C::Fenced, "fenced"),
    (C::LeftBehind, "left-behind"),
    (C::VolumeDamaged, "volume-damaged"),
    (C::BucketMissing, "bucket-missing"),
    (C::BucketDenied, "bucket-denied"),
    (C::CredentialsMissing, "credentials-missing"),
    (C::BucketAway, "bucket-away"),
    (C::Archived, "archived"),
    (C::MetadataMissing, "metadata-missing"),
    (C::MetadataDenied, "metadata-denied"),
    (C::MetadataAway, "metadata-away"),
    (C::MetadataOlder, "metadata-older"),
    (C::TierInUse, "tier-in-use"),
    (C::TierOwner, "tier-owner"),
    (C::TierFull, "tier-full"),
    (C::Mountpoint, "mountpoint"),
    (C::NoFuse, "no-fuse"),
    (C::MountDead, "mount-dead"),
    (C::MountBusy, "mount-busy"),
    (C::NotMounted, "not-mounted"),
    (C::OnlyRoot, "only-root"),
    (C::DaemonSilent, "daemon-silent"),
    (C::ObjectChanged, "object-changed"),
    (C::Bug, "bug"),
];

impl ErrorCode {
    /// All, in the order of the page.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(code, _)| code)
    }

    /// The name, which stays what it is from version to version.
    pub fn name(self) -> &'static str {
        NAMES.into_iter().find(|(code, _)| *code == self).map_or("", |(_, name)| name)
    }

    /// The code of this name.
    pub fn of(name: &str) -> Option<Self> {
        NAMES.into_iter().find(|(_, known)| *known == name).map(|(code, _)| code)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for code in ErrorCode::all() {
            assert_eq!(ErrorCode::of(code.name()), Some(code));
            assert!(code.name().len() <= 20, "{code}: short enough to type");
        }
        assert_eq!(ErrorCode::all().count(), ErrorCode::Bug as usize + 1, "one has no name");
        assert_eq!(ErrorCode::of(""), None);
    }
}
