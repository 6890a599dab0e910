//! Serves the driver on a Unix socket, until SIGTERM or SIGINT.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::driver::Driver;
use crate::proto::controller_server::ControllerServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::node_server::NodeServer;

/// Which services are served, besides the identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faces {
    pub(crate) controller: bool,
    pub(crate) node: bool,
}

pub(crate) async fn serve(driver: Driver, faces: Faces, endpoint: &str) -> Result<(), String> {
    let path = socket(endpoint)?;
    let listener = listen(&path).await.map_err(|e| format!("listen on {}: {e}", path.display()))?;
    let ended = until_ended().map_err(|e| format!("wait for signals: {e}"))?;
    tracing::info!(?path, ?faces, "serving");
    Server::builder()
        .add_service(IdentityServer::new(driver.clone()))
        .add_optional_service(faces.controller.then(|| ControllerServer::new(driver.clone())))
        .add_optional_service(faces.node.then(|| NodeServer::new(driver)))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), ended)
        .await
        .map_err(|e| format!("serve on {}: {e}", path.display()))
}

/// `unix:PATH` and `unix://PATH` are both in use.
fn socket(endpoint: &str) -> Result<PathBuf, String> {
    let path = endpoint.strip_prefix("unix:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    match path {
        Some(path) if path.starts_with('/') => Ok(path.into()),
        _ => Err(format!(
            "the endpoint {endpoint} is no Unix socket: name one as unix:/csi/csi.sock"
        )),
    }
}

/// Takes the place of a driver that died, and not that of one that lives.
async fn listen(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another driver serves there"));
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    UnixListener::bind(path)
}

fn until_ended() -> io::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_unix_sockets() {
        for endpoint in ["unix:/csi/csi.sock", "unix:///csi/csi.sock"] {
            assert_eq!(socket(endpoint).unwrap(), Path::new("/csi/csi.sock"));
        }
        for endpoint in ["tcp://127.0.0.1:1", "/csi/csi.sock", "unix:csi.sock"] {
            socket(endpoint).unwrap_err();
        }
    }

    #[tokio::test]
    async fn the_socket_of_who_died_is_taken_and_that_of_who_lives_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        drop(listen(&path).await.unwrap());
        let alive = listen(&path).await.unwrap();
        assert_eq!(listen(&path).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(alive);
    }
}
