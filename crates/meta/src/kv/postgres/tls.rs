//! TLS to the server.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use weir_types::{ErrorKind, FsError, Result};

use super::url::SslMode;

/// What begins TLS, for a mode and the authorities that are trusted: those of `root_file`, or the
/// machine's.
pub(super) fn connector(mode: SslMode, root_file: Option<&str>) -> Result<Tls> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let proven = matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) || root_file.is_some();
    let roots = if proven { roots(root_file)? } else { RootCertStore::empty() };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", error))?;
    let config = match (mode, proven) {
        (SslMode::VerifyFull, _) => builder.with_root_certificates(roots).with_no_client_auth(),
        _ => {
            let chain = match proven {
                true => Some(
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                        .build()
                        .map_err(|error| unusable("the authorities", error))?,
                ),
                false => None,
            };
            let verifier = Arc::new(AnyName { chain, provider });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    Ok(Tls(TlsConnector::from(Arc::new(config))))
}

fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) if file != "system" => {
            roots = weir_tls::authorities(Path::new(file))
                .map_err(|error| error.within("the metadata's server"))?;
        }
        _ => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = "this machine has none: install ca-certificates, or give sslrootcert";
                return Err(unusable("the machine's authorities", why));
            }
        }
    }
    Ok(roots)
}

fn unusable(what: impl std::fmt::Display, why: impl std::fmt::Display) -> FsError {
    let text = format!("TLS to the metadata's server cannot use {what}: {why}");
    FsError::new(ErrorKind::Invalid, text)
}

/// Takes a certificate for any name: from a trusted authority if there is a chain to check, else
/// any at all, as `sslmode=require` asks.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last, once the chain holds.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Begins TLS with a server.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

/// Begins TLS with the server of one name.
pub(super) struct TlsTo(TlsConnector, ServerName<'static>);

/// Why TLS did not begin.
#[derive(Debug)]
pub(super) struct TlsError(String);

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = TlsTo;
    type Error = TlsError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<TlsTo, TlsError> {
        let name = ServerName::try_from(domain.to_owned())
            .map_err(|error| TlsError(format!("`{domain}` is no name of a server: {error}")))?;
        Ok(TlsTo(self.0.clone(), name))
    }
}

impl TlsConnect<Socket> for TlsTo {
    type Stream = Encrypted;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Encrypted, Self::Error>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            match self.0.connect(self.1, stream).await {
                Ok(stream) => Ok(Encrypted(Box::new(stream))),
                Err(error) if error.get_ref().is_some_and(|e| e.is::<Error>()) => {
                    Err(TlsError(error.to_string()).into())
                }
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
