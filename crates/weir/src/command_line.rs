//! Command lines that this program gives itself.

use std::ffi::OsString;

/// A command line with one more flag, behind the first word that is `command`.
pub(crate) fn insert_behind(argv: &[OsString], command: &str, flag: OsString) -> Vec<OsString> {
    let mut line = argv.to_vec();
    let at = line.iter().skip(1).position(|word| word == command);
    line.insert(at.map_or(1, |at| at + 2).min(line.len()), flag);
    line
}
