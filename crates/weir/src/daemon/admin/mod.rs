//! The admin door of a daemon: the calls of [`crate::api`] over HTTP on a Unix socket that only its
//! owner may open; where that is root, some of them on one that is open to all; and if asked, on a
//! loopback port, what changes nothing: a page for browsers with what that asks for, `GET /metrics`
//! and its health; and cancelling, for who has a token.

mod actions;
mod bill;
mod disks;
mod health;
mod lifecycle;
mod links;
mod locks;
mod mount;
mod nfs;
mod page;
mod peer;
mod port;
mod prices;
mod quotas;
mod recover;
mod routes;
mod scrub;
mod snapshots;
mod survey;
mod throughput;
mod upgrade;
mod users;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use weir_types::{ErrorKind, FsError, Result};

use self::peer::Peer;
use self::routes::Routes;
use crate::client::Client;
use crate::daemon::handover::Sockets;
use crate::daemon::shared::DaemonState;
use crate::paths;

/// How long a daemon that was told to end may take to flush before the next one gives up.
const LAST_DAEMON: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest body of a request: an action may name 100,000 paths.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The sockets, bound but not yet answered.
pub(crate) struct Bound {
    socket: Unlink,
    unix: UnixListener,
    users: Option<(Unlink, UnixListener)>,
    tcp: Option<TcpListener>,
}

/// Binds the socket of a place; one that a dead daemon left is replaced. A daemon that was told to
/// end and still flushes is waited for. Those that this process was handed are taken as they are.
pub(crate) async fn bind(
    place: &Path,
    listen: Option<SocketAddr>,
    handed: Sockets,
) -> Result<Bound> {
    let directory = paths::own_run_directory()?;
    let socket = paths::socket(&directory, place);
    let shown = place.display();
    let at = |error| FsError::local_io(format!("admin socket {}", socket.display()), error);
    if let Some(unix) = handed.unix {
        let tcp = handed.tcp.map(|tcp| TcpListener::from_std(tcp.into()));
        let tcp = tcp.transpose().map_err(at)?;
        let unix = UnixListener::from_std(unix.into()).map_err(at)?;
        let open = paths::users_directory(&directory)?;
        let users = handed.users.zip(open).map(|(users, open)| {
            let socket = Unlink::not_yet(paths::socket(&open, place));
            Ok((socket, UnixListener::from_std(users.into())?))
        });
        let users = users.transpose().map_err(at)?;
        return Ok(Bound { socket: Unlink::not_yet(socket), unix, users, tcp });
    }
    let mut waited = Duration::ZERO;
    while UnixStream::connect(&socket).is_ok() {
        if waited == Duration::ZERO {
            if let Some(pid) = serving(place).await {
                let text =
                    format!("{shown} is served by process {pid}: `weir stop {shown}` ends it");
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            tracing::info!("the last daemon for {shown} still flushes: waiting for it");
        }
        if waited > LAST_DAEMON {
            let text = format!(
                "the last daemon for {shown} still flushes what it has: see `weir status`, and try \
                 again when it has ended"
            );
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        // Also once more after its socket is gone, until its tier is.
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    let (socket, unix) = bind_unix(socket, 0o600)?;
    let users = match paths::users_directory(&directory)? {
        // The mount is not the worse for it.
        Some(open) => bind_unix(paths::socket(&open, place), 0o666)
            .inspect_err(|error| tracing::warn!("users cannot ask this daemon: {error}"))
            .ok(),
        None => None,
    };
    let tcp = listen.map(bind_tcp).transpose()?;
    Ok(Bound { socket, unix, users, tcp })
}

fn bind_unix(socket: PathBuf, mode: u32) -> Result<(Unlink, UnixListener)> {
    let at = |error| FsError::local_io(format!("admin socket {}", socket.display()), error);
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&socket).map_err(at)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(mode)).map_err(at)?;
    Ok((Unlink { socket, ours: true }, listener))
}

/// The process that serves a volume by its URL and is not about to end.
async fn serving(place: &Path) -> Option<u32> {
    let status = Client::of(place)?.status().await.ok()?;
    (status.mountpoint.is_none() && !status.ending).then_some(status.pid)
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    let at = |error| FsError::local_io(format!("--admin-listen {address}"), error);
    let listener = std::net::TcpListener::bind(address).map_err(at)?;
    listener.set_nonblocking(true).map_err(at)?;
    TcpListener::from_std(listener).map_err(at)
}

impl Bound {
    /// The sockets once more, for whoever goes on in the place of this process.
    pub(crate) fn sockets(&self) -> Result<Sockets> {
        let again = |socket: BorrowedFd<'_>| {
            let again = socket.try_clone_to_owned();
            again.map_err(|e| FsError::local_io("keep an admin socket", e))
        };
        let users = self.users.as_ref().map(|(_, users)| again(users.as_fd()));
        let tcp = self.tcp.as_ref().map(|tcp| again(tcp.as_fd()));
        Ok(Sockets {
            unix: Some(again(self.unix.as_fd())?),
            users: users.transpose()?,
            tcp: tcp.transpose()?,
        })
    }

    /// Answers until the process ends. Must be called within the runtime.
    pub(crate) fn serve(self, shared: &Arc<DaemonState>) {
        let all = for_monitors(all_calls());
        let all = all.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
        if let Some(tcp) = self.tcp {
            let mut router = for_monitors(port::calls());
            if let Some(token) = &shared.token {
                router = router.merge(port::changing(token.clone()));
            }
            let router = port::guarded(router).with_state(shared.clone());
            tokio::spawn(async move { axum::serve(tcp, router).await });
        }
        if let Some((socket, users)) = self.users {
            let router = users::calls().into_router().fallback(users::denied);
            let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
            let service = router.with_state(shared.clone());
            tokio::spawn(async move {
                let _socket = socket.taken();
                axum::serve(users, service.into_make_service_with_connect_info::<Peer>()).await
            });
        }
        let router = all.with_state(shared.clone());
        tokio::spawn(async move {
            let _socket = self.socket.taken();
            axum::serve(self.unix, router).await
        });
    }
}

