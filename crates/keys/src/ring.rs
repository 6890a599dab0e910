//! What a volume's keys seal, and how.

use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use weir_types::{ErrorKind, FsError, Result};
use zeroize::Zeroizing;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
/// What is sealed is longer than it was by a nonce before it and a tag behind it.
pub const SEALED_MORE_BYTES: usize = NONCE_LEN + TAG_BYTES;
/// Where the plain bytes begin in what is sealed.
const PLAIN_AT: usize = NONCE_LEN;

/// A key in clear; its memory is cleared when it goes.
pub type ClearKey = Zeroizing<[u8; KEY_BYTES]>;

/// For what a key is used: each has keys of its own, which tell nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Records of the segment with this id.
    Segment(u128),
    /// An object that is sealed whole, by its key below the volume.
    Object(&'a str),
    /// The volume's key, sealed by a secret, by 16 random bytes.
    Wrap([u8; 16]),
    /// The volume's key of before with this number, sealed by the one that followed it.
    Older(u16),
}

impl Place<'_> {
    /// Extract and expand of RFC 5869 with SHA-256: the place's own bytes are the salt, what it is the info.
    fn key(self, from: &ClearKey) -> LessSafeKey {
        let (what, salt): (&[u8], Vec<u8>) = match self {
            Place::Segment(id) => (b"weir segment", id.to_le_bytes().to_vec()),
            Place::Object(key) => (b"weir object", key.as_bytes().to_vec()),
            Place::Wrap(salt) => (b"weir wrap", salt.to_vec()),
            Place::Older(number) => (b"weir older key", number.to_le_bytes().to_vec()),
        };
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(&from[..]);
        let info = [what];
        let expanded =
            extracted.expand(&info, &AES_256_GCM).expect("32 bytes are not too many for HKDF");
        LessSafeKey::new(UnboundKey::from(expanded))
    }
}

/// The keys of a volume, by their numbers, the newest last; none of a volume that is not encrypted.
#[derive(Clone, Default)]
pub struct VolumeKeys(Arc<Vec<ClearKey>>);

impl std::fmt::Debug for VolumeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VolumeKeys({})", self.0.len())
    }
}

impl VolumeKeys {
    /// Those of a volume that is not encrypted.
    pub fn none() -> Self {
        Self::default()
    }

    pub(crate) fn new(keys: Vec<ClearKey>) -> Self {
        Self(Arc::new(keys))
    }

    /// One made by chance, for tests.
    pub fn by_chance() -> Result<Self> {
        Ok(Self::new(vec![chance()?]))
    }

    pub(crate) fn clear(&self) -> &[ClearKey] {
        &self.0
    }

    /// Whether there are none: the volume is not encrypted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What may seal what this machine's disk has of the volume, in the place that `salt` names: of the newest key first.
    pub fn disk_keys(&self, salt: u64) -> Vec<ClearKey> {
        let derive = |from: &ClearKey| {
            let extracted =
                hkdf::Salt::new(hkdf::HKDF_SHA256, &salt.to_le_bytes()).extract(&from[..]);
            let info: [&[u8]; 1] = [b"weir disk"];
            let mut key = ClearKey::default();
            let expanded = extracted.expand(&info, hkdf::HKDF_SHA256);
            expanded
                .and_then(|found| found.fill(&mut key[..]))
                .expect("32 bytes are not too many for HKDF");
            key
        };
        self.0.iter().rev().map(derive).collect()
    }

    /// What seals for a place; `None` where the volume is not encrypted.
    pub fn sealer(&self, place: Place<'_>) -> Option<Sealer> {
        let key = self.0.last()?;
        Some(Sealer { number: (self.0.len() - 1) as u16, key: place.key(key) })
    }

    /// What opens what the key with this number sealed for a place; `None` if there is no such key.
    pub fn opener(&self, number: u16, place: Place<'_>) -> Option<Opener> {
        let key = self.0.get(usize::from(number))?;
        Some(Opener { key: place.key(key) })
    }
}

/// Seals for one place.
pub struct Sealer {
    number: u16,
    key: LessSafeKey,
}

impl Sealer {
    pub(crate) fn of(key: &ClearKey, place: Place<'_>) -> Self {
        Self { number: 0, key: place.key(key) }
    }

    /// The number of the volume's key that this is made from: who opens must know it.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Room to leave before the plain bytes.
    pub const ROOM_BYTES: usize = PLAIN_AT;

    /// Seals what stands in `bytes` from `from` on, behind [`Self::ROOM_BYTES`] that are overwritten, in its place,
    /// and appends a tag. `also` is not hidden, and must be the same for who opens.
    ///
    /// # Errors
    /// `Bug` when the system gives no random bytes; `bytes` are of no use then.
    pub fn seal(&self, also: &[u8], bytes: &mut Vec<u8>, from: usize) -> Result<()> {
        let failed = |_| FsError::new(ErrorKind::Bug, "seal: the system gives no random bytes");
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(failed)?;
        bytes[from..from + PLAIN_AT].copy_from_slice(&nonce);
        let plain = &mut bytes[from + PLAIN_AT..];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(also), plain);
        bytes.extend_from_slice(tag.map_err(failed)?.as_ref());
        Ok(())
    }
}

