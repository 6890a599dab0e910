//! A PostgreSQL server for the tests of one process, on a socket in a directory of its own. It ends
//! with the process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// The URL of a database there, if the test program is one that runs over PostgreSQL: its name says
/// so.
pub(super) fn url_if_wanted() -> Option<String> {
    static URL: OnceLock<Option<String>> = OnceLock::new();
    URL.get_or_init(|| is_called("postgres").then(start)).clone()
}

/// Whether volumes are encrypted there though nobody says so.
pub(super) fn encrypts() -> bool {
    is_called("postgres_encrypted")
}

fn is_called(what: &str) -> bool {
    let program = std::env::current_exe().expect("a program");
    program.file_name().is_some_and(|name| name.to_string_lossy().contains(what))
}

fn start() -> String {
    let mut made = as_postgres(&std::env::temp_dir());
    made.args(["mktemp", "-dp.", "weir-pg-XXXX"]).stdout(Stdio::piped());
    let name = String::from_utf8(made.output().expect("mktemp runs").stdout).expect("a name");
    assert!(name.contains("weir-pg-"), "no directory for a server");
    let directory = std::env::temp_dir().join(name.trim());
    let made = as_postgres(&directory)
        .arg(format!("{PROGRAMS}/initdb"))
        .args(["-D", "data", "-U", "weir", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
        .output()
        .expect("initdb runs: Debian's postgresql-15 has it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let socket = directory.join(".s.PGSQL.5432");
    let mut server = as_postgres(&directory);
    server.args(["sh", "-c", SERVE]).arg(format!("{PROGRAMS}/postgres")).stderr(Stdio::null());
    // The shell gets a signal when the thread ends that started it: this one ends with the process.
    std::thread::spawn(move || {
        let ended = server.status().expect("a shell runs");
        panic!("the server ended: {ended}");
    });
    let answers = || {
        let asked = Command::new(format!("{PROGRAMS}/pg_isready"))
            .arg("-q")
            .arg("-h")
            .arg(&directory)
            .status();
        asked.is_ok_and(|status| status.success())
    };
    while !(socket.exists() && answers()) {
        #[expect(clippy::disallowed_methods, reason = "nothing else runs yet")]
        std::thread::sleep(Duration::from_millis(20));
    }
    let host = directory.display().to_string().replace('/', "%2F");
    format!("postgres://weir@{host}/postgres")
}

/// The server in its directory, which it takes with it.
const SERVE: &str = r#"trap 'kill -INT $pid' TERM
"$0" -D data -c listen_addresses= -c unix_socket_directories="$PWD" -c fsync=off -c shared_buffers=16MB \
    -c max_connections=200 &
pid=$!
wait $pid
wait $pid
rm -rf "$PWD""#;

/// A program by the user that PostgreSQL insists on, who is not root.
fn as_postgres(directory: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=TERM"]);
    command.current_dir(directory).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}
