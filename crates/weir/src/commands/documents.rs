//! Completions, manual pages and the version: what the program tells of itself.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use weir_types::{FORMAT_VERSION, FsError, Result};

use crate::cli::Cli;
use crate::render;

/// Completions for `shell`, on standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
    render::say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The main page on standard output, or a page for each command in `directory`.
pub(crate) fn man(directory: Option<&Path>) -> Result<ExitCode> {
    if let Some(directory) = directory {
        let made = std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
        made.map_err(|e| FsError::local_io(format!("man pages in {}", directory.display()), e))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut text)
        .map_err(|e| FsError::local_io("write the man page", e))?;
    render::say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The version of the program and of the format that it makes.
pub(crate) fn version() -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    render::say(&format!("weir {version}, volume format {FORMAT_VERSION}\n"))?;
    Ok(ExitCode::SUCCESS)
}