/// Opens what was sealed for one place.
pub struct Opener {
    key: LessSafeKey,
}

impl Opener {
    pub(crate) fn of(key: &ClearKey, place: Place<'_>) -> Self {
        Self { key: place.key(key) }
    }

    /// The plain bytes of what was sealed with the same `also`; `None` if it is anything else.
    pub fn open(&self, also: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (hidden, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let mut plain = vec![0; hidden.len()];
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_separate_gather(nonce, Aad::from(also), hidden, tag, &mut plain);
        opened.ok().map(|()| plain)
    }

    /// The same in the place of what is sealed, without other memory: where in it the plain bytes are. What is `None` is of no
    /// use any more.
    pub fn open_in_place(&self, also: &[u8], sealed: &mut [u8]) -> Option<Range<usize>> {
        let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let (hidden, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_in_place_separate_tag(nonce, Aad::from(also), tag, hidden);
        opened.ok().map(|plain| PLAIN_AT..PLAIN_AT + plain.len())
    }
}

/// A new key.
pub(crate) fn chance() -> Result<ClearKey> {
    let mut key = ClearKey::default();
    fill(&mut key[..])?;
    Ok(key)
}

/// Random bytes of the system.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<()> {
    let failed = |_| FsError::new(ErrorKind::Bug, "the system gives no random bytes");
    rand::fill(bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(keys: &VolumeKeys, place: Place<'_>, also: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; Sealer::ROOM_BYTES];
        bytes.extend_from_slice(plain);
        let sealer = keys.sealer(place).expect("encrypted");
        sealer.seal(also, &mut bytes, 0).expect("seals");
        bytes
    }

    #[test]
    fn what_is_sealed_opens_only_with_the_same_key_place_and_words() {
        let keys = VolumeKeys::by_chance().expect("random");
        let others = VolumeKeys::by_chance().expect("random");
        let place = Place::Segment(7);
        for plain in [&b""[..], b"x", &[9; 5000]] {
            let bytes = sealed(&keys, place, b"also", plain);
            assert_eq!(bytes.len(), plain.len() + SEALED_MORE_BYTES);
            let open = |keys: &VolumeKeys, place: Place<'_>, also: &[u8], bytes: &[u8]| {
                let opener = keys.opener(0, place).expect("a key");
                let (apart, mut own) = (opener.open(also, bytes), bytes.to_vec());
                let within = opener.open_in_place(also, &mut own).map(|plain| own[plain].to_vec());
                assert_eq!(apart, within);
                apart
            };
            assert_eq!(open(&keys, place, b"also", &bytes).as_deref(), Some(plain));
            assert_eq!(open(&others, place, b"also", &bytes), None, "another key");
            assert_eq!(open(&keys, Place::Segment(8), b"also", &bytes), None, "another segment");
            let wrap = Place::Wrap(7_u128.to_le_bytes());
            assert_eq!(open(&keys, wrap, b"also", &bytes), None, "another use");
            assert_eq!(open(&keys, place, b"other", &bytes), None, "other words");
            for at in [0, bytes.len() / 2, bytes.len() - 1] {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(open(&keys, place, b"also", &changed), None, "byte {at}");
            }
            for len in 0..bytes.len().min(60) {
                assert_eq!(open(&keys, place, b"also", &bytes[..len]), None, "{len} bytes");
            }
        }
    }

    #[test]
    fn each_place_on_a_disk_has_keys_of_its_own_by_the_newest_first() {
        let (old, new) = (chance().expect("random"), chance().expect("random"));
        let before = VolumeKeys::new(vec![old.clone()]);
        let keys = VolumeKeys::new(vec![old, new]);
        let (one, other) = (keys.disk_keys(1), keys.disk_keys(2));
        assert_eq!(one.len(), 2);
        assert_eq!(
            one[1],
            before.disk_keys(1)[0],
            "what was made before a rotation opens after it"
        );
        assert_eq!(one, keys.disk_keys(1));
        let all: std::collections::BTreeSet<_> =
            one.iter().chain(&other).chain(keys.clear()).map(|key| **key).collect();
        assert_eq!(all.len(), 6);
        assert!(VolumeKeys::none().disk_keys(1).is_empty());
    }

    #[test]
    fn nothing_is_sealed_twice_the_same_way() {
        let keys = VolumeKeys::by_chance().expect("random");
        let all: std::collections::BTreeSet<_> =
            (0..100).map(|_| sealed(&keys, Place::Segment(1), b"", b"the same")).collect();
        assert_eq!(all.len(), 100);
        assert!(VolumeKeys::none().sealer(Place::Segment(1)).is_none());
        assert!(keys.opener(1, Place::Segment(1)).is_none(), "there is no key 1");
    }
}
