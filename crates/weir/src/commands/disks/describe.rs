//! Disks as text.

use std::path::PathBuf;

use serde::Serialize;
use weir_engine::{BucketUrl, DiskView};
use weir_types::{Bytes, DiskCache};

use super::change::Change;
use crate::render;

/// A disk as it is listed.
#[derive(Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    pub(super) disk: DiskView,
    /// The devices of this machine that it is.
    pub(super) devices: Vec<PathBuf>,
}

/// What was done, in a line.
pub(super) fn changed(change: &Change, disk: Option<&DiskView>) -> String {
    let Some(disk) = disk else {
        return format!("{} is deleted\n", change.name());
    };
    let (name, size) = (&disk.name, Bytes(disk.size_bytes));
    match change {
        Change::Resize { .. } => format!("{name} has {size} now\n"),
        Change::Snapshot { .. } => format!("{name} is frozen: {size}, read-only\n"),
        Change::Clone { name: from, .. } => format!("{name} is a copy of {from}: {size}\n"),
        Change::Create(_) | Change::Delete { .. } => {
            let (record, cache) = (Bytes(disk.record_bytes), cache(disk.cache));
            format!("{name} is a disk now: {size}, records of {record}, cache {cache}\n")
        }
    }
}

/// A row for each disk.
pub(super) fn list(disks: &[Listed], url: &BucketUrl) -> String {
    if disks.is_empty() {
        return format!(
            "{url} has no disks: `weir disk create {url} NAME --size 100GiB` makes one\n"
        );
    }
    let shared = disks.iter().any(|listed| listed.disk.node.is_some());
    let head = ["name", "size", "stored", "record", "cache", "open", "copied from", "device"];
    let head = head.into_iter().chain(shared.then_some("node"));
    let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    for Listed { disk, devices } in disks {
        let devices: Vec<_> = devices.iter().map(|path| path.display().to_string()).collect();
        let mut row = vec![
            disk.name.clone(),
            Bytes(disk.size_bytes).to_string(),
            Bytes(disk.stored_bytes).to_string(),
            Bytes(disk.record_bytes).to_string(),
            cache(disk.cache).to_owned(),
            disk.opens.to_string(),
            disk.origin.clone().unwrap_or_default(),
            devices.join(" "),
        ];
        row.extend(shared.then(|| disk.node.clone().unwrap_or_default()));
        rows.push(row);
    }
    render::table(&rows, rows[0].len())
}

fn cache(cache: DiskCache) -> &'static str {
    match cache {
        DiskCache::None => "none",
        DiskCache::Tier => "tier",
    }
}

#[cfg(test)]
mod tests {
    use weir_types::UnixTime;

    use super::*;

    #[test]
    fn disks_are_rows() {
        let disk = DiskView {
            name: "vm7@old".to_owned(),
            size_bytes: 40 << 30,
            record_bytes: 1 << 20,
            cache: DiskCache::Tier,
            read_only: true,
            origin: Some("vm7".to_owned()),
            created: UnixTime(0),
            stored_bytes: 3 << 20,
            opens: 2,
            node: None,
        };
        let url = "s3://b/v".parse().expect("a URL");
        let text = list(&[Listed { disk, devices: vec!["/dev/nbd3".into()] }], &url);
        let row = "  vm7@old  40 GiB  3 MiB   1 MiB   tier   2     vm7          /dev/nbd3\n";
        assert!(text.ends_with(row), "{text}");
        assert!(list(&[], &url).contains("weir disk create s3://b/v"));
    }
}
