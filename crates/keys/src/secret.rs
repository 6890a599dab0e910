//! What people keep: a passphrase, or a file with a key.

use weir_types::{ErrorKind, FsError, Result};
use zeroize::Zeroizing;

use crate::ring::{ClearKey, KEY_BYTES, chance};

/// How a key file begins; behind it are the key's 32 bytes, hexadecimal.
const KEY_MARK: &str = "weir-key-1 ";
/// Passphrases that new wraps are made of are not shorter.
const LEAST_CHARACTERS: usize = 8;

/// What opens a volume.
#[derive(Clone)]
pub struct Secret(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Passphrase(Zeroizing<String>),
    Key(ClearKey),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.kind())
    }
}

impl Secret {
    /// A new key, and the text of the file that it is to be kept in.
    pub fn new_key_file() -> Result<Zeroizing<String>> {
        let key = chance()?;
        let digits = Zeroizing::new(hex::encode(&key[..]));
        Ok(Zeroizing::new(format!("{KEY_MARK}{}\n", *digits)))
    }

    /// What a file holds, or a program says: a key that [`Self::new_key_file`] made, or one line that is a passphrase.
    ///
    /// # Errors
    /// `Invalid` when it is neither; nothing of it is in the message.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let bad = |why: &str| FsError::new(ErrorKind::Invalid, why);
        let text = std::str::from_utf8(text).map_err(|_| {
            bad("it is not text: it should have one line, a key of `weir key new` or a passphrase")
        })?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        if text.contains(['\n', '\r', '\0']) {
            return Err(bad(
                "it has more than one line: it should have one, a key of `weir key new` or a passphrase",
            ));
        }
        let Some(digits) = text.strip_prefix(KEY_MARK) else {
            return Ok(Self(Kind::Passphrase(Zeroizing::new(text.to_owned()))));
        };
        let mut key = ClearKey::default();
        match hex::decode_to_slice(digits.trim(), &mut key[..]) {
            Ok(()) => Ok(Self(Kind::Key(key))),
            Err(_) => Err(bad(&format!(
                "it begins as a key file, but {} hexadecimal digits do not follow",
                2 * KEY_BYTES
            ))),
        }
    }

    /// A key that was kept by other means than a file with it.
    pub fn of_key(key: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        Self(Kind::Key(key))
    }

    /// Refuses what should open no new volume.
    pub(crate) fn check_strong(&self) -> Result<()> {
        match &self.0 {
            Kind::Passphrase(words) if words.chars().count() < LEAST_CHARACTERS => {
                let text = format!(
                    "a passphrase needs at least {LEAST_CHARACTERS} characters; five random words are good"
                );
                Err(FsError::new(ErrorKind::Invalid, text))
            }
            _ => Ok(()),
        }
    }

    /// What it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.0 {
            Kind::Passphrase(_) => "passphrase",
            Kind::Key(_) => "key file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_read_back_and_all_else_is_a_passphrase_or_refused() {
        let text = Secret::new_key_file().expect("random");
        assert_ne!(*text, *Secret::new_key_file().expect("random"));
        let read = Secret::parse(text.as_bytes()).expect("reads");
        assert_eq!(read.kind(), "key file");
        assert!(!format!("{read:?}").contains(&text[20..30]));
        for (text, words) in [
            ("one two\n", "one two"),
            ("x", "x"),
            ("  kept \r\n", "  kept "),
            ("ünïcode\n", "ünïcode"),
        ] {
            let Secret(Kind::Passphrase(read)) = Secret::parse(text.as_bytes()).expect(text) else {
                panic!("{text} is a passphrase");
            };
            assert_eq!(*read, words);
        }
        let short = text[..text.len() - 3].to_owned();
        for bad in [
            &b""[..],
            b"\n",
            b"one\ntwo\n",
            b"\xff\xfe",
            b"a\0b",
            short.as_bytes(),
            b"weir-key-1 zz",
        ] {
            let error = Secret::parse(bad).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!error.to_string().contains(&text[20..30]));
        }
        assert!(Secret::parse(b"1234567").expect("reads").check_strong().is_err());
        assert!(Secret::parse(b"12345678").expect("reads").check_strong().is_ok());
    }
}