/// Removes the socket when the start fails or the runtime ends. One that was handed over stays for
/// whoever goes on, until this daemon does.
struct Unlink {
    socket: PathBuf,
    ours: bool,
}

impl Unlink {
    /// Of a socket that was handed over.
    fn not_yet(socket: PathBuf) -> Self {
        Self { socket, ours: false }
    }

    /// This daemon answers there from now on.
    fn taken(mut self) -> Self {
        self.ours = true;
        self
    }
}

impl Drop for Unlink {
    fn drop(&mut self) {
        if self.ours {
            // A socket that stays is replaced by the next daemon and passed over by clients.
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// With what programs ask that watch daemons of any kind.
fn for_monitors(routes: Routes) -> Router<Arc<DaemonState>> {
    let router = routes.into_router().route("/metrics", get(mount::scrape));
    router.route("/healthz", get(health::lives)).route("/readyz", get(health::ready))
}

fn all_calls() -> Routes {
    let routes = mount::add(mount::add_watching(Routes::default()));
    let routes = lifecycle::add(scrub::add(snapshots::add(routes)));
    let routes = disks::add(nfs::add(actions::add(links::add(locks::add(upgrade::add(routes))))));
    let routes = survey::add_watching(throughput::add(quotas::add(recover::add(routes))));
    bill::add_watching(prices::add_watching(routes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_api_is_what_the_daemon_answers() {
        let path = Path::new("../../docs/api.md");
        let mut page = all_calls().page;
        crate::commands::describe(&mut page);
        let page = page.text();
        if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).expect("writes");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "write it anew: WEIR_WRITE_DOCS=1 cargo test -p weir api");
    }
}
