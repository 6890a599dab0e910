//! TLS from PEM files, for RPC (RFC 9289).

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use weir_types::{ErrorKind, FsError, Result};

use crate::options::TlsOptions;

/// What is spoken below TLS (RFC 9289, 8.2).
const PROTOCOL: &[u8] = b"sunrpc";

/// What begins TLS with clients: version 1.3, no other.
pub(crate) fn acceptor(options: &TlsOptions) -> Result<TlsAcceptor> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable("TLS", error))?;
    let builder = match &options.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(path.display(), error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable(path.display(), error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&options.key)
        .map_err(|error| unusable(options.key.display(), error))?;
    let mut config = builder
        .with_single_cert(certificates(&options.certificate)?, key)
        .map_err(|error: rustls::Error| unusable(options.certificate.display(), error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
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
