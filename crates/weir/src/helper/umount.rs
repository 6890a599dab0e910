//! `umount.weir` and `umount.fuse.weir`: what `umount(8)` calls for a mount of ours.

use std::ffi::OsString;

use weir_types::{ErrorKind, FsError, Result};

const USAGE: &str = "usage: umount.weir DIR [-flnrv] [-N NAMESPACE] [-t TYPE]";

/// The command line of `weir` that does what the helper's asks.
pub(super) fn weir_arguments(argv: &[OsString]) -> Result<Vec<OsString>> {
    let mut places: Vec<OsString> = Vec::new();
    let mut line: Vec<OsString> = vec!["weir".into(), "umount".into()];
    let mut words = argv.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str().filter(|word| word.starts_with('-') && word.len() > 1) {
            None => places.push(word.clone()),
            Some(option @ ("-N" | "-t")) => {
                words.next().ok_or_else(|| bad(format!("{option} needs a value; {USAGE}")))?;
            }
            Some(letters) => {
                for letter in letters.chars().skip(1) {
                    match letter {
                        'f' => line.push("--force".into()),
                        'l' => line.push("--lazy".into()),
                        'v' => line.push("-v".into()),
                        // Nothing is written to mtab, and what is busy is not made read-only.
                        'n' | 'r' => {}
                        _ => return Err(bad(format!("`{letters}` is not known; {USAGE}"))),
                    }
                }
            }
        }
    }
    let [dir] = &places[..] else { return Err(bad(USAGE.to_owned())) };
    line.extend(["--".into(), dir.clone()]);
    Ok(line)
}

fn bad(text: String) -> FsError {
    FsError::new(ErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked(line: &str) -> Result<Vec<OsString>> {
        weir_arguments(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_umount_hands_on_becomes_a_command() {
        let line = asked("umount.fuse.weir /mnt/a -nlv -t fuse.weir -N /proc/1/ns/mnt");
        let Command::Umount(args) = Cli::parse_from(line.expect("fine")).command else {
            panic!("umount expected");
        };
        assert_eq!((args.dir.to_str(), args.lazy, args.force), (Some("/mnt/a"), true, false));
        let line = asked("umount.weir -f /mnt/a").expect("fine");
        let Command::Umount(args) = Cli::parse_from(line).command else {
            panic!("umount expected");
        };
        assert!(args.force && !args.lazy);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, reason) in [
            ("umount.weir", "usage"),
            ("umount.weir /a /b", "usage"),
            ("umount.weir /a -q", "`-q`"),
            ("umount.weir /a -t", "-t needs a value"),
        ] {
            let error = asked(line).expect_err(line).to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
