//! What seals the rows of metadata that a database keeps, which is somebody else's.
//!
//! All of it is AES-256-GCM-SIV (RFC 8452), which bears nonces that come twice: of rows there are too many for random ones
//! of 96 bits under one key, and a name must be the same bytes whenever it is sealed, to be found.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use weir_types::{ErrorKind, FsError, Result};

use crate::ring::{ClearKey, VolumeKeys};

const TAG_BYTES: usize = 16;
/// The number of the volume's key, in front.
const NUMBER_BYTES: usize = 2;
/// A name that is sealed is longer than it was by this.
pub const NAME_MORE_BYTES: usize = TAG_BYTES;
/// And a value by this.
pub const VALUE_MORE_BYTES: usize = NUMBER_BYTES + NONCE_LEN + TAG_BYTES;

/// Seals and opens names and values of rows.
pub struct RowKeys {
    names: LessSafeKey,
    values: Vec<LessSafeKey>,
}

/// Why a value cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// A key sealed it that was made since these were read.
    Newer,
    /// It was changed, or is that of another row or volume.
    Damaged,
}

impl std::fmt::Debug for RowKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowKeys({})", self.values.len())
    }
}

impl VolumeKeys {
    /// What seals rows; `None` where the volume is not encrypted. Names are sealed by the volume's first key, whatever came
    /// after it: one that is looked for must be what it was when it was made.
    pub fn rows(&self) -> Option<RowKeys> {
        let first = self.clear().first()?;
        Some(RowKeys {
            names: derived(first, b"weir row names"),
            values: self.clear().iter().map(|key| derived(key, b"weir rows")).collect(),
        })
    }
}

/// Extract and expand of RFC 5869 with SHA-256, without a salt.
fn derived(from: &ClearKey, what: &[u8]) -> LessSafeKey {
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&from[..]);
    let info = [what];
    let expanded =
        extracted.expand(&info, &AES_256_GCM_SIV).expect("32 bytes are not too many for HKDF");
    LessSafeKey::new(UnboundKey::from(expanded))
}

