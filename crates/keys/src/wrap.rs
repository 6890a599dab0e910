//! A volume's key under the secrets that open it: made, opened, added, removed, replaced.

use argon2::{Algorithm, Argon2, Params, Version};
use weir_types::{Cipher, Derivation, Encryption, ErrorCode, ErrorKind, FsError, KeyWrap, Result};

use crate::ring::{ClearKey, KEY_BYTES, Opener, Place, Sealer, VolumeKeys, chance, fill};
use crate::secret::{Kind, Secret};

/// The second choice of RFC 9106, section 4: for machines with little memory.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
const SALT_BYTES: usize = 16;
const LONGEST_NAME: usize = 64;

/// A new volume's keys, and what `volume.json` says of them. A passphrase takes a tenth of a second.
///
/// # Errors
/// `Invalid` when the name or the passphrase is not good.
pub fn create(name: &str, secret: &Secret, unix_s: i64) -> Result<(Encryption, VolumeKeys)> {
    let key = chance()?;
    let wraps = vec![wrap(name, secret, &key, unix_s)?];
    let encryption = Encryption { cipher: Cipher::Aes256Gcm, older: Vec::new(), wraps };
    Ok((encryption, VolumeKeys::new(vec![key])))
}

/// The keys that `secret` opens. A passphrase takes a tenth of a second for each that may be it.
///
/// # Errors
/// `Permission` when the secret is none of the volume's; `Corrupt` when what is stored makes no sense.
pub fn unlock(encryption: &Encryption, secret: &Secret) -> Result<VolumeKeys> {
    unlock_by(encryption, secret).map(|(keys, _)| keys)
}

/// The same, and the place in the list of what the secret opened.
fn unlock_by(encryption: &Encryption, secret: &Secret) -> Result<(VolumeKeys, usize)> {
    for (at, wrap) in encryption.wraps.iter().enumerate() {
        if let Some(key) = unwrap(wrap, secret)? {
            return Ok((with_older(encryption, key)?, at));
        }
    }
    let names: Vec<_> = encryption
        .wraps
        .iter()
        .map(|wrap| format!("{} ({})", wrap.name, wrap.derivation.kind()))
        .collect();
    let text = format!("this {} opens none of its keys: {}", secret.kind(), names.join(", "));
    Err(FsError::new(ErrorKind::Permission, text).coded(ErrorCode::VolumeLocked))
}

