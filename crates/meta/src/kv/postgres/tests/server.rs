//! A PostgreSQL server of our own: in a directory of its own, on a socket and a loopback port.
//!
//! A shell holds it and waits for words on a pipe; when this process ends, however it does, the pipe
//! ends, and the shell stops the server and removes the directory.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::super::{PostgresOptions, PostgresUrl};

const SHELL: &str = r#"
set -eu
bin=/usr/lib/postgresql/15/bin; export PATH="$bin:$PATH" LC_ALL=C
port=$1; tls=$2; pid=
dir=$(mktemp -d /tmp/weir-postgres.XXXXXX)
stop() { [ -z "$pid" ] || { kill -INT "$pid"; wait "$pid" || true; }; rm -rf "$dir"; }
trap stop EXIT
cd "$dir"
echo secret >word
initdb -D data -U weir --pwfile=word --auth-local=trust --auth-host=scram-sha-256 --no-sync >log 2>&1 ||
    { cat log >&2; exit 1; }
if [ "$tls" = on ]; then
    openssl req -new -x509 -days 10 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE \
        -keyout data/server.key -out data/server.crt 2>>log
    chmod 0600 data/server.key
    chmod 0755 . data; cp data/server.crt authority.pem; chmod 0700 data
fi
echo "$dir"
while read -r word; do
    case $word in
        start)
            postgres -D data -k "$dir" -p "$port" -c listen_addresses=127.0.0.1 -c fsync=off \
                -c ssl="$tls" -c max_connections=250 -c shared_buffers=32MB >>log 2>&1 &
            pid=$!
            until pg_isready -q -h "$dir" -p "$port"; do kill -0 "$pid"; sleep 0.05; done ;;
        kill) kill -QUIT "$pid"; wait "$pid" || true; pid= ;;
    esac
    echo "$word"
done
"#;

/// A server. Its user `weir` may do all: by the socket without a password, by TCP with `secret`.
pub(crate) struct TestServer {
    pub(crate) dir: String,
    pub(crate) port: u16,
    shell: Mutex<(Child, BufReader<ChildStdout>)>,
}

/// The one that most tests share.
pub(crate) fn shared() -> &'static TestServer {
    static SHARED: OnceLock<TestServer> = OnceLock::new();
    SHARED.get_or_init(|| TestServer::begin("on"))
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let child = &mut self.shell.get_mut().0;
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

impl TestServer {
    /// A server with TLS `on` or `off`. The server itself refuses to be root.
    pub(crate) fn begin(tls: &str) -> Self {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| {
            use std::os::unix::fs::MetadataExt;
            m.uid() == 0
        });
        let port = free_port();
        let mut command = match is_root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        command.args(["-c", SHELL, "sh", &port.to_string(), tls]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("PostgreSQL 15 is needed: scripts/install-tools.sh packages test");
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut dir = String::new();
        answers.read_line(&mut dir).unwrap();
        assert!(dir.starts_with('/'), "no server could be made; is PostgreSQL 15 installed?");
        let shell = Mutex::new((child, answers));
        let server = Self { dir: dir.trim().to_owned(), port, shell };
        server.say("start");
        server
    }

    /// Has it started, or killed (as a crash is: it recovers when it starts again).
    pub(crate) fn say(&self, word: &str) {
        let mut shell = self.shell.lock();
        writeln!(shell.0.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut answer = String::new();
        shell.1.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), word);
    }

    pub(crate) fn socket_url(&self) -> PostgresUrl {
        let host = self.dir.replace('/', "%2F");
        PostgresUrl::parse(&format!("postgres://weir@{host}:{}/postgres", self.port)).unwrap()
    }

    pub(crate) fn url(&self, login: &str, host: &str, rest: &str) -> PostgresUrl {
        PostgresUrl::parse(&format!("postgres://{login}@{host}:{}/{rest}", self.port)).unwrap()
    }

    /// A volume of its own, to be made.
    pub(crate) fn volume(&self) -> PostgresOptions {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let options = PostgresOptions::new(self.socket_url(), format!("Test-{number}_x"));
        PostgresOptions { create: true, timeout_ms: 20_000, ..options }
    }
}
