//! The program as `lfs`: Lustre's commands for files, with Lustre's words, output and exit codes, so
//! that what was written for Lustre and for FSx for Lustre runs unchanged.
//!
//! The formats are those of Lustre's manual pages (lfs-hsm, lfs-getstripe, lfs-setstripe, lfs-df) and
//! of published output; each has a test that names its source. A call takes a few milliseconds, for
//! scripts make one for each file: there is one thread, and nothing is asked that is not needed.

mod answer;
mod df;
mod hsm;
mod layout;
mod stripe;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;

use answer::{Answer, Failure};

const USAGE: &str = "\
usage: lfs COMMAND [OPTION]... PATH...
  hsm_state FILE...                            what is where
  hsm_restore FILE...                          bring bytes here, in the background
  hsm_release FILE...                          let local bytes go
  hsm_archive [--archive N] FILE...            write to the bucket, in the background
  hsm_action FILE...                           what is being done to files
  hsm_cancel FILE...                           stop it
  hsm_set --norelease FILE...                  pin
  hsm_clear --norelease FILE...                unpin
  getstripe [-c|-S|-i|-L|-p] [-dqrv] PATH...   show layouts
  setstripe [-c N] [-S SIZE] [-i N] [-E END]... PATH    keep a layout; it changes nothing here
  setstripe -d DIR                             forget it
  df [-h|-H] [-i] [PATH]                       space or inodes
  help, --version
hsm_restore, _release, _archive and _cancel also take --filelist FILE.
These are Lustre's commands, answered by Weir; `weir --help` has more and faster ones, such as
`weir hydrate -r DIR --wait`.
";

/// Lustre's commands that mean nothing here.
const NOT_HERE: [&str; 14] = [
    "changelog",
    "check",
    "fid2path",
    "find",
    "flushctx",
    "hsm_remove",
    "ladvise",
    "migrate",
    "mirror",
    "mkdir",
    "osts",
    "path2fid",
    "pool_list",
    "quota",
];

/// Whether the program was called as `lfs`.
pub(crate) fn called_as_lfs(argv: &[OsString]) -> bool {
    let name = argv.first().and_then(|path| Path::new(path).file_name());
    name == Some(OsStr::new("lfs"))
}

/// Does what the words after `lfs` ask for.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let command = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let mut answer = Answer { command: &command, out: Vec::new(), first: None };
    let rest = words.get(1..).unwrap_or_default();
    let done = match command.as_ref() {
        "help" | "--help" | "-h" => {
            answer.text(USAGE);
            Ok(())
        }
        "--version" | "-V" | "version" => {
            answer.text(&format!("lfs {} (weir)\n", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        "getstripe" => stripe::get(rest, &mut answer),
        "setstripe" => stripe::set(rest, &mut answer),
        "df" => df::run(rest, &mut answer),
        name if hsm::is_command(name) => hsm::run(name, rest, &mut answer),
        "" => Err(Failure::new(Errno::INVAL, format!("a command is missing\n{USAGE}"))),
        name if NOT_HERE.contains(&name) => {
            let text = "Weir does not offer this command of Lustre: see `lfs help`";
            Err(Failure::new(Errno::OPNOTSUPP, text))
        }
        _ => Err(Failure::new(Errno::INVAL, "there is no such command: see `lfs help`")),
    };
    if let Err(failure) = done {
        answer.fail(None, &failure);
    }
    answer.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        for (name, lfs) in [("lfs", true), ("/usr/bin/lfs", true), ("weir", false), ("alfs", false)]
        {
            assert_eq!(called_as_lfs(&[name.into()]), lfs, "{name}");
        }
        assert!(!called_as_lfs(&[]));
    }
}