/// Adds a secret that opens the volume too.
///
/// # Errors
/// `Invalid` for a bad name or passphrase, or one too many; `Exists` where the name is taken, or the secret opens it already.
pub fn add(
    encryption: &Encryption,
    keys: &VolumeKeys,
    name: &str,
    secret: &Secret,
    unix_s: i64,
) -> Result<Encryption> {
    if encryption.wraps.iter().any(|wrap| wrap.name == name) {
        return Err(FsError::new(ErrorKind::Exists, format!("there is a key {name} already")));
    }
    if encryption.wraps.len() >= Encryption::MOST_WRAPS {
        let text = format!(
            "{} keys open it, which is all there may be: remove one first",
            encryption.wraps.len()
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    if let Ok((_, at)) = unlock_by(encryption, secret) {
        let text =
            format!("this {} opens it already, as {}", secret.kind(), encryption.wraps[at].name);
        return Err(FsError::new(ErrorKind::Exists, text));
    }
    let mut changed = encryption.clone();
    changed.wraps.push(wrap(name, secret, newest(keys)?, unix_s)?);
    Ok(changed)
}

/// Removes a secret. `by` is one that opens the volume and must stay: nobody locks himself out.
///
/// # Errors
/// `NotFound` where there is none of that name; `Invalid` where it is `by`; those of [`unlock`].
pub fn remove(encryption: &Encryption, by: &Secret, name: &str) -> Result<Encryption> {
    let (_, stays) = unlock_by(encryption, by)?;
    let Some(goes) = encryption.wraps.iter().position(|wrap| wrap.name == name) else {
        return Err(FsError::new(ErrorKind::NotFound, format!("there is no key {name}")));
    };
    if goes == stays {
        let text = format!("{name} is the key that you gave: give another one, which stays");
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let mut changed = encryption.clone();
    changed.wraps.remove(goes);
    Ok(changed)
}

/// A new key for all that is sealed from now on. Secrets in `stay` open it, under their names of now; others do only
/// what was sealed before, and only by an `encryption` of before: with `drop_others` they go. Nothing is sealed anew.
///
/// # Errors
/// `Permission` where one of them opens nothing; `Invalid` where there is none, or others would go unsaid.
pub fn rotate(
    encryption: &Encryption,
    stay: &[Secret],
    drop_others: bool,
    unix_s: i64,
) -> Result<Encryption> {
    let mut keys: Option<VolumeKeys> = None;
    let mut named: Vec<(&str, &Secret)> = Vec::new();
    for secret in stay {
        let (opened, at) = unlock_by(encryption, secret)?;
        let name = encryption.wraps[at].name.as_str();
        if !named.iter().any(|(other, _)| *other == name) {
            named.push((name, secret));
        }
        keys = Some(opened);
    }
    let Some(keys) = keys else {
        return Err(FsError::new(
            ErrorKind::Invalid,
            "no secret stays: nobody could open it any more",
        ));
    };
    check_all_given(encryption, &named, drop_others)?;
    if keys.clear().len() >= usize::from(u16::MAX) {
        return Err(FsError::new(ErrorKind::Invalid, "it has had as many keys as there can be"));
    }
    let key = chance()?;
    let older = keys.clear().iter().enumerate();
    let older = older.map(|(number, old)| seal_key(&key, Place::Older(number as u16), old));
    let older = older.collect::<Result<Vec<_>>>()?;
    let wraps = named.into_iter().map(|(name, secret)| wrap(name, secret, &key, unix_s));
    Ok(Encryption { cipher: encryption.cipher, older, wraps: wraps.collect::<Result<Vec<_>>>()? })
}

/// Refuses to let go of a secret that nobody said should go.
fn check_all_given(
    encryption: &Encryption,
    named: &[(&str, &Secret)],
    drop_others: bool,
) -> Result<()> {
    let given = |name: &str| named.iter().any(|(other, _)| *other == name);
    let missing: Vec<&str> = encryption
        .wraps
        .iter()
        .map(|wrap| wrap.name.as_str())
        .filter(|name| !given(name))
        .collect();
    if missing.is_empty() || drop_others {
        return Ok(());
    }
    let text = format!(
        "{} would not open it any more: name the files of what is to stay with --stays, or let the others go with \
         --drop-others",
        missing.join(", ")
    );
    Err(FsError::new(ErrorKind::Invalid, text))
}

fn newest(keys: &VolumeKeys) -> Result<&ClearKey> {
    keys.clear().last().ok_or_else(|| FsError::new(ErrorKind::Bug, "a volume without keys"))
}

/// All keys of a volume whose newest is `key`.
fn with_older(encryption: &Encryption, key: ClearKey) -> Result<VolumeKeys> {
    let mut keys = Vec::with_capacity(encryption.older.len() + 1);
    for (number, sealed) in encryption.older.iter().enumerate() {
        let older = open_key(&key, Place::Older(number as u16), sealed)?;
        keys.push(older.ok_or_else(|| damaged(&format!("key number {number} does not open")))?);
    }
    keys.push(key);
    Ok(VolumeKeys::new(keys))
}

fn wrap(name: &str, secret: &Secret, key: &ClearKey, unix_s: i64) -> Result<KeyWrap> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fine) {
        let text =
            format!("a key's name has 1 to {LONGEST_NAME} letters, digits, `-`, `_`, `.` or `@`");
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    secret.check_strong()?;
    let mut salt = [0; SALT_BYTES];
    fill(&mut salt)?;
    let salt = hex::encode(salt);
    let derivation = match secret.0 {
        Kind::Passphrase(_) => {
            Derivation::Passphrase { salt, memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES }
        }
        Kind::Key(_) => Derivation::KeyFile { salt },
    };
    let (place, under) =
        derive(&derivation, secret)?.ok_or_else(|| damaged("it fits no secret"))?;
    let sealed = seal_key(&under, place, key)?;
    Ok(KeyWrap { name: name.to_owned(), created_unix_s: unix_s, derivation, sealed })
}

/// The key in `wrap`; `None` if the secret is another one.
fn unwrap(wrap: &KeyWrap, secret: &Secret) -> Result<Option<ClearKey>> {
    match derive(&wrap.derivation, secret)? {
        Some((place, under)) => open_key(&under, place, &wrap.sealed),
        None => Ok(None),
    }
}

/// What seals a wrap, made from a secret; `None` if it is of another kind.
fn derive(derivation: &Derivation, secret: &Secret) -> Result<Option<(Place<'static>, ClearKey)>> {
    let salt_of = |text: &str| {
        let mut salt = [0; SALT_BYTES];
        hex::decode_to_slice(text, &mut salt)
            .map_err(|_| damaged("a salt is no 32 hexadecimal digits"))?;
        Ok::<_, FsError>(salt)
    };
    match (derivation, &secret.0) {
        (Derivation::KeyFile { salt }, Kind::Key(key)) => {
            Ok(Some((Place::Wrap(salt_of(salt)?), key.clone())))
        }
        (Derivation::Passphrase { salt, memory_kib, passes, lanes }, Kind::Passphrase(words)) => {
            let salt = salt_of(salt)?;
            let params = Params::new(*memory_kib, *passes, *lanes, Some(KEY_BYTES));
            let params = params.map_err(|e| damaged(&format!("how a passphrase is used: {e}")))?;
            let mut key = ClearKey::default();
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(words.as_bytes(), &salt, &mut key[..])
                .map_err(|e| damaged(&format!("how a passphrase is used: {e}")))?;
            Ok(Some((Place::Wrap(salt), key)))
        }
        _ => Ok(None),
    }
}

fn seal_key(under: &ClearKey, place: Place<'_>, key: &ClearKey) -> Result<String> {
    // Room for all: no copy of the key stays behind where the memory grows.
    let mut bytes = Vec::with_capacity(KEY_BYTES + crate::SEALED_MORE_BYTES);
    bytes.resize(Sealer::ROOM_BYTES, 0);
    bytes.extend_from_slice(&key[..]);
    Sealer::of(under, place).seal(b"", &mut bytes, 0)?;
    Ok(hex::encode(bytes))
}

fn open_key(under: &ClearKey, place: Place<'_>, sealed: &str) -> Result<Option<ClearKey>> {
    let sealed = hex::decode(sealed).map_err(|_| damaged("a sealed key is not hexadecimal"))?;
    let Some(opened) = Opener::of(under, place).open(b"", &sealed).map(zeroize::Zeroizing::new)
    else {
        return Ok(None);
    };
    let key: [u8; KEY_BYTES] =
        opened[..].try_into().map_err(|_| damaged("a key of another length"))?;
    Ok(Some(ClearKey::new(key)))
}

fn damaged(what: &str) -> FsError {
    FsError::new(
        ErrorKind::Corrupt,
        format!("what volume.json says of the keys makes no sense: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::parse(text.as_bytes()).expect("a secret")
    }

    fn key_file() -> Secret {
        secret(&Secret::new_key_file().expect("random"))
    }

    fn opens(encryption: &Encryption, secret: &Secret) -> bool {
        match unlock(encryption, secret) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
                false
            }
        }
    }

    #[test]
    fn several_secrets_open_one_volume_and_others_do_not() {
        let (words, file) = (secret("correct horse battery"), key_file());
        let (encryption, keys) = create("people", &words, 5).expect("makes");
        assert!(encryption.problems().is_empty());
        assert!(
            opens(&encryption, &words)
                && !opens(&encryption, &file)
                && !opens(&encryption, &secret("correct horse batterz"))
        );
        let both = add(&encryption, &keys, "machines", &file, 6).expect("adds");
        assert!(opens(&both, &words) && opens(&both, &file));
        assert_eq!(
            unlock(&both, &words).expect("opens").clear(),
            unlock(&both, &file).expect("opens").clear()
        );
        let text = unlock(&both, &key_file()).expect_err("another").to_string();
        assert!(text.contains("people (passphrase), machines (key file)"), "{text}");

        for (name, new) in [
            ("people", key_file()),
            ("again", file.clone()),
            ("", key_file()),
            ("a b", key_file()),
            ("short", secret("1234567")),
        ] {
            add(&both, &keys, name, &new, 7).expect_err(name);
        }
        remove(&both, &words, "people").expect_err("the one that was given");
        remove(&both, &words, "nobody").expect_err("there is none");
        remove(&both, &key_file(), "people").expect_err("who has no key");
        let one = remove(&both, &words, "machines").expect("removes");
        assert!(opens(&one, &words) && !opens(&one, &file));
    }

    #[test]
    fn after_a_rotation_old_and_new_are_open_to_who_stays_and_new_is_not_to_who_went() {
        let (stays, goes) = (key_file(), key_file());
        let (encryption, keys) = create("stays", &stays, 1).expect("makes");
        let mut encryption = add(&encryption, &keys, "goes", &goes, 1).expect("adds");
        let place = Place::Segment(3);
        let mut sealed = Vec::new();
        for turn in 0..4_u16 {
            let keys = unlock(&encryption, &stays).expect("opens");
            let sealer = keys.sealer(place).expect("encrypted");
            assert_eq!(sealer.number(), turn);
            let mut bytes = vec![0; Sealer::ROOM_BYTES];
            bytes.extend_from_slice(&turn.to_le_bytes());
            sealer.seal(b"", &mut bytes, 0).expect("seals");
            sealed.push(bytes);
            for (number, bytes) in (0_u16..).zip(&sealed) {
                let plain = keys.opener(number, place).expect("a key").open(b"", bytes);
                assert_eq!(plain.as_deref(), Some(&number.to_le_bytes()[..]), "turn {turn}");
            }
            let old = encryption.clone();
            encryption =
                rotate(&encryption, std::slice::from_ref(&stays), turn == 0, 9).expect("rotates");
            assert!(!opens(&encryption, &goes));
            assert_eq!(encryption.wraps.len(), 1);
            assert_ne!(
                unlock(&old, &stays).expect("opens").clear().last(),
                unlock(&encryption, &stays).expect("opens").clear().last()
            );
        }
        rotate(&encryption, &[], true, 1).expect_err("nobody");
        rotate(&encryption, &[stays.clone(), goes], true, 1).expect_err("one that opens nothing");
        let twice =
            rotate(&encryption, &[stays.clone(), stays.clone()], false, 1).expect("the same twice");
        assert_eq!(twice.wraps.len(), 1);
        let more = add(&twice, &unlock(&twice, &stays).expect("opens"), "more", &key_file(), 2)
            .expect("adds");
        let error = rotate(&more, &[stays.clone(), stays.clone()], false, 3)
            .expect_err("one would go unsaid");
        assert!(error.to_string().starts_with("more would not open it"), "{error}");
        assert_eq!(rotate(&more, &[stays], true, 3).expect("rotates").wraps.len(), 1);
    }

    #[test]
    fn what_was_changed_opens_nothing_and_does_not_panic() {
        let file = key_file();
        let (encryption, _) = create("a", &file, 1).expect("makes");
        let encryption =
            rotate(&encryption, std::slice::from_ref(&file), false, 2).expect("rotates");
        type Change = fn(&mut Encryption);
        let changes: [(&str, Change); 6] = [
            ("the key", |e| e.wraps[0].sealed.replace_range(30..31, "g")),
            ("a shorter key", |e| e.wraps[0].sealed.truncate(20)),
            ("nothing", |e| e.wraps[0].sealed.clear()),
            ("an older key", |e| e.older[0] = e.wraps[0].sealed.clone()),
            ("the salt", |e| e.wraps[0].derivation = Derivation::KeyFile { salt: "00".repeat(16) }),
            ("no salt", |e| e.wraps[0].derivation = Derivation::KeyFile { salt: "0".to_owned() }),
        ];
        for (what, change) in changes {
            let mut changed = encryption.clone();
            change(&mut changed);
            unlock(&changed, &file).expect_err(what);
        }
        let mut costly = encryption;
        let salt = "00".repeat(16);
        costly.wraps[0].derivation =
            Derivation::Passphrase { salt, memory_kib: u32::MAX, passes: 1, lanes: 1 };
        assert_eq!(costly.problems().len(), 1);
    }
}