impl RowKeys {
    /// A name, sealed: always the same bytes for the same `also`, of which the first 16 are as if by chance for each
    /// name.
    pub fn seal_name(&self, also: &[u8], name: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; TAG_BYTES];
        sealed.extend_from_slice(name);
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let hidden = &mut sealed[TAG_BYTES..];
        let tag = self.names.seal_in_place_separate_tag(nonce, Aad::from(also), hidden);
        let tag = tag.expect("a name is not too long for AES-GCM-SIV");
        sealed[..TAG_BYTES].copy_from_slice(tag.as_ref());
        sealed
    }

    /// The name that was sealed with the same `also`; `None` if it is anything else.
    pub fn open_name(&self, also: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (tag, hidden) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let mut name = vec![0; hidden.len()];
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let opened =
            self.names.open_separate_gather(nonce, Aad::from(also), hidden, tag, &mut name);
        opened.ok().map(|()| name)
    }

    /// A value, sealed by the newest key. `also` is not hidden, and must be the same for who opens.
    ///
    /// # Errors
    /// `Bug` when the system gives no random bytes.
    pub fn seal_value(&self, also: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let failed = |_| FsError::new(ErrorKind::Bug, "seal: the system gives no random bytes");
        let number = self.values.len() - 1;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(failed)?;
        let mut sealed = Vec::with_capacity(value.len() + VALUE_MORE_BYTES);
        sealed.extend_from_slice(&(number as u16).to_le_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let hidden = &mut sealed[NUMBER_BYTES + NONCE_LEN..];
        let tag = self.values[number].seal_in_place_separate_tag(nonce, Aad::from(also), hidden);
        sealed.extend_from_slice(tag.map_err(failed)?.as_ref());
        Ok(sealed)
    }

    /// The value that was sealed with the same `also`.
    pub fn open_value(&self, also: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
        let (number, rest) =
            sealed.split_first_chunk::<NUMBER_BYTES>().ok_or(NotOpened::Damaged)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(NotOpened::Damaged)?;
        let (hidden, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(NotOpened::Damaged)?;
        let number = usize::from(u16::from_le_bytes(*number));
        let key = self.values.get(number).ok_or(NotOpened::Newer)?;
        let mut value = vec![0; hidden.len()];
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_separate_gather(nonce, Aad::from(also), hidden, tag, &mut value);
        opened.map(|()| value).map_err(|_| NotOpened::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::chance;

    fn keys(count: usize) -> (VolumeKeys, Vec<ClearKey>) {
        let clear: Vec<_> = (0..count).map(|_| chance().expect("random")).collect();
        (VolumeKeys::new(clear.clone()), clear)
    }

    #[test]
    fn a_name_is_always_the_same_and_tells_nothing_of_itself() {
        let (volume, clear) = keys(1);
        let rows = volume.rows().expect("encrypted");
        for name in [&b"x"[..], b"a longer name", &[7; 255]] {
            let sealed = rows.seal_name(b"dir 1", name);
            assert_eq!(sealed.len(), name.len() + NAME_MORE_BYTES);
            assert_eq!(sealed, volume.rows().expect("encrypted").seal_name(b"dir 1", name));
            assert_ne!(sealed, rows.seal_name(b"dir 2", name), "in another directory");
            assert_eq!(rows.open_name(b"dir 1", &sealed).as_deref(), Some(name));
            assert_eq!(rows.open_name(b"dir 2", &sealed), None);
            for at in [0, 15, sealed.len() - 1] {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(rows.open_name(b"dir 1", &changed), None, "byte {at}");
            }
            assert!(
                (0..sealed.len()).all(|len| rows.open_name(b"dir 1", &sealed[..len]).is_none())
            );
        }
        let later = [clear[0].clone(), chance().expect("random")];
        let later = VolumeKeys::new(later.to_vec()).rows().expect("encrypted");
        assert_eq!(later.seal_name(b"d", b"n"), rows.seal_name(b"d", b"n"), "after a rotation");
        let other = keys(1).0.rows().expect("encrypted");
        assert_ne!(other.seal_name(b"d", b"n"), rows.seal_name(b"d", b"n"));
        assert!(VolumeKeys::none().rows().is_none());
    }

    #[test]
    fn a_value_opens_as_that_of_its_row_only_and_by_each_key_that_sealed_it() {
        let (both, clear) = keys(2);
        let (both, first) = (
            both.rows().expect("encrypted"),
            VolumeKeys::new(vec![clear[0].clone()]).rows().expect("encrypted"),
        );
        for value in [&b""[..], b"v", &[3; 5_000]] {
            let (old, new) = (
                first.seal_value(b"row", value).expect("seals"),
                both.seal_value(b"row", value).expect("seals"),
            );
            assert_eq!(old.len(), value.len() + VALUE_MORE_BYTES);
            assert_ne!(old, first.seal_value(b"row", value).expect("seals"));
            assert_eq!(both.open_value(b"row", &old).as_deref(), Ok(value));
            assert_eq!(both.open_value(b"row", &new).as_deref(), Ok(value));
            assert_eq!(first.open_value(b"row", &new), Err(NotOpened::Newer));
            assert_eq!(both.open_value(b"other", &old), Err(NotOpened::Damaged));
            for len in 0..old.len().min(60) {
                assert_eq!(both.open_value(b"row", &old[..len]), Err(NotOpened::Damaged), "{len}");
            }
            for at in [2, 14, old.len() - 1] {
                let mut changed = old.clone();
                changed[at] ^= 1;
                assert_eq!(both.open_value(b"row", &changed), Err(NotOpened::Damaged), "byte {at}");
            }
        }
    }

    /// Rows outlive the build that sealed them.
    #[test]
    fn what_an_earlier_build_sealed_is_found_and_opens() {
        let volume = VolumeKeys::new(vec![ClearKey::new([1; 32]), ClearKey::new([2; 32])]);
        let rows = volume.rows().expect("encrypted");
        assert_eq!(
            hex::encode(rows.seal_name(b"D12345678", b"a name")),
            "0386a9851a4b8b54921ec40a7c00a3558c5561aa7a06"
        );
        let sealed = "0100bed199bdbf97ce4c4fc77bfa0abc85fa2602d9e168467989c3260f2bf80e56dad886d0";
        let sealed = hex::decode(sealed).expect("hex digits");
        assert_eq!(rows.open_value(b"row", &sealed).as_deref(), Ok(&b"a value"[..]));
    }
}
