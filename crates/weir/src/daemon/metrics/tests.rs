//! docs/metrics.md is written from what a scrape says of itself.

use std::path::Path;
use std::time::Duration;

use weir_engine::{
    AsideSummary, JournalUsage, MountReport, ScheduleView, SinceMount, Status, ThroughputReport,
};
use weir_tier::{Recovered, Usage};
use weir_types::Settings;

use super::*;
use crate::api::BlockStatus;

const HEAD: &str = "\
# Metrics

What `/metrics` of a daemon answers, in the OpenMetrics text format (`weir mount` and `serve` with
`--admin-listen 127.0.0.1:9464`). This page
is generated: `WEIR_WRITE_DOCS=1 cargo test -p weir metrics` writes it anew, and a test holds it against the program.
[monitoring.md](monitoring.md) has alerts and a dashboard that are made of them.

Counters have `_total` behind their name, as the format wants it. Bytes that the kernel answers by itself, from its page
cache or from resident files it reads past the daemon (`weir_tenant_unmetered_opens`), are in none of these; `weir
throughput DIR --exact-meter on` ends the second. `path` is a directory below the root or one with a rule of its own,
`client` the user id of who opened the file.

The `weir_efs_` metrics have the names and the meaning that Amazon CloudWatch gives those of an EFS file system, so that
a dashboard made for EFS needs a prefix only. What has no limit (elastic mode) has no `PermittedThroughput` and no
`BurstCreditBalance`: absent, never zero. CloudWatch's `TimeSinceLastSync` belongs to replication, which a volume in a
bucket does not need.

| metric | kind | what it says |
|---|---|---|
";

fn sample() -> Told {
    Told {
        status: Status {
            volume: "s3://bucket/volume".to_owned(),
            volume_id: "id".to_owned(),
            read_only: false,
            shared: false,
            encrypted: false,
            encrypted_tier: false,
            origins: Vec::new(),
            nodes: Some(weir_engine::NodesStatus::default()),
            fenced: false,
            files: 0,
            stored_bytes: 0,
            bucket_bytes: Some(0),
            tier: Usage::default(),
            files_in_doubt: 0,
            journal: JournalUsage::default(),
            mount: MountReport {
                recovered: Recovered::New,
                replayed_commits: 0,
                replayed_files: 0,
                set_aside: None,
                left_behind: None,
                taken_from: None,
            },
            aside: AsideSummary::default(),
            since_mount: SinceMount::default(),
            peers: None,
            requests: weir_engine::MeterSnapshot::default(),
            troubles: Vec::new(),
            metadata: weir_engine::MetadataStatus::default(),
            leases: Some(weir_engine::LeaseStatus { held: 3, hits: 9, ..Default::default() }),
            flush_failed: None,
            metered: Vec::new(),
            limits: Vec::new(),
            settings: Settings::default(),
        },
        links: Vec::new(),
        actions: Vec::new(),
        passthrough: Some(PassthroughState { off: None, opens: 0, other_opens: 0 }),
        block: BlockStatus::default(),
        nfs: None,
        nfs_uses: Vec::new(),
        throughput: ThroughputReport { rules: Vec::new(), tenants: Vec::new(), budget: None },
        quotas: Vec::new(),
        schedule: ScheduleView::default(),
        scrub: None,
        lifecycle_stands_still: false,
        cold_bytes: Some([0, 0, 7]),
        linked_bytes: Some([8, 0, 9, 0]),
        io_per_s: (0.0, 0.0),
        ops: Vec::new(),
        uptime: Duration::ZERO,
    }
}

/// One row for each metric, from its HELP and TYPE lines.
fn page() -> String {
    let text = text(sample()).expect("encodes");
    let mut page = HEAD.to_owned();
    let mut rows = 0;
    for line in text.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let kind = text.lines().find_map(|l| l.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.expect("each metric has a type");
        page.push_str(&format!("| `{name}` | {kind} | {} |\n", help.trim_end_matches('.')));
        rows += 1;
    }
    assert!(rows > 50, "{rows} metrics");
    page
}

#[test]
fn the_page_of_metrics_is_what_a_scrape_says() {
    let path = Path::new("../../docs/metrics.md");
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("writes");
    }
    let written = std::fs::read_to_string(path).expect("reads");
    assert!(written == page(), "write it anew: WEIR_WRITE_DOCS=1 cargo test -p weir metrics");
}

#[test]
fn who_is_alone_tells_nothing_of_nodes() {
    let told = |nodes| {
        let mut told = sample();
        told.status.nodes = nodes;
        text(told).expect("encodes")
    };
    assert!(!told(None).contains("weir_node"));
    let nodes = weir_engine::NodesStatus {
        since_beat_ms: 1_500,
        shut_out: true,
        evicted: 2,
        ..Default::default()
    };
    let text = told(Some(nodes));
    for line in ["beat_age_seconds 1.5", "shut_out 1", "on_duty 0", "evictions_total 2"] {
        assert!(text.contains(&format!("\nweir_node_{line}\n")), "{line}: {text}");
    }
}

#[test]
fn a_scrape_has_the_names_of_cloudwatch() {
    let text = text(sample()).expect("encodes");
    for name in ["BurstCreditBalance", "PermittedThroughput", "MeteredIOBytes", "PercentIOLimit"] {
        assert!(text.contains(&format!("# HELP weir_efs_{name} ")), "{name}: {text}");
    }
    assert!(text.contains("weir_efs_PercentIOLimit{volume=\"s3://bucket/volume\"} 0.0"), "{text}");
    assert!(!text.contains("\nweir_efs_PermittedThroughput"), "there is no limit");
}
