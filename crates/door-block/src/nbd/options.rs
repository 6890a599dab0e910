//! Where disks are served, to whom, and with what.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_tls::ServerFiles;

/// Where disks are served by NBD.
#[derive(Clone, Debug, Default)]
pub struct NbdOptions {
    /// An address to listen on.
    pub listen: Option<SocketAddr>,
    /// A Unix socket to listen on; one that a dead server left is replaced.
    pub unix: Option<PathBuf>,
    /// Clients of `listen` must begin TLS before anything else.
    pub tls: Option<ServerFiles>,
    /// No client may write.
    pub read_only: bool,
    /// What the data of all requests under way may take of memory; at least one request of the
    /// largest size always fits.
    pub memory_bytes: u64,
}
