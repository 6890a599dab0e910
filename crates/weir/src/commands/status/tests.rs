//! What a status says to people.

use serde_json::json;

use super::*;

fn status() -> StatusAnswer {
    let settings = Settings { tier_bytes: Bytes::mib(64), ..Settings::default() };
    let put = json!({
        "component": "data", "kind": "put", "requests": 1000, "failed": 2, "retries": 2,
        "bytes_sent": 1 << 30, "bytes_received": 0, "latency_us_sum": 5_000_000,
        "buckets": [],
    });
    serde_json::from_value(json!({
        "mountpoint": "/mnt/v", "pid": 7, "version": "0.1.0", "uptime_s": 61, "ending": false,
        "volume": "s3://b/v", "volume_id": "v", "read_only": false, "fenced": false,
        "files": 3, "stored_bytes": 100_u64 << 30, "files_in_doubt": 0,
        "tier": {"tier_bytes": 64 << 20, "limit_bytes": 60 << 20, "used_bytes": 1 << 20,
                 "dirty_bytes": 4096, "mirrors": 2, "limit_files": 2850,
                 "memory_bytes": 2048, "free_bytes": 1_u64 << 40, "free_files": 3000},
        "journal": {"used_bytes": 512, "limit_bytes": 128 << 20, "free_bytes": 1 << 20,
                    "durable": true, "refused_fsyncs": 3},
        "mount": {"recovered": {"power_cut": {"dirty_bytes_dropped": 4096,
                                              "clean_bytes_dropped": 0}},
                  "replayed_commits": 5, "replayed_files": 0, "set_aside": null,
                  "taken_from": "process 1 on there", "left_behind": null},
        "aside": weir_engine::AsideSummary::default(),
        "since_mount": weir_engine::SinceMount::default(),
        "requests": {"rows": [put]}, "troubles": [], "flush_failed": null, "metered": [],
        "settings": settings,
        "passthrough": {"active": false, "why": "because", "opens": 0, "other_opens": 9},
        "transport": {"how": "dev", "why": "the default"},
        "fuse_requests": {}, "held_deletions": [],
        "block": {
            "disks": 3, "disks_open": 1,
            "nbd": {"address": "127.0.0.1:10809", "unix": "/run/nbd", "tls": "required"},
            "devices": [{"name": "vm7", "device": "/dev/nbd3", "driver": "nbd",
                         "read_only": false}],
            "counts": weir_door_block::BlockCounts {
                connections: 2, connections_total: 3, ..Default::default()
            },
        },
    }))
    .expect("a status")
}

fn told(status: &StatusAnswer) -> String {
    let used = Some(weir_engine::Period::default());
    describe(&Asked { status: status.clone(), used }, "us-east-1")
}

