//! Snapshots as text.

use std::path::Path;

use weir_engine::{ScheduleView, SnapshotView};
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
            notes(one),
        ]);
    }
    render::table(&rows, 1)
}

fn notes(one: &SnapshotView) -> String {
    let notes = [(one.held, "held"), (one.dumped, "dumped")];
    let notes: Vec<_> = notes.iter().filter(|(is, _)| *is).map(|(_, note)| *note).collect();
    notes.join(", ")
}

/// A row for each rule.
pub(super) fn schedule(view: &ScheduleView, place: &str, now: UnixTime) -> String {
    if view.rules.is_empty() {
        let rules = "hourly:24,daily:7,weekly:4";
        return format!(
            "no snapshot is made by itself: `weir snapshot schedule {place} {rules}`\n"
        );
    }
    let apart = |from: UnixTime, to: UnixTime| {
        render::seconds(((to.0 - from.0).max(0) / 1_000_000_000).cast_unsigned())
    };
    let head = ["made", "kept", "there are", "newest", "next"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in &view.rules {
        let newest = one.newest.map(|at| format!("{} ago", apart(at, now)));
        rows.push(vec![
            one.rule.every.name().to_owned(),
            one.rule.keep.to_string(),
            one.snapshots.to_string(),
            newest.unwrap_or_else(|| "-".to_owned()),
            match one.overdue_s {
                0 if one.next <= now => "now".to_owned(),
                0 => format!("in {}", apart(now, one.next)),
                late => format!("due for {}", render::seconds(late)),
            },
        ]);
    }
    let mut text = render::table(&rows, 1);
    if view.dump {
        text.push_str("the metadata of the newest is dumped to the bucket\n");
    }
    if let Some(trouble) = &view.trouble {
        text.push_str(&format!("the last one could not be made yet: {trouble}\n"));
    }
    text
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
            dumped: true,
        };
        let at = created(&one, Some(Path::new("/mnt/v")));
        assert_eq!(at, "monday has 12 files and 3 MiB: /mnt/v/.snapshots/monday\n");
        let text = list(&[one], "/mnt/v", UnixTime(7_200_000_000_000));
        let row = text.lines().last().expect("a row");
        let cells: Vec<_> = row.split("  ").filter(|cell| !cell.trim().is_empty()).collect();
        let cells: Vec<_> = cells.into_iter().map(str::trim).collect();
        let wanted = ["monday", "2 h 0 min", "12", "3 MiB", "2 MiB", "1 MiB", "held, dumped"];
        assert_eq!(cells, wanted, "{text}");
        assert!(list(&[], "/mnt/v", UnixTime(0)).contains("weir snapshot create /mnt/v NAME"));
    }

    #[test]
    fn a_schedule_says_what_is_made_when() {
        use weir_engine::{RuleView, SnapshotPeriod, SnapshotRule};
        let at = |minutes: i64| UnixTime(minutes * 60_000_000_000);
        let of = |every, newest, next, overdue_s| RuleView {
            rule: SnapshotRule { every, keep: 7 },
            snapshots: 2,
            newest,
            next,
            overdue_s,
        };
        let rules = vec![
            of(SnapshotPeriod::Hourly, Some(at(60)), at(120), 0),
            of(SnapshotPeriod::Daily, None, at(10), 0),
            of(SnapshotPeriod::Weekly, None, at(10), 61),
        ];
        let trouble = Some("the bucket is away".to_owned());
        let view = ScheduleView { rules, dump: true, trouble };
        let text = schedule(&view, "/mnt/v", at(90));
        let cells = |line: &str| {
            let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.map(str::to_owned).collect::<Vec<_>>()
        };
        let lines: Vec<_> = text.lines().map(cells).collect();
        assert_eq!(lines[1], ["hourly", "7", "2", "30 min 0 s ago", "in 30 min 0 s"], "{text}");
        assert_eq!(lines[2], ["daily", "7", "2", "-", "now"], "{text}");
        assert_eq!(lines[3][4], "due for 1 min 1 s", "{text}");
        assert!(text.contains("the bucket is away") && text.contains("dumped to the bucket"));
        let none = schedule(&ScheduleView::default(), "/mnt/v", at(0));
        assert!(none.contains("weir snapshot schedule /mnt/v hourly:24"), "{none}");
    }
}
