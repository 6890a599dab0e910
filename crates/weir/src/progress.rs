//! How far a long wait is, on standard error: a bar on a terminal, elsewhere a line now and then.

use std::future::Future;
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weir_types::{FsError, Result};

use crate::render;

/// A wait that takes longer than this shows how far it is.
const QUIET: Duration = Duration::from_secs(2);
/// Where there is no terminal, a line is written this often.
const LINE_EVERY: Duration = Duration::from_secs(10);
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// As a shell reports a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// What is counted up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Objects,
    Steps,
}

/// A wait that is shown.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    unit: Unit,
    has_end: Option<bool>,
    since: Instant,
    line: Instant,
}

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new(unit: Unit) -> Self {
        // On a terminal only.
        let bar = stderr().is_terminal().then(ProgressBar::no_length);
        let since = Instant::now();
        Self { bar, unit, has_end: None, since, line: since }
    }

    /// How long to wait until the next call of `show`.
    pub(crate) fn interval(&self) -> Duration {
        DRAW_EVERY
    }

    /// What is shown next is something else: its rate and its end are its own.
    pub(crate) fn next(&mut self) {
        self.has_end = None;
        if let Some(bar) = &self.bar {
            bar.reset_elapsed();
        }
    }

    /// Shows how much is done, of how much if that is known, and what there is to say beside it.
    pub(crate) fn show(&mut self, done: u64, all: Option<u64>, beside: &str) {
        if self.since.elapsed() < QUIET {
            return;
        }
        let Some(bar) = &self.bar else {
            if self.line.elapsed() >= LINE_EVERY {
                self.line = Instant::now();
                render::tell(&format!("weir: {beside}\n"));
            }
            return;
        };
        let first = self.has_end.is_none();
        if self.has_end != Some(all.is_some()) {
            self.has_end = Some(all.is_some());
            if let Ok(style) = ProgressStyle::with_template(template(self.unit, all.is_some())) {
                bar.set_style(style);
            }
        }
        if let Some(all) = all {
            bar.set_length(all);
        }
        bar.set_message(beside.to_owned());
        bar.set_position(done);
        if first {
            // What was done before is not of the rate.
            bar.reset_eta();
        }
        bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn template(unit: Unit, has_end: bool) -> &'static str {
    match (unit, has_end) {
        (Unit::Bytes, true) => {
            "{bar:30} {percent}% {binary_bytes_per_sec}, {eta} left, {msg} [{elapsed}]"
        }
        (Unit::Bytes, false) => "{spinner} {binary_bytes_per_sec}, {msg} [{elapsed}]",
        (Unit::Steps, _) => "{bar:30} {percent}% {per_sec}, {eta} left, {msg} [{elapsed}]",
        (Unit::Objects, _) => "{spinner} {per_sec}, {msg} [{elapsed}]",
    }
}

/// What became of a wait.
pub(crate) enum Waited<T> {
    Ended(T),
    /// Ctrl-C: what was waited for goes on without us.
    Left,
}

/// Waits for `work`, or until somebody presses Ctrl-C.
pub(crate) async fn or_ctrl_c<T>(work: impl Future<Output = Result<T>>) -> Result<Waited<T>> {
    tokio::select! {
        done = work => done.map(Waited::Ended),
        pressed = tokio::signal::ctrl_c() => {
            pressed.map_err(|e| FsError::local_io("listen for Ctrl-C", e))?;
            Ok(Waited::Left)
        }
    }
}

/// Says that what was waited for goes on, and how to see and stop it; answers the exit code.
pub(crate) fn left(what: &str) -> ExitCode {
    render::tell(&format!("weir: {what}\n"));
    ExitCode::from(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_understood() {
        for unit in [Unit::Bytes, Unit::Objects, Unit::Steps] {
            for has_end in [false, true] {
                ProgressStyle::with_template(template(unit, has_end)).expect("a template");
            }
        }
    }
}
