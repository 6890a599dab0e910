//! Who a node is: a key pair of one session.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::crypto::aws_lc_rs::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use weir_types::{ErrorKind, FsError, Result};

/// The SHA-256 of a node's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// That of a public key in its standard encoding.
    pub(crate) fn of(public_key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, public_key).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The key pair of a session. It is in memory only, and goes with the process.
#[derive(Clone)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// `Bug` when no key can be made, which no machine is known for.
    pub fn new() -> Result<Self> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
        let private = pair.to_pkcs8v1().map_err(failed)?;
        let private = PrivatePkcs8KeyDer::from(private.as_ref().to_vec());
        let key = any_supported_type(&PrivateKeyDer::Pkcs8(private)).map_err(failed)?;
        let public = key.public_key().ok_or_else(|| failed("it has no public half"))?.to_vec();
        let fingerprint = Fingerprint::of(&public);
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        Ok(Self { key, fingerprint })
    }

    /// By what others know it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

fn failed(error: impl fmt::Display) -> FsError {
    FsError::new(ErrorKind::Bug, format!("make a key pair for the talk between nodes: {error}"))
}
