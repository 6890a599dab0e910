//! Speaks with running daemons through their admin sockets.

mod requests;

pub(crate) use requests::STATES_AT_ONCE;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use weir_door_block::BlockCounts;
use weir_door_block::attach::Attached;
use weir_engine::{AsideSummary, BucketUrl, HeldDeletions};
use weir_object::{MeterSnapshot, Trouble};
use weir_types::{ErrorKind, FsError, Result};

use crate::paths;

/// How long a daemon may take to say how it is.
const STATUS_LONGEST: Duration = Duration::from_secs(10);

/// The socket of one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

/// What this program reads of a daemon's status.
#[derive(Debug, Deserialize)]
pub(crate) struct StatusView {
    pub(crate) mountpoint: Option<PathBuf>,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) uptime_s: u64,
    pub(crate) ending: bool,
    pub(crate) volume: String,
    pub(crate) read_only: bool,
    pub(crate) fenced: bool,
    pub(crate) files: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) tier: TierView,
    #[serde(default)]
    pub(crate) files_in_doubt: u64,
    pub(crate) journal: JournalView,
    pub(crate) mount: MountView,
    #[serde(default)]
    pub(crate) aside: AsideSummary,
    #[serde(default)]
    pub(crate) held_deletions: Vec<HeldView>,
    pub(crate) since_mount: SinceView,
    pub(crate) requests: MeterSnapshot,
    #[serde(default)]
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) flush_failed: Option<FlushFailedView>,
    #[serde(default)]
    pub(crate) metered: Vec<String>,
    pub(crate) settings: Value,
    pub(crate) passthrough: Option<PassthroughView>,
    pub(crate) block: BlockView,
}

/// A link of which the bucket's deletions wait for a confirmation.
#[derive(Debug, Deserialize)]
pub(crate) struct HeldView {
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) deletions: HeldDeletions,
}

