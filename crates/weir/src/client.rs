//! Speaks with running daemons through their admin sockets.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use weir_engine::{BucketUrl, FileState};
use weir_types::{ErrorCode, ErrorKind, FsError, Ino, Result};

use crate::api::{Call, GetStates, GetStatus, Method, Refusal, StatusAnswer};
use crate::{paths, render};

/// How long a daemon may take to say how it is, or what it has.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Files whose state is asked for at once.
pub(crate) const STATES_AT_ONCE: usize = 4_096;

/// The socket of one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    /// Every daemon that answers. Sockets of dead ones are removed.
    pub(crate) fn all() -> Vec<Client> {
        let mut found = Vec::new();
        for directory in paths::open_directories() {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut sockets: Vec<_> = entries.map(|entry| entry.path()).collect();
            sockets.sort();
            found.extend(sockets.into_iter().filter_map(Self::alive));
        }
        found
    }

    /// The only daemon of this machine. Where there are several the error shows how to name one.
    pub(crate) fn only(example: &str) -> Result<Client> {
        let mut clients = Self::all();
        match (clients.pop(), clients.is_empty()) {
            (Some(client), true) => Ok(client),
            (None, _) => Err(FsError::new(
                ErrorKind::NotFound,
                "no volume is mounted or served here (by this user)",
            )),
            (Some(_), false) => {
                let text = format!(
                    "several volumes are mounted here: name one, as in `{example}`; `weir status` \
                     lists them"
                );
                Err(FsError::new(ErrorKind::Invalid, text))
            }
        }
    }

    /// The daemon of a place: of the mount on a real path, or of the volume of a URL.
    pub(crate) fn of(place: &Path) -> Option<Client> {
        let directories = paths::open_directories().into_iter();
        directories.map(|d| paths::socket(&d, place)).find_map(Self::alive)
    }

    /// The daemon of the mount in which `path` lies, or of the volume that is served by that URL, or
    /// an error that says where there are any.
    pub(crate) fn at(path: &Path) -> Result<Client> {
        let place = paths::place(path)?;
        let above = || Some(Self::holding(&std::fs::canonicalize(&place).ok()?).ok()?.0);
        Self::of(&place).or_else(above).ok_or_else(|| not_mounted(path))
    }

    /// The daemon of this machine that has a volume: the one that writes it, if there is one.
    pub(crate) async fn having(url: &BucketUrl) -> Option<(Client, StatusAnswer)> {
        let mut found = Self::all_having(url).await;
        found.retain(|(_, status)| !status.ending);
        let writer = found.iter().position(|(_, status)| !status.engine.read_only);
        let at = writer.or_else(|| found.len().checked_sub(1))?;
        Some(found.swap_remove(at))
    }

    /// The daemons of this machine that have a volume, also those that are about to end.
    pub(crate) async fn all_having(url: &BucketUrl) -> Vec<(Client, StatusAnswer)> {
        let (wanted, mut found) = (url.to_string(), Vec::new());
        for client in Self::all() {
            // One that cannot answer is of no use here; the volume's lease still tells of it.
            let Ok(status) = client.status().await else { continue };
            if status.engine.volume == wanted {
                found.push((client, status));
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

    /// How the daemon is.
    pub(crate) async fn status(&self) -> Result<StatusAnswer> {
        self.ask(&GetStatus {}).await
    }

    /// Asks what takes no time to answer.
    pub(crate) async fn ask<C: Call>(&self, call: &C) -> Result<C::Answer> {
        let asked = tokio::time::timeout(ANSWER_MAX, self.call(call));
        asked.await.unwrap_or_else(|_| Err(self.hangs()))
    }

    fn hangs(&self) -> FsError {
        let text = format!(
            "the daemon of {} does not answer: it is still starting, or hangs; see its log",
            self.name()
        );
        FsError::new(ErrorKind::Retry, text).coded(ErrorCode::DaemonSilent)
    }

    /// As [`Client::call`]; `None` if the daemon took the call and ended without an answer.
    pub(crate) async fn call_or_gone<C: Call>(&self, call: &C) -> Result<Option<C::Answer>> {
        match self.call(call).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.source().is_some_and(<dyn std::error::Error>::is::<Gone>) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks, and waits for the answer without an end: flushing takes as long as it takes.
    pub(crate) async fn call<C: Call>(&self, call: &C) -> Result<C::Answer> {
        let request = request(call).map_err(|error| {
            FsError::new(ErrorKind::Bug, format!("encode {}", C::PATH)).with_source(error)
        })?;
        serde_json::from_slice(&self.answer(request).await?).map_err(|error| {
            let text = "the daemon speaks another version: use the weir that started it";
            FsError::new(ErrorKind::Unsupported, text).with_source(error)
        })
    }

    /// What Prometheus would be told.
    pub(crate) async fn scrape(&self) -> Result<String> {
        let request = Request::get("/metrics").header(hyper::header::HOST, "weir");
        let request = request
            .body(Full::default())
            .map_err(|error| FsError::new(ErrorKind::Bug, "encode /metrics").with_source(error))?;
        let answer = tokio::time::timeout(ANSWER_MAX, self.answer(request)).await;
        let text = answer.unwrap_or_else(|_| Err(self.hangs()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// How files stand, in their order; `None` for those that are gone. At most [`STATES_AT_ONCE`].
    pub(crate) async fn states(&self, inos: Vec<Ino>) -> Result<Vec<Option<FileState>>> {
        let asked = inos.len();
        let states = self.call(&GetStates { inos }).await?;
        match states.len() == asked {
            true => Ok(states),
            false => Err(FsError::new(ErrorKind::Bug, "the daemon told of other files")),
        }
    }

    /// What is answered, if that is no refusal.
    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Bytes> {
        let (status, body) = self.send(request).await?;
        if !status.is_success() {
            let unknown = |_| Refusal { error: format!("the daemon answers {status}"), code: None };
            return Err(serde_json::from_slice(&body).unwrap_or_else(unknown).into_error(status));
        }
        Ok(body)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
        let gone = |error: BoxedError| {
            let text = "the daemon ended without an answer; see its log";
            FsError::new(ErrorKind::Retry, text).with_source(error)
        };
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| gone(e.into()))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| gone(e.into()))?;
        tokio::spawn(connection);
        let ended = |e: hyper::Error| gone(Gone(e).into());
        let answer = sender.send_request(request).await.map_err(ended)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(ended)?;
        Ok((status, body.to_bytes()))
    }
}

/// A daemon ended while it was asked.
#[derive(Debug)]
struct Gone(hyper::Error);

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Gone {}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

fn request<C: Call>(call: &C) -> std::result::Result<Request<Full<Bytes>>, BoxedError> {
    let request = Request::builder().header(hyper::header::HOST, "weir");
    Ok(match C::METHOD {
        Method::Get => {
            let query = serde_urlencoded::to_string(call)?;
            let uri = format!("{}?{query}", C::PATH);
            request.method(hyper::Method::GET).uri(uri).body(Full::default())?
        }
        Method::Post => {
            let body = Full::new(serde_json::to_vec(call)?.into());
            request.method(hyper::Method::POST).uri(C::PATH).body(body)?
        }
    })
}

fn not_mounted(path: &Path) -> FsError {
    if let Some(dead) = weir_door_fuse::dead_mount(path) {
        return dead;
    }
    let shown = path.display();
    let mounts = weir_door_fuse::our_mounts().unwrap_or_default();
    if mounts.iter().any(|mountpoint| path.starts_with(mountpoint)) {
        let text = format!(
            "{shown}: another user mounted this volume (or this one, with another WEIR_RUN_DIR), and \
             only they may ask its daemon: ask as they"
        );
        return FsError::new(ErrorKind::Permission, text).coded(ErrorCode::NotMounted);
    }
    let text = match shown.to_string().contains("://") {
        true => format!("{shown} is not served here: see `weir status` for what is"),
        false => {
            format!("{shown}: no volume is mounted here: see `weir status` for those that are")
        }
    };
    FsError::new(ErrorKind::NotFound, text).coded(ErrorCode::NotMounted)
}

/// What daemons of this machine answered to one question.
pub(crate) struct Heard<A> {
    /// Those that did.
    pub(crate) answers: Vec<(Client, A)>,
    /// Of those that did not, the name and why.
    pub(crate) silent: Vec<(String, FsError)>,
}

impl<A> Heard<A> {
    /// Asks all at once: one that is ending, or hangs, keeps nobody from the others.
    pub(crate) async fn from(
        clients: Vec<Client>,
        question: impl AsyncFn(&Client) -> Result<A>,
    ) -> Self {
        let asked = futures::future::join_all(clients.iter().map(|client| question(client))).await;
        let mut heard = Self { answers: Vec::new(), silent: Vec::new() };
        for (client, answer) in clients.into_iter().zip(asked) {
            match answer {
                Ok(answer) => heard.answers.push((client, answer)),
                Err(error) => heard.silent.push((client.name(), error)),
            }
        }
        heard
    }

    /// Tells of those who could not be asked.
    pub(crate) fn warn(&self) {
        for (name, error) in &self.silent {
            render::tell(&format!("weir: warning: of {name}: {error}\n"));
        }
    }

    /// For the end of an error that nothing was found: who could not be asked.
    pub(crate) fn unheard(&self) -> String {
        let silent = self.silent.iter().map(|(name, error)| format!("; of {name}: {error}"));
        silent.collect()
    }
}

/// What the daemon in whose mount `path` lies answers, with its place; without a path, what all do.
/// Of all, those that give no answer are told of and passed over.
pub(crate) async fn ask_mounts<C: Call>(
    path: Option<&Path>,
    call: &C,
) -> Result<Vec<(Client, PathBuf, C::Answer)>> {
    if let Some(path) = path {
        let real = paths::real(path)?;
        let (client, mountpoint) = Client::holding(&real)?;
        let answer = client.call(call).await?;
        return Ok(vec![(client, mountpoint.to_owned(), answer)]);
    }
    let heard = Heard::from(Client::all(), async |client| {
        Ok((client.status().await?.place(), client.ask(call).await?))
    });
    let heard = heard.await;
    heard.warn();
    let answers = heard.answers.into_iter();
    Ok(answers.map(|(client, (place, answer))| (client, place, answer)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ListDisks, ListHidden, Unmount};
    use weir_engine::LinkId;

    #[test]
    fn fields_are_a_query_or_a_body() {
        let after = Some("a b+c&d=é\\x".to_owned());
        let hidden = ListHidden { link: LinkId(7), after, limit: None };
        let asked = request(&hidden).expect("encodes");
        let uri = asked.uri().to_string();
        assert_eq!(uri, "/v1/links/hidden?link=7&after=a+b%2Bc%26d%3D%C3%A9%5Cx");
        let query = asked.uri().query().expect("a query");
        let back: ListHidden = serde_urlencoded::from_str(query).expect("decodes");
        assert_eq!((back.link, back.after, back.limit), (hidden.link, hidden.after, None));
        let told = request(&Unmount { lazy: true, force: false }).expect("encodes");
        assert_eq!((told.method().as_str(), told.uri().path()), ("POST", "/v1/unmount"));
    }
    /// Where a daemon would listen.
    fn listener(directory: &Path, name: &str) -> (Client, tokio::net::UnixListener) {
        let socket = directory.join(name);
        let listener = tokio::net::UnixListener::bind(&socket).expect("bind");
        (Client { socket }, listener)
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_ends_or_hangs_keeps_nobody_from_the_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let (hanging, _listener) = listener(directory.path(), "hangs.sock");
        let (ending, closing) = listener(directory.path(), "ends.sock");
        tokio::spawn(async move { while closing.accept().await.is_ok() {} });
        let (well, answering) = listener(directory.path(), "well.sock");
        tokio::spawn(async move {
            let (mut stream, _) = answering.accept().await.expect("accept");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.expect("answer");
            std::future::pending::<()>().await;
        });
        let question = async |client: &Client| client.ask(&ListDisks {}).await;
        let heard = Heard::from(vec![hanging, ending, well], question).await;
        assert_eq!(heard.answers.iter().map(|(c, _)| c.name()).collect::<Vec<_>>(), ["well"]);
        let unheard = heard.unheard();
        assert!(unheard.contains("of hangs: ") && unheard.contains("does not answer"), "{unheard}");
        assert!(
            unheard.contains("of ends: ") && unheard.contains("without an answer"),
            "{unheard}"
        );
    }
}
