//! A connection: made at the first server that answers and takes writes, with its statements ready.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::{SslMode as Encryption, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error as Refusal, NoTls, Statement};
use weir_types::{ErrorKind, FsError, Result};

use super::error::{Failed, failed};
use super::login::Login;
use super::options::PostgresOptions;
use super::sql::{self, Reads, Writes};
use super::tls::connector;
use super::url::{PostgresUrl, Server, SslMode};

/// How long one of several servers may take to answer.
const SERVER: Duration = Duration::from_secs(5);

/// Where the volume's tables are, and how connections to them are made.
pub(super) struct Place {
    pub(super) url: PostgresUrl,
    pub(super) volume: String,
    /// The quoted name of the schema.
    pub(super) schema: String,
    reads: Reads<String>,
    writes: Writes<String>,
    timeout: Duration,
    read_only: bool,
    hasty: bool,
}

/// A connection with statements of a volume's tables.
pub(super) struct Conn<S> {
    pub(super) client: Client,
    pub(super) statements: S,
    task: JoinHandle<()>,
}

/// One that reads.
pub(super) type Reader = Conn<Reads<Statement>>;

/// One that commits.
pub(super) type Writer = Conn<Writes<Statement>>;

impl<S> Drop for Conn<S> {
    fn drop(&mut self) {
        // Nobody waits for an answer any more: the server is to notice at once.
        self.task.abort();
    }
}

impl Place {
    pub(super) fn new(options: &PostgresOptions) -> Self {
        let schema = sql::schema_of(&options.volume);
        Self {
            url: options.url.clone(),
            volume: options.volume.clone(),
            reads: Reads::of(&schema),
            writes: Writes::of(&schema),
            schema,
            timeout: options.timeout(),
            read_only: options.read_only,
            hasty: options.hasty,
        }
    }

    /// A connection, without statements. Who only reads can do with a server that takes no writes, but that
    /// one may be behind: of several the one that takes them is looked for first.
    pub(super) async fn plain(&self, until: Instant) -> Result<Plain, Failed> {
        let login = Login::of(&self.url, &|name| std::env::var_os(name)).map_err(Failed::Final)?;
        if !self.read_only {
            return self.first(&login, TargetSessionAttrs::ReadWrite, until).await;
        }
        if login.servers.len() > 1 {
            let soon = until.min(Instant::now() + SERVER * login.servers.len() as u32);
            if let Ok(made) = self.first(&login, TargetSessionAttrs::ReadWrite, soon).await {
                return Ok(made);
            }
        }
        self.first(&login, TargetSessionAttrs::Any, until).await
    }

    /// At the first server that is as it is to be.
    async fn first(
        &self,
        login: &Login,
        wanted: TargetSessionAttrs,
        until: Instant,
    ) -> Result<Plain, Failed> {
        let mut told = Vec::new();
        let mut settled = None;
        for (at, server) in login.servers.iter().enumerate() {
            // The last one gets what time is left.
            let last = at + 1 == login.servers.len();
            let limit = if last { until } else { until.min(Instant::now() + SERVER) };
            match timeout_at(limit, self.at(login, server, wanted)).await {
                Ok(Ok(made)) => return Ok(made),
                Ok(Err(Failed::Lost(error) | Failed::Again(error))) => told.push(error),
                Ok(Err(Failed::Final(error))) => settled = settled.or(Some(error)),
                Err(_) => {
                    let context = format!("{}:{} did not answer", server.host, server.port);
                    told.push(FsError::new(ErrorKind::Retry, context));
                }
            }
        }
        // Of several servers any may be the one that will answer, but if one said why not, that is it.
        if let Some(error) = settled {
            return Err(Failed::Final(error));
        }
        let texts: Vec<_> = told.iter().map(ToString::to_string).collect();
        let context = format!("the metadata's database {} is away: {}", self.url, texts.join("; "));
        let error = FsError::new(ErrorKind::Retry, context);
        match self.hasty && told.iter().all(is_refused) {
            true => Err(Failed::Final(error)),
            false => Err(Failed::Lost(error)),
        }
    }