#[test]
fn it_tells_what_is_and_what_it_costs() {
    let text = told(&status());
    for wanted in [
        "s3://b/v on /mnt/v",
        "1 MiB of 60 MiB (its disk cannot give 64 MiB) used, 4 KiB dirty",
        "2 of 2850, 2 KiB of memory; 3000 inodes free",
        "512 B of 128 MiB used; 1 MiB free on its disk; 3 fsyncs went to the bucket",
        "4 KiB dirty and 0 B clean dropped; replayed 5 commits, 0 files; taken from process 1",
        "off: because",
        "/dev/fuse, not io_uring: the default",
        "3, 1 of them open",
        "127.0.0.1:10809 and /run/nbd, TLS\n",
        "2 connections; read 0 B in 0, wrote",
        "/dev/nbd3          disk vm7",
        "up 1 min 1 s",
        "data  PUT       1000       2  1 GiB       0 B  5.0 ms",
        // 100 GB x $0.023.
        "$2.30",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    let settings = text.split("settings that differ").nth(1).expect("one differs");
    assert_eq!(settings.lines().count(), 2, "{settings}");
    assert!(settings.contains("tier_bytes  64 MiB"), "{settings}");
}

#[test]
fn storage_costs_what_lies_in_the_bucket_where_that_is_known() {
    let mut status = status();
    let text = told(&status);
    assert!(text.contains("100 GiB a month (before compression"), "{text}");
    status.engine.bucket_bytes = Some(10 << 30);
    let text = told(&status);
    // 10 GB x $0.023.
    assert!(text.contains("10 GiB a month (in the bucket") && text.contains("$0.23"), "{text}");
}

#[test]
fn what_lies_in_a_cheaper_class_costs_what_it_does_there() {
    let mut status = status();
    status.engine.bucket_bytes = Some(100 << 30);
    // In the last of the classes, GLACIER_IR: all of it, and 10 GB of it were read by 10 GETs.
    let mut used = weir_engine::Period { average_bucket_bytes: 100 << 30, ..Default::default() };
    *used.average_cold_bytes.last_mut().expect("a class") = 100 << 30;
    let cold = used.used.cold.last_mut().expect("a class");
    (cold.requests, cold.read_bytes, cold.bucket_bytes) = (10, 10 << 30, 100 << 30);
    used.used.get_requests = 10;
    let text = describe(&Asked { status, used: Some(used) }, "us-east-1");
    // 10 GB x $0.03, and 10 GETs x $0.01 / 1000.
    assert!(text.lines().any(|l| l.contains("since the mount") && l.contains("$0.30")), "{text}");
    // 100 GB x $0.004.
    assert!(text.lines().any(|l| l.contains("100 GiB a month") && l.contains("$0.40")), "{text}");
}

#[test]
fn what_is_not_told_in_time_is_not_free() {
    let text = describe(&Asked { status: status(), used: None }, "us-east-1");
    let costs = text.split("cost at S3 list prices").nth(1).expect("costs");
    assert_eq!(costs.matches("not known: the metadata").count(), 2, "{text}");
    assert!(!costs.contains('$'), "{text}");
}

#[test]
fn a_volume_that_is_served_has_no_mount_point() {
    let status = StatusAnswer { mountpoint: None, passthrough: None, transport: None, ..status() };
    let text = told(&status);
    assert!(text.starts_with("s3://b/v, not mounted\n"), "{text}");
    assert!(!text.contains("passthrough") && !text.contains("io_uring"), "{text}");
}

#[test]
fn nothing_is_called_not_lost_beside_what_was_set_aside() {
    let mut status = status();
    status.engine.mount.recovered = Recovered::Killed;
    let text = told(&status);
    assert!(text.contains("nothing lost") && !text.contains("SET ASIDE"), "{text}");
    status.engine.aside.entries.push(AsideEntry {
        label: "20261122-134658".into(),
        why: weir_engine::Why::AnotherWriter,
        unix_ms: 1,
        files: 2,
        dirty_bytes: 8192,
        log_bytes: 100,
        directory: "/t/aside/x".into(),
    });
    let text = told(&status);
    assert!(!text.contains("nothing lost"), "{text}");
    let wanted = "2 files, 8 KiB and 100 B of log, not part of the volume, in /t/aside/x: \
                  `weir recover /mnt/v 20261122-134658`";
    assert!(text.contains("SET ASIDE") && text.contains(wanted), "{text}");
}

#[test]
fn what_is_missing_is_told_and_nothing_else() {
    let mut status = status();
    status.engine.mount.recovered = Recovered::Killed;
    assert!(told(&status).contains("nothing lost"));
    status.engine.mount.left_behind = Some(weir_engine::LeftBehind {
        host: "process 7 on m1".to_owned(),
        tier: Some("/nvme".to_owned()),
        journal: Some("/ebs".to_owned()),
    });
    let text = told(&status);
    assert!(text.contains("tier /nvme and journal /ebs of process 7 on m1"), "{text}");
    assert!(!text.contains("nothing lost"), "{text}");
}

#[test]
fn a_fenced_mount_says_so_first() {
    let mut status = status();
    status.engine.fenced = true;
    assert!(told(&status).contains("FENCED"));
}
