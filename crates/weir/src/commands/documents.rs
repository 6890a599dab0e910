//! Completions, manual pages and the version: what the program tells of itself.

#[cfg(test)]
mod reference;
mod roff;
mod workload_page;

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use weir_types::{FORMAT_VERSION, FsError, Result};

use self::roff::roff;
use crate::cli::Cli;
use crate::{helper, render};

/// Completions for `shell`, on standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
    render::say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The main page on standard output, or in `directory` a page for each command, that of the mount
/// helper and that of workloads.
pub(crate) fn man(directory: Option<&Path>) -> Result<ExitCode> {
    if let Some(directory) = directory {
        let made = std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .and_then(|()| std::fs::write(directory.join("mount.weir.8"), mount_page()))
            .and_then(|()| {
                std::fs::write(directory.join("weir-workload.5"), workload_page::page())
            });
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

/// What `man mount.weir` shows: the options of a line in /etc/fstab.
fn mount_page() -> String {
    let cli = Cli::command();
    let arguments: Vec<_> = cli
        .find_subcommand("mount")
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .chain(cli.get_arguments())
        .collect();
    let mut options = String::new();
    for (name, takes_value) in helper::mount_options() {
        let help = arguments.iter().find(|of| of.get_long() == Some(name));
        let help = help.and_then(|of| of.get_help()).map(ToString::to_string).unwrap_or_default();
        let value = if *takes_value { "=\\fIVALUE\\fR" } else { "" };
        options.push_str(&format!(".TP\n\\fB{}\\fR{value}\n{}\n", roff(name), roff(&help)));
    }
    format!(
        ".TH mount.weir 8\n\
         .SH NAME\nmount.weir, umount.weir \\- mount and unmount a Weir volume\n\
         .SH SYNOPSIS\n\\fBmount \\-t weir\\fR \\fIURL DIR\\fR \\fB\\-o tier=\\fR\\fIDIRECTORY\\fR[,\\fIOPTION\\fR...]\n\
         .SH DESCRIPTION\nWhat \\fBmount\\fR(8) and \\fBumount\\fR(8) call for file systems of type \\fBweir\\fR. An unmount \
         returns when everything is in the bucket. \\fBmount \\-o remount\\fR changes the kernel's options. In /etc/fstab:\n.PP\n.nf\n\
         s3://my-bucket/vol /mnt weir tier=/srv/nvme/weir,tier-size=800GiB,_netdev,nofail 0 0\n.fi\n\
         .SH OPTIONS\nThose of mount(8) and of the kernel for any file system (ro, noexec, nodev, nosuid, relatime, sync; noatime is the default), and:\n\
         {options}\
         .SH SEE ALSO\n\\fBweir-mount\\fR(1), \\fBweir-umount\\fR(1), \\fBmount\\fR(8), \\fBfstab\\fR(5)\n"
    )
}

/// The version of the program and of the format that it makes.
pub(crate) fn version() -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    render::say(&format!("weir {version}, volume format {FORMAT_VERSION}\n"))?;
    Ok(ExitCode::SUCCESS)
}
