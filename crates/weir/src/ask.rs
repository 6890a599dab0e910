//! Questions to who sits at the terminal.

use std::io::{IsTerminal, stderr, stdin};

use weir_types::{ErrorKind, FsError, Result};

use crate::render;

/// Whether they say yes.
///
/// # Errors
/// `Invalid` where there is no terminal to ask on: `what` it is, and that --yes says it.
pub(crate) fn yes(question: &str, what: &str) -> Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        let text = format!("{what}, and there is no terminal to ask on: say --yes");
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    render::tell(&format!("{question} [y/N] "));
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|e| FsError::local_io("read the answer", e))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