impl StatusView {
    /// Where people find the daemon: its mount point, or the URL that it serves.
    pub(crate) fn place(&self) -> PathBuf {
        self.mountpoint.clone().unwrap_or_else(|| self.volume.clone().into())
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct BlockView {
    pub(crate) disks: Option<u64>,
    pub(crate) disks_open: Option<u64>,
    pub(crate) nbd: Option<NbdView>,
    pub(crate) devices: Vec<Attached>,
    pub(crate) counts: BlockCounts,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NbdView {
    pub(crate) address: Option<String>,
    pub(crate) unix: Option<PathBuf>,
    pub(crate) tls: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TierView {
    pub(crate) tier_bytes: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) dirty_bytes: u64,
    pub(crate) mirrors: u64,
    pub(crate) limit_files: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) free_files: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JournalView {
    pub(crate) used_bytes: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) durable: bool,
    pub(crate) refused_fsyncs: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MountView {
    pub(crate) recovered: Value,
    pub(crate) replayed_commits: u64,
    pub(crate) replayed_files: u64,
    pub(crate) taken_from: Option<String>,
    pub(crate) left_behind: Option<LeftBehindView>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LeftBehindView {
    pub(crate) host: String,
    pub(crate) tier: Option<String>,
    pub(crate) journal: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SinceView {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) bytes_fetched: u64,
    pub(crate) bytes_flushed: u64,
    pub(crate) fsyncs: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FlushFailedView {
    pub(crate) error: String,
    pub(crate) last_ms_ago: u64,
    pub(crate) failures: u32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PassthroughView {
    pub(crate) active: bool,
    pub(crate) why: String,
    pub(crate) opens: u64,
    pub(crate) other_opens: u64,
}

impl Client {
    /// Every daemon that answers. Sockets of dead ones are removed.
    pub(crate) fn all() -> Vec<Client> {
        let mut found = Vec::new();
        for directory in paths::run_directories() {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut sockets: Vec<_> = entries.map(|entry| entry.path()).collect();
            sockets.sort();
            found.extend(sockets.into_iter().filter_map(Self::alive));
        }
        found
    }

    /// The daemon of a place: of the mount on a real path, or of the volume of a URL.
    pub(crate) fn of(place: &Path) -> Option<Client> {
        let directories = paths::run_directories().into_iter();
        directories.map(|d| paths::socket(&d, place)).find_map(Self::alive)
    }

    /// The daemon of the mount on `path` or of the volume that is served by that URL, or an error
    /// that says where there are any.
    pub(crate) fn at(path: &Path) -> Result<Client> {
        match Self::of(&paths::place(path)?) {
            Some(client) => Ok(client),
            None => Err(not_mounted(path)),
        }
    }

    /// The daemon of this machine that has a volume: the one that writes it, if there is one.
    pub(crate) async fn having(url: &BucketUrl) -> Option<(Client, StatusView)> {
        let (wanted, mut found) = (url.to_string(), None);
        for client in Self::all() {
            // One that cannot answer is of no use here; the volume's lease still tells of it.
            let Ok(status) = client.status().await else { continue };
            if status.volume == wanted && !status.ending {
                let writes = !status.read_only;
                found = Some((client, status));
                if writes {
                    break;
                }
            }
        }
        found
    }

    /// The daemon in whose mount the file at `path`, a real path, lies, and its mount point.
    pub(crate) fn holding(path: &Path) -> Result<(Client, &Path)> {
        let mut above = path.ancestors().filter_map(|at| Some((Self::of(at)?, at)));
        above.next().ok_or_else(|| not_mounted(path))
    }

    fn alive(socket: PathBuf) -> Option<Client> {
        if socket.extension().is_none_or(|e| e != "sock") {
            return None;
        }
        match std::os::unix::net::UnixStream::connect(&socket) {
            Ok(_) => Some(Client { socket }),
            Err(error) => {
                if error.kind() == std::io::ErrorKind::ConnectionRefused {
                    let _ = std::fs::remove_file(&socket);
                }
                None
            }
        }
    }

    /// The place of the daemon as its socket is named after it.
    pub(crate) fn name(&self) -> String {
        self.socket.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// How the daemon is, as it says it.
    pub(crate) async fn status_json(&self) -> Result<Value> {
        let asked = tokio::time::timeout(STATUS_LONGEST, self.request(Method::GET, "/status"));
        asked.await.unwrap_or_else(|_| {
            let text = format!(
                "the daemon of {} does not answer: it is still starting, or hangs; see its log",
                self.name()
            );
            Err(FsError::new(ErrorKind::Retry, text))
        })
    }

    /// How the daemon is.
    pub(crate) async fn status(&self) -> Result<StatusView> {
        view(self.status_json().await?)
    }

    /// Asks, and waits for the answer without an end: flushing takes as long as it takes.
    pub(crate) async fn request(&self, method: Method, path: &str) -> Result<Value> {
        self.send(method, path, None).await
    }

    /// Asks with a body in JSON, or without one.
    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Value> {
        let gone = |error: Box<dyn std::error::Error + Send + Sync>| {
            let text = "the daemon ended without an answer; see its log";
            FsError::new(ErrorKind::Retry, text).with_source(error)
        };
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| gone(e.into()))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| gone(e.into()))?;
        tokio::spawn(connection);
        let mut request =
            Request::builder().method(method).uri(path).header(hyper::header::HOST, "weir");
        if body.is_some() {
            request = request.header(hyper::header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|e| FsError::new(ErrorKind::Bug, e.to_string()))?;
        let answer = sender.send_request(request).await.map_err(|e| gone(e.into()))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| gone(e.into()))?;
        let value: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let text = value.get("error").and_then(Value::as_str);
        let text = text.map_or_else(|| format!("the daemon answers {status}"), str::to_owned);
        Err(FsError::new(kind(status), text))
    }
}

/// What kind of error the daemon meant.
fn kind(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::NOT_FOUND => ErrorKind::NotFound,
        StatusCode::BAD_REQUEST => ErrorKind::Invalid,
        StatusCode::FORBIDDEN => ErrorKind::Permission,
        StatusCode::NOT_IMPLEMENTED => ErrorKind::Unsupported,
        StatusCode::INSUFFICIENT_STORAGE => ErrorKind::NoSpace,
        _ => ErrorKind::Retry,
    }
}

/// A status, read from what a daemon said.
pub(crate) fn view(status: Value) -> Result<StatusView> {
    understand(status)
}

/// What a daemon said, as what it should be.
pub(crate) fn understand<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(|error| {
        let text = "the daemon speaks another version: use the weir that started it";
        FsError::new(ErrorKind::Unsupported, text).with_source(error)
    })
}

fn not_mounted(path: &Path) -> FsError {
    if let Some(dead) = weir_door_fuse::dead_mount(path) {
        return dead;
    }
    let shown = path.display();
    let text = match shown.to_string().contains("://") {
        true => format!("{shown} is not served here: see `weir status` for what is"),
        false => {
            format!("{shown}: no volume is mounted here: see `weir status` for those that are")
        }
    };
    FsError::new(ErrorKind::NotFound, text)
}
