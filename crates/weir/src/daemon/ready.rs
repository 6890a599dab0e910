//! What a daemon tells the command that started it: one word, or why not.

use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_types::{ErrorCode, FsError};

/// The word for success.
pub(crate) const READY: &str = "ready";

/// Whether it was told.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Says that the volume can be used, or will be, then lets go of the pipe. False if nobody listens. Once.
pub(crate) fn tell() -> bool {
    if TOLD.swap(true, Ordering::Relaxed) {
        return true;
    }
    let told = say(READY);
    // From here on standard output is the log, as standard error is.
    let moved = rustix::stdio::dup2_stdout(std::io::stderr());
    if let Err(error) = moved {
        tracing::warn!("standard output cannot be moved to the log: {error}");
    }
    told
}

/// Says why it failed: the code or an empty line, the message, then its causes, a line each.
pub(crate) fn failed(error: &FsError) {
    let code = error.code().map(ErrorCode::name);
    tracing::error!(code, "{error}");
    if TOLD.load(Ordering::Relaxed) {
        return;
    }
    let mut text = format!("{}\n{error}", code.unwrap_or_default());
    let mut cause = error.source();
    while let Some(below) = cause {
        text.push('\n');
        text.push_str(&below.to_string());
        cause = below.source();
    }
    say(&text);
}

fn say(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}