    async fn at(
        &self,
        login: &Login,
        server: &Server,
        wanted: TargetSessionAttrs,
    ) -> Result<Plain, Failed> {
        let what = format!("connect to the metadata's database at {}:{}", server.host, server.port);
        let mut config = Config::new();
        config
            .user(&login.user)
            .dbname(&login.database)
            .host(&server.host)
            .port(server.port)
            .application_name("weir")
            .connect_timeout(SERVER)
            .keepalives_idle(Duration::from_secs(30))
            .tcp_user_timeout(self.timeout)
            .target_session_attrs(wanted);
        if let Some(password) = login.password(server) {
            config.password(password);
        }
        let mode = login.sslmode(server);
        let (client, task) = if mode == SslMode::Disable {
            config.ssl_mode(Encryption::Disable);
            let made = config.connect(NoTls).await.map_err(|error| failed(&what, error))?;
            (made.0, tokio::spawn(run(made.1)))
        } else {
            config.ssl_mode(Encryption::Require);
            let tls = connector(mode, login.sslrootcert.as_deref()).map_err(Failed::Final)?;
            let made = config.connect(tls).await.map_err(|error| failed(&what, error))?;
            (made.0, tokio::spawn(run(made.1)))
        };
        let plain = Plain { client, task };
        plain.begin(self.timeout).await?;
        Ok(plain)
    }

    /// A connection that reads. One round trip for all of its statements.
    pub(super) async fn reader(&self, until: Instant) -> Result<Arc<Reader>, Failed> {
        let Plain { client, task } = self.plain(until).await?;
        let statements = self.ready(self.reads.prepared(&client), until).await?;
        Ok(Arc::new(Conn { client, statements, task }))
    }

    /// A connection that commits. One round trip for all of its statements.
    pub(super) async fn writer(&self, until: Instant) -> Result<Arc<Writer>, Failed> {
        let Plain { client, task } = self.plain(until).await?;
        let statements = self.ready(self.writes.prepared(&client), until).await?;
        Ok(Arc::new(Conn { client, statements, task }))
    }

    async fn ready<S>(
        &self,
        prepared: impl Future<Output = Result<S, Refusal>>,
        until: Instant,
    ) -> Result<S, Failed> {
        let prepared = timeout_at(until, prepared).await.map_err(|_| too_late(&self.url))?;
        let what = format!("use the tables of volume {} in {}", self.volume, self.url);
        prepared.map_err(|error| failed(&what, error))
    }
}

/// Whether nothing listens there.
fn is_refused(error: &FsError) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let mut cause = error.source();
    while let Some(one) = cause {
        if let Some(io) = one.downcast_ref::<io::Error>() {
            return matches!(io.kind(), ConnectionRefused | NotFound);
        }
        cause = one.source();
    }
    false
}

fn too_late(url: &PostgresUrl) -> Failed {
    let context = format!("the metadata's database {url} connects and then does not answer");
    Failed::Lost(FsError::new(ErrorKind::Retry, context))
}

/// A connection without statements.
pub(super) struct Plain {
    pub(super) client: Client,
    task: JoinHandle<()>,
}

impl Plain {
    /// Sets how this session is to be. One round trip.
    async fn begin(&self, timeout: Duration) -> Result<(), Failed> {
        // Before our own limit, so that the server tells us what became of the commit.
        let limit = timeout.as_millis() * 3 / 4;
        let limits = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        let limits = limits.map(|name| format!("SET {name} = {limit}"));
        let texts = sql::SESSION.into_iter().chain(limits.iter().map(String::as_str));
        let set = texts.map(|text| self.client.batch_execute(text));
        let durable = self.client.batch_execute(sql::DURABLE);
        let (_, durable) = futures::join!(futures::future::join_all(set), durable);
        match durable {
            Err(error) if error.is_closed() => Err(failed("begin a session", error)),
            _ => Ok(()),
        }
    }
}

/// Serves a connection until it ends. What is told on it goes to those who wait for answers.
async fn run(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    let _ = connection.await;
}
