//! `lfs df`: space or inodes of a volume, as one target of Lustre.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, statvfs};
use rustix::io::Errno;
use weir_types::FsError;

use super::answer::{Answer, Failure};
use super::words::{self, Known, flag, value};
use crate::client::{Client, Heard};
use crate::targets::Finder;

const KNOWN: [Known; 8] = [
    flag('h', &["human-readable"]),
    flag('H', &["si"]),
    flag('i', &["inodes"]),
    flag('l', &["lazy"]),
    flag('m', &["mdt"]),
    flag('o', &["ost"]),
    flag('v', &["verbose"]),
    value('p', &["pool"]),
];

/// How numbers are written.
#[derive(Clone, Copy)]
enum Form {
    /// KiB, or inodes, as they are.
    Whole,
    /// With a unit of so many.
    Units(u64),
}

pub(super) fn run(words: &[OsString], answer: &mut Answer) -> Result<(), Failure> {
    let words = words::read(words, &KNOWN)?;
    let form = match (words.has('h'), words.has('H')) {
        (_, true) => Form::Units(1000),
        (true, false) => Form::Units(1024),
        (false, false) => Form::Whole,
    };
    let mounts = match &words.operands[..] {
        [] => all(answer)?,
        [path] => vec![holding(Path::new(path))?],
        _ => return Err(Failure::new(Errno::INVAL, "one path at most: see `lfs help`")),
    };
    for mountpoint in mounts {
        match statvfs(&mountpoint) {
            Ok(found) => answer.text(&text(&found, &mountpoint, form, words.has('i'))),
            Err(errno) => {
                let failure = Failure::new(errno, std::io::Error::from(errno).to_string());
                answer.fail(Some(&mountpoint), &failure);
            }
        }
    }
    Ok(())
}

fn holding(path: &Path) -> Result<PathBuf, Failure> {
    let mut finder = Finder::default();
    let (mount, _) = finder.locate(path).map_err(|error| Failure::from(&error))?;
    Ok(finder.mounts.swap_remove(mount).mountpoint)
}

/// The mount points of all daemons, which they must be asked for. One that does not answer is told of.
fn all(answer: &mut Answer) -> Result<Vec<PathBuf>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::from(&FsError::local_io("start the runtime", e)))?;
    let heard = runtime.block_on(Heard::from(Client::all(), Client::status));
    for (name, error) in heard.silent {
        answer.fail(Some(Path::new(&name)), &Failure::from(&error));
    }
    // One that only serves disks has none.
    Ok(heard.answers.into_iter().filter_map(|(_, status)| status.mountpoint).collect())
}

fn text(found: &StatVfs, mountpoint: &Path, form: Form, inodes: bool) -> String {
    let (names, target, [all, free, available]) = match inodes {
        true => (
            ["Inodes", "IUsed", "IFree", "IUse%"],
            "MDT",
            [found.f_files, found.f_ffree, found.f_favail],
        ),
        false => {
            let name = if let Form::Whole = form { "1K-blocks" } else { "bytes" };
            let blocks = [found.f_blocks, found.f_bfree, found.f_bavail];
            let bytes = blocks.map(|blocks| blocks.saturating_mul(found.f_frsize));
            ([name, "Used", "Available", "Use%"], "OST", bytes)
        }
    };
    let used = all.saturating_sub(free);
    let percent = u128::from(used) * 100 / u128::from(used.saturating_add(available).max(1));
    let cells = [all, used, available].map(|n| number(n, form, inodes));
    let at = mountpoint.display();
    let row = |name: &str, [a, b, c]: [&str; 3], percent: &str, at: &str| {
        format!("{name:<20} {a:>11} {b:>11} {c:>11} {percent:>4} {at}\n")
    };
    let cells = [&cells[0], &cells[1], &cells[2]].map(String::as_str);
    let percent = format!("{percent}%");
    let mut text = row("UUID", [names[0], names[1], names[2]], names[3], "Mounted on");
    let (uuid, place) = (format!("weir-{target}0000_UUID"), format!("{at}[{target}:0]"));
    text.push_str(&row(&uuid, cells, &percent, &place));
    text.push('\n');
    text.push_str(&row("filesystem_summary:", cells, &percent, &at.to_string()));
    text.push('\n');
    text
}

fn number(n: u64, form: Form, inodes: bool) -> String {
    let Form::Units(step) = form else {
        return if inodes { n.to_string() } else { (n / 1024).to_string() };
    };
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= step as f64 && unit + 1 < units.len() {
        value /= step as f64;
        unit += 1;
    }
    match unit {
        0 => n.to_string(),
        _ => format!("{value:.1}{}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> StatVfs {
        let flags = rustix::fs::StatVfsMountFlags::empty();
        StatVfs {
            f_bsize: 4096,
            f_frsize: 4096,
            f_blocks: 1_363_149,
            f_bfree: 1_193_421,
            f_bavail: 1_193_421,
            f_files: 1_000,
            f_ffree: 900,
            f_favail: 900,
            f_fsid: 0,
            f_flag: flags,
            f_namemax: 255,
        }
    }

    /// Columns as in published output of `lfs df -h` (users-OST0000_UUID … /users[OST:0]) and in
    /// lfs-df(1) for `-i`.
    #[test]
    fn columns_are_those_of_lustre() {
        let at = Path::new("/users");
        assert_eq!(
            text(&found(), at, Form::Units(1024), false),
            "UUID                       bytes        Used   Available Use% Mounted on\n\
             weir-OST0000_UUID           5.2G      663.0M        4.6G  12% /users[OST:0]\n\
             \n\
             filesystem_summary:         5.2G      663.0M        4.6G  12% /users\n\n"
        );
        let blocks = text(&found(), at, Form::Whole, false);
        assert!(blocks.starts_with("UUID                   1K-blocks"), "{blocks}");
        assert!(blocks.contains("     5452596      678912     4773684"), "{blocks}");
        let inodes = text(&found(), at, Form::Whole, true);
        assert!(inodes.contains("weir-MDT0000_UUID           1000         100"), "{inodes}");
        assert!(inodes.lines().next().is_some_and(|l| l.contains("IUse% Mounted on")));
    }
}
