//! Who asks, as the kernel says of the socket, and what users may ask about which files.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::UnixListener;
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::api::{GetResidency, GetStates, Pin, StartAction};
use crate::daemon::shared::DaemonState;

/// Anybody may read it.
const READABLE_BY_ALL: u32 = 0o004;

/// The user who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(Option<u32>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|peer| peer.uid()))
    }
}

/// A call about files.
pub(super) trait OfFiles {
    /// The files.
    fn inos(&self) -> Vec<Ino>;
    /// Whether it only looks: then it is enough that all may read them.
    fn looks(&self) -> bool;
}

impl OfFiles for StartAction {
    fn inos(&self) -> Vec<Ino> {
        self.0.roots.iter().map(|root| root.ino).collect()
    }

    fn looks(&self) -> bool {
        false
    }
}

impl OfFiles for Pin {
    fn inos(&self) -> Vec<Ino> {
        self.roots.iter().map(|root| root.ino).collect()
    }

    fn looks(&self) -> bool {
        false
    }
}

impl OfFiles for GetStates {
    fn inos(&self) -> Vec<Ino> {
        self.inos.clone()
    }

    fn looks(&self) -> bool {
        true
    }
}

impl OfFiles for GetResidency {
    fn inos(&self) -> Vec<Ino> {
        vec![self.ino]
    }

    fn looks(&self) -> bool {
        true
    }
}

/// Whether a user may ask this: the files are theirs, or all may read them where it only looks.
/// What is gone is nobody's secret.
pub(super) async fn may(shared: &DaemonState, peer: Peer, call: &impl OfFiles) -> Result<()> {
    let denied = |why: &str| Err(FsError::new(ErrorKind::Permission, why.to_owned()));
    let Some(user) = peer.0 else { return denied("the kernel does not say who asks") };
    if user == 0 {
        return Ok(());
    }
    for ino in call.inos() {
        let inode = match shared.engine.getattr(ino).await {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            inode => inode?,
        };
        let looks = call.looks() && inode.mode & READABLE_BY_ALL != 0;
        if inode.uid != user && !looks {
            return denied(
                "these files are not all yours: their owner may ask that of the daemon, and root, \
                 who mounted the volume",
            );
        }
    }
    Ok(())
}
