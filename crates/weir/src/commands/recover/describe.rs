//! What was set aside, for people.

use std::path::Path;

use weir_engine::{AsideFile, AsideView, ExtractReport, MergeReport, Why};
use weir_types::{ByteRange, Bytes};

use crate::clock;
use crate::render::{files, heading, seconds, table};

/// Ranges that are named one by one.
const RANGES_SHOWN: usize = 3;

pub(crate) fn why(why: Why) -> &'static str {
    match why {
        Why::AnotherWriter => "another writer had the volume since",
        Why::LossAccepted => "it was mounted without what was missing",
        Why::DiskFailed => "the local disk failed to write it",
        Why::DiskRemounted => "the local disk was mounted anew below it",
        Why::Damaged => "the metadata of these files is damaged",
        Why::Unknown => "an earlier weir set it aside and did not say why",
    }
}

fn ago(unix_ms: u64) -> String {
    let now = clock::now().0 / 1_000_000;
    match unix_ms {
        0 => "at an unknown time".to_owned(),
        ms => format!("{} ago", seconds((now.max(0).cast_unsigned()).saturating_sub(ms) / 1_000)),
    }
}

pub(crate) fn list(entries: &[AsideView], dir: &Path) -> String {
    if entries.is_empty() {
        return "Nothing is set aside.\n".to_owned();
    }
    let mut text = String::new();
    for entry in entries {
        text.push_str(&one(entry));
    }
    let dir = dir.display();
    text.push_str(&format!(
        "`weir recover {dir} --merge` puts back what is unchanged or new; --extract DIR writes all \
         of it out; LABEL --discard gives it up.\n"
    ));
    text
}

fn one(entry: &AsideView) -> String {
    let mut text = format!(
        "{}  set aside {}: {}\n",
        heading(&entry.label),
        ago(entry.unix_ms),
        why(entry.why)
    );
    if !entry.detail.is_empty() {
        text.push_str(&format!("  {}\n", entry.detail));
    }
    if let Some(problem) = &entry.problem {
        text.push_str(&format!("  CANNOT BE READ WHOLLY: {problem}\n"));
    }
    text.push_str(&format!("  in {}", entry.directory.display()));
    if let Some(log) = &entry.log {
        text.push_str(&format!("; log of {} in {}", Bytes(entry.log_bytes), log.display()));
    }
    text.push('\n');
    text.push_str(&table(&entry.files.iter().map(file).collect::<Vec<_>>(), 6));
    for operation in &entry.operations {
        text.push_str(&format!("  not in the volume: {} {}\n", operation.what, operation.path));
    }
    text
}

fn file(file: &AsideFile) -> Vec<String> {
    let path = file.path.clone().unwrap_or_else(|| format!("(inode {})", file.ino));
    let standing = format!("{:?}", file.standing).to_lowercase();
    let range = |range: &ByteRange| format!("{}-{}", range.start, range.end);
    let mut ranges: Vec<_> = file.ranges.iter().take(RANGES_SHOWN).map(range).collect();
    if let Some(more @ 1..) = file.ranges.len().checked_sub(RANGES_SHOWN) {
        ranges.push(format!("{more} more"));
    }
    let age = |ns: Option<i64>| {
        ns.map(|ns| ago((ns / 1_000_000).max(1).cast_unsigned())).unwrap_or_default()
    };
    let here = format!("{} of {}", Bytes(file.bytes), Bytes(file.size));
    let now = match file.size_now {
        Some(size) => format!("now {}, written {}", Bytes(size), age(file.mtime_now_ns)),
        None => "not in the volume".to_owned(),
    };
    let written = age(file.mtime_ns);
    let ranges = if ranges.is_empty() { String::new() } else { format!("at {}", ranges.join(" ")) };
    let mut row = vec![standing, path, here, ranges, written, now];
    if !file.why.is_empty() {
        row.push(file.why.clone());
    }
    row
}

pub(crate) fn merged(report: &MergeReport, dir: &Path) -> String {
    let mut text = format!("{} back in the volume, {}\n", files(report.files), Bytes(report.bytes));
    for label in &report.settled {
        text.push_str(&format!("{label} is settled\n"));
    }
    if !report.left.is_empty() {
        text.push_str(&format!("\nleft:\n{}", list(&report.left, dir)));
    }
    text
}

pub(crate) fn extracted(report: &ExtractReport) -> String {
    let mut rows = Vec::new();
    for file in &report.files {
        let how = if file.whole { "whole" } else { "holes where bytes are not known" };
        let path = report.directory.join(&file.path).display().to_string();
        rows.push(vec![path, Bytes(file.bytes).to_string(), how.to_owned()]);
    }
    let count = u64::try_from(report.files.len()).unwrap_or(u64::MAX);
    format!("{}{} written\n", table(&rows, 1), files(count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> AsideView {
        let file = |ino: u64, standing: &str, path: Option<&str>| {
            json!({"ino": ino, "kind": "Regular", "path": path, "standing": standing, "why": "because",
                   "size": 8192, "mtime_ns": 1_000_000_000_000_i64, "bytes": 4096,
                   "ranges": [[0, 10], [20, 30], [40, 50], [60, 70], [80, 90]],
                   "size_now": if standing == "new" { None } else { Some(1 << 20) },
                   "mtime_now_ns": null})
        };
        serde_json::from_value(json!({
            "label": "20261122-134658", "why": "another_writer", "detail": "more of it",
            "unix_ms": 1, "mounts": ["m"], "directory": "/t/aside/x", "log": "/j/aside/x",
            "log_bytes": 4096, "problem": null,
            "files": [file(7, "changed", Some("/a/b")), file(8, "new", None)],
            "operations": [{"what": "removed", "path": "/c"}],
        }))
        .expect("an entry")
    }

    #[test]
    fn it_tells_of_all_that_is_known() {
        let text = list(&[entry()], Path::new("/mnt"));
        for wanted in [
            "20261122-134658  set aside ",
            "ago: another writer had the volume since",
            "  more of it\n",
            "in /t/aside/x; log of 4 KiB in /j/aside/x",
            "changed  /a/b       4 KiB of 8 KiB  at 0-10 20-30 40-50 2 more",
            "now 1 MiB, written",
            "new      (inode 8)",
            "not in the volume",
            "not in the volume: removed /c",
            "`weir recover /mnt --merge`",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        assert_eq!(list(&[], Path::new("/mnt")), "Nothing is set aside.\n");
    }

    #[test]
    fn a_merge_says_what_is_left() {
        let left = vec![entry()];
        let report = MergeReport { files: 1, bytes: 5, settled: vec!["x".into()], left };
        let text = merged(&report, Path::new("/mnt"));
        assert!(text.starts_with("1 file back in the volume, 5 B\nx is settled\n"), "{text}");
        assert!(text.contains("left:\n20261122-134658"), "{text}");
    }
}
