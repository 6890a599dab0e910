//! What `volume.json` says of a volume's keys: data only, without a secret in clear.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a volume is encrypted, and what opens its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// What seals records and metadata.
    pub cipher: Cipher,
    /// Keys of before, by their number, each sealed by the key of now, whose number is that of these: hexadecimal.
    pub older: Vec<String>,
    /// The key of now, sealed by each secret that opens the volume.
    pub wraps: Vec<KeyWrap>,
}

/// What seals records and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Cipher {
    /// AES with keys of 256 bits in Galois/Counter Mode (NIST SP 800-38D).
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
}

/// The key of a volume, sealed by one secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyWrap {
    /// What people call it.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: i64,
    /// How the secret becomes the key that seals.
    pub derivation: Derivation,
    /// The sealed key: hexadecimal.
    pub sealed: String,
}

/// How a secret becomes a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Derivation {
    /// A passphrase, by Argon2id (RFC 9106).
    Passphrase {
        /// 16 bytes, hexadecimal.
        salt: String,
        /// Memory in KiB.
        memory_kib: u32,
        /// Passes over it.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// A key of 256 random bits, by HKDF-SHA-256 (RFC 5869).
    KeyFile {
        /// 16 bytes, hexadecimal.
        salt: String,
    },
}

impl Derivation {
    /// What the secret is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Derivation::Passphrase { .. } => "passphrase",
            Derivation::KeyFile { .. } => "key file",
        }
    }
}

impl Encryption {
    /// Most secrets that may open a volume: each costs who has another one a try.
    pub const MOST_WRAPS: usize = 8;

    /// All that is wrong with these values, one sentence each; empty when they are fine.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.wraps.is_empty() || self.wraps.len() > Self::MOST_WRAPS {
            let (have, most) = (self.wraps.len(), Self::MOST_WRAPS);
            found.push(format!("{have} secrets open it: need 1 to {most}"));
        }
        if self.older.len() >= usize::from(u16::MAX) {
            found.push("it has too many keys".to_owned());
        }
        for wrap in &self.wraps {
            // Else whoever may write the object has all who open it wait, or run out of memory.
            if let Derivation::Passphrase { memory_kib, passes, lanes, .. } = wrap.derivation
                && !((8 * lanes..=1 << 20).contains(&memory_kib)
                    && (1..=32).contains(&passes)
                    && (1..=16).contains(&lanes))
            {
                found.push(format!(
                    "key {} cannot be derived so: too much or too little work",
                    wrap.name
                ));
            }
        }
        found
    }
}
