//! Where disks are served, to whom, and with what.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where disks are served by NBD.
#[derive(Clone, Debug, Default)]
pub struct NbdOptions {
    /// An address to listen on.
    pub listen: Option<SocketAddr>,
    /// A Unix socket to listen on; one that a dead server left is replaced.
    pub unix: Option<PathBuf>,
    /// Clients of `listen` must begin TLS before anything else.
    pub tls: Option<TlsOptions>,
    /// No client may write.
    pub read_only: bool,
    /// What the data of all requests under way may take of memory; at least one request of the
    /// largest size always fits.
    pub memory_bytes: u64,
}

/// The PEM files of a server with TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The server's certificates, its own first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificates of authorities: clients must show a certificate that one of them signed.
    pub client_authority: Option<PathBuf>,
}
