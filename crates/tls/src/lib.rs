//! TLS from PEM files, for whoever serves clients or asks servers.
//!
//! In come paths of certificates and keys; out go what begins TLS, and authorities to trust. A file that cannot be
//! used is said by its name, with what is wrong with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, DEFAULT_VERSIONS, RootCertStore, ServerConfig};
use weir_types::{ErrorKind, FsError, Result};

pub use tokio_rustls::TlsAcceptor;
pub use tokio_rustls::server::TlsStream;

/// The PEM files of a server.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// Its certificates, its own first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificates of authorities: clients must show a certificate that one of them signed.
    pub client_authority: Option<PathBuf>,
}

/// What is spoken, and by which versions of TLS.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spoken<'a> {
    /// Version 1.3 and no other.
    pub only_newest: bool,
    /// What both sides call the protocol below (ALPN), where it has such a name.
    pub protocol: Option<&'a [u8]>,
}

/// What begins TLS with clients. `Invalid` where a file cannot be read, or is not what it should be.
pub fn acceptor(files: &ServerFiles, spoken: Spoken<'_>) -> Result<TlsAcceptor> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions = if spoken.only_newest { &[&TLS13][..] } else { DEFAULT_VERSIONS };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| unusable("TLS", error))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| unusable(path.display(), error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable(files.key.display(), error))?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|error: rustls::Error| unusable(files.certificate.display(), error))?;
    config.alpn_protocols = spoken.protocol.map(<[u8]>::to_vec).into_iter().collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The authorities of a file, to trust. `Invalid` where there are none.
pub fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).map_err(|error| unusable(path.display(), error))?;
    }
    Ok(roots)
}

/// All certificates of a file, which must have one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path.display(), error))?;
    match found.is_empty() {
        true => Err(unusable(path.display(), "there is no certificate in it")),
        false => Ok(found),
    }
}

fn unusable(what: impl std::fmt::Display, why: impl std::fmt::Display) -> FsError {
    let text = format!("TLS cannot use {what}: {why}; give PEM files of a certificate and its key");
    FsError::new(ErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_none_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "").expect("written");
        let files = |certificate: &Path| ServerFiles {
            certificate: certificate.to_owned(),
            key: empty.clone(),
            client_authority: None,
        };
        for file in [&empty, &dir.path().join("missing.pem")] {
            let Err(error) = acceptor(&files(file), Spoken::default()) else {
                panic!("{} is no certificate", file.display())
            };
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let error = authorities(file).expect_err("none").to_string();
            assert!(error.contains(&file.display().to_string()), "{error}");
        }
    }
}
