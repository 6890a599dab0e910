//! Where a process writes its log: to standard error, to a file that SIGHUP opens anew (so that
//! logrotate may move it), or to systemd's journal with its fields.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weir_types::{ErrorKind, FsError, Result};

use crate::cli::{LogArgs, LogFormat};
use crate::paths;

/// The log file of this process, if it has one.
static FILE: OnceLock<LogFile> = OnceLock::new();

/// Who writes a log.
pub(crate) enum Writer<'a> {
    /// A command, on standard error. The level is what it tells without `-v`.
    Command(&'static str),
    /// A daemon in the foreground: on standard error, or in a file.
    Foreground(Option<&'a Path>),
    /// A daemon whose standard error is this file already.
    Detached(&'a Path),
}

struct LogFile {
    path: std::path::PathBuf,
    file: Mutex<File>,
    /// Standard error is this file, too: a panic is told there.
    is_stderr: bool,
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().flush()
    }
}

/// Starts the log.
pub(crate) fn start(log: &LogArgs, writer: &Writer<'_>) -> Result<()> {
    let (path, is_stderr) = match writer {
        Writer::Command(level) => return start_on_stderr(log, level),
        Writer::Foreground(None) => return start_on_stderr(log, "info"),
        Writer::Foreground(Some(path)) => (*path, false),
        Writer::Detached(path) => (*path, true),
    };
    let (path, file) = paths::open_log_file(path)?;
    let file = FILE.get_or_init(|| LogFile { path, file: Mutex::new(file), is_stderr });
    start_to(log, "info", move || file)
}

/// Opens the log file anew, if there is one: whoever moved it away gets no more lines. Where that
/// cannot be, the old one goes on.
pub(crate) fn reopen() {
    let Some(log) = FILE.get() else { return };
    let opened = paths::open_log_file(&log.path).and_then(|(_, file)| {
        if log.is_stderr {
            let at = |e: rustix::io::Errno| FsError::local_io("make it standard error", e.into());
            rustix::stdio::dup2_stderr(file.as_fd()).map_err(at)?;
            rustix::stdio::dup2_stdout(file.as_fd()).map_err(at)?;
        }
        *log.file.lock() = file;
        Ok(())
    });
    match opened {
        Ok(()) => tracing::info!("the log file was opened anew"),
        Err(error) => tracing::warn!("the log goes on in the old file: {error}"),
    }
}

fn start_on_stderr(log: &LogArgs, usual: &str) -> Result<()> {
    if !is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()) {
        return start_to(log, usual, io::stderr);
    }
    match tracing_journald::layer() {
        Ok(journal) => {
            let journal = journal
                .with_field_prefix(Some("WEIR".to_owned()))
                .with_syslog_identifier("weir".to_owned());
            // A second start (in tests) keeps the first.
            let _ =
                tracing_subscriber::registry().with(filter(log, usual)?).with(journal).try_init();
            Ok(())
        }
        // Lines of text reach it as well.
        Err(_) => start_to(log, usual, io::stderr),
    }
}

/// Whether standard error is the journal: systemd says which stream that is (systemd.exec(5)).
fn is_journal(stream: Option<&str>) -> bool {
    let Ok(found) = rustix::fs::fstat(io::stderr()) else { return false };
    stream.is_some_and(|stream| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

fn filter(log: &LogArgs, usual: &str) -> Result<EnvFilter> {
    // What the libraries say of themselves is for those who look for a fault.
    let level = match log.verbose {
        0 => format!("{usual},slatedb=warn"),
        1 => "debug,slatedb=info,hyper=info,aws=info,rustls=info".to_owned(),
        _ => "debug".to_owned(),
    };
    match std::env::var("WEIR_LOG") {
        Ok(filter) => EnvFilter::try_new(&filter).map_err(|error| {
            let text = format!("WEIR_LOG=`{filter}` is no log filter: {error}");
            FsError::new(ErrorKind::Invalid, text)
        }),
        Err(_) => Ok(EnvFilter::new(level)),
    }
}

fn start_to<W>(log: &LogArgs, usual: &str, writer: W) -> Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let colour = FILE.get().is_none() && io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(log, usual)?)
        .with_ansi(colour)
        .with_writer(writer);
    // A second start (in tests) keeps the first.
    let _ = match log.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_its_stream() {
        let found = rustix::fs::fstat(io::stderr()).expect("a standard error");
        assert!(is_journal(Some(&format!("{}:{}", found.st_dev, found.st_ino))));
        assert!(!is_journal(Some("1:1")));
        assert!(!is_journal(None));
    }
}
