//! The NBD server.

pub(crate) mod connection;
mod errno;
mod input;
mod output;
pub mod protocol;
mod session;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use weir_engine::Engine;
use weir_types::{ErrorKind, FsError, Result};

use crate::BlockCounts;

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

/// A server that answers until it is stopped.
pub struct NbdServer {}

impl NbdServer {
    /// Listens and answers in tasks of the runtime that it is called in. Fails where an address
    /// cannot be had or a certificate cannot be read.
    pub async fn start(_engine: Arc<Engine>, _options: NbdOptions) -> Result<NbdServer> {
        Err(FsError::new(ErrorKind::Unsupported, "NBD comes with the next commit"))
    }

    /// The address of [`NbdOptions::listen`], with the port that was chosen where that was 0.
    pub fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// What it did so far.
    pub fn counts(&self) -> BlockCounts {
        BlockCounts::default()
    }

    /// Takes no more connections, answers what is under way, and closes the others. What clients
    /// had not flushed stays with the engine.
    pub async fn stop(&self) {}
}
