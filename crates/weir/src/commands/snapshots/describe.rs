//! Snapshots as text.

use std::path::Path;

use weir_engine::SnapshotView;
use weir_types::{Bytes, UnixTime};

use crate::render;

/// What was made, in a line.
pub(super) fn created(made: &SnapshotView, dir: Option<&Path>) -> String {
    let (name, files) = (&made.name, render::files(made.files));
    let stored = Bytes(made.stored_bytes);
    match dir {
        Some(dir) => {
            let at = dir.join(".snapshots").join(name);
            format!("{name} has {files} and {stored}: {}\n", at.display())
        }
        None => format!("{name} has {files} and {stored}\n"),
    }
}

/// A row for each snapshot.
pub(super) fn list(all: &[SnapshotView], place: &str, now: UnixTime) -> String {
    if all.is_empty() {
        return format!("no snapshots: `weir snapshot create {place} NAME` makes one\n");
    }
    let head = ["name", "age", "files", "size", "holds", "gives back", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in all {
        let age_s = (now.0 - one.created.0).max(0) / 1_000_000_000;
        rows.push(vec![
            one.name.clone(),
            render::seconds(age_s.cast_unsigned()),
            one.files.to_string(),
            Bytes(one.stored_bytes).to_string(),
            Bytes(one.past_bytes).to_string(),
            Bytes(one.alone_bytes).to_string(),
            if one.held { "held".to_owned() } else { String::new() },
        ]);
    }
    render::table(&rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_rows() {
        let one = SnapshotView {
            name: "monday".to_owned(),
            created: UnixTime(0),
            held: true,
            rule: None,
            files: 12,
            stored_bytes: 3 << 20,
            past_bytes: 2 << 20,
            alone_bytes: 1 << 20,
        };
        let at = created(&one, Some(Path::new("/mnt/v")));
        assert_eq!(at, "monday has 12 files and 3 MiB: /mnt/v/.snapshots/monday\n");
        let text = list(&[one], "/mnt/v", UnixTime(7_200_000_000_000));
        let row = text.lines().last().expect("a row");
        let cells: Vec<_> = row.split("  ").filter(|cell| !cell.trim().is_empty()).collect();
        let cells: Vec<_> = cells.into_iter().map(str::trim).collect();
        let wanted = ["monday", "2 h 0 min", "12", "3 MiB", "2 MiB", "1 MiB", "held"];
        assert_eq!(cells, wanted, "{text}");
        assert!(list(&[], "/mnt/v", UnixTime(0)).contains("weir snapshot create /mnt/v NAME"));
    }
}
