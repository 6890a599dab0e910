//! The program `weir`: makes, mounts, watches and checks volumes.
//!
//! In come command lines (its own, those of the helpers of `mount(8)` and `umount(8)` and those of Lustre's
//! `lfs` when it is called so) and requests on the admin socket of a running mount; out go text for people, JSON for programs and
//! exit codes. The rules of the file system are elsewhere: this crate connects the engine to its
//! doors, to the clock, to chance, and to whoever operates it.

mod api;
mod ask;
mod bill;
mod buckets;
mod cli;
mod client;
mod clock;
mod command_line;
mod commands;
mod daemon;
mod descriptors;
mod failpoints;
mod helper;
mod layout;
mod lfs;
mod log;
mod passphrase;
mod paths;
mod progress;
mod render;
mod secrets;
mod targets;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let mut argv: Vec<OsString> = std::env::args_os().collect();
    if lfs::called_as_lfs(&argv) {
        return lfs::run(argv.get(1..).unwrap_or_default());
    }
    match helper::weir_arguments(argv) {
        Ok(Some(translated)) => argv = translated,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return render::report(&error, true),
    }
    let cli = cli::Cli::parse_from(&argv);
    let verbose = cli.log.verbose > 0;
    match commands::run(cli, &argv) {
        Ok(code) => code,
        Err(error) => render::report(&error, verbose),
    }
}
