//! Which room may touch which: the table of ARCHITECTURE.md, held against what cargo says.
//!
//! Development dependencies are not looked at: tests may use what they like.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Rooms, and the rooms that each may touch.
const ROOMS: [(&str, &[&str]); 19] = [
    ("weir-types", &[]),
    ("weir-throughput", &["weir-types"]),
    ("weir-cost", &["weir-throughput", "weir-types"]),
    ("weir-keys", &["weir-types"]),
    ("weir-kms", &["weir-types"]),
    ("weir-segment", &["weir-keys", "weir-types"]),
    ("weir-object", &["weir-keys", "weir-types"]),
    ("weir-tls", &["weir-types"]),
    ("weir-meta", &["weir-keys", "weir-tls", "weir-types"]),
    ("weir-tier", &["weir-types"]),
    ("weir-peer", &["weir-types"]),
    (
        "weir-engine",
        &[
            "weir-cost",
            "weir-keys",
            "weir-meta",
            "weir-object",
            "weir-peer",
            "weir-segment",
            "weir-throughput",
            "weir-tier",
            "weir-types",
        ],
    ),
    ("weir-fuse", &[]),
    ("weir-door-fuse", &["weir-engine", "weir-fuse", "weir-types"]),
    ("weir-door-block", &["weir-engine", "weir-tls", "weir-types"]),
    ("weir-door-nfs", &["weir-engine", "weir-tls", "weir-types"]),
    ("weir-bench", &["weir-cost", "weir-types"]),
    ("weir-sync", &["weir-object", "weir-types"]),
    ("weir-csi", &[]),
];

/// The program may touch everything, and nothing touches it.
const PROGRAM: &str = "weir";

/// Libraries, and the only rooms that may touch them. Async, clocks of a runtime and I/O stay out
/// of the pure rooms; one room for each foreign format or protocol.
const LIBRARIES: [(&str, &[&str]); 20] = [
    ("slatedb", &["weir-meta"]),
    ("object_store", &["weir-meta", "weir-object"]),
    ("aws-config", &["weir-kms", "weir-object"]),
    ("aws-sdk-kms", &["weir-kms"]),
    ("aws-credential-types", &["weir-object"]),
    // What is sealed at rest; a key pair for each session; proofs in file handles.
    ("aws-lc-rs", &["weir-keys", "weir-peer", "weir-door-nfs"]),
    ("tokio-rustls", &["weir-tls", "weir-meta", "weir-peer"]),
    ("tokio-postgres", &["weir-meta"]),
    ("rustls-native-certs", &["weir-meta"]),
    ("libublk", &["weir-door-block"]),
    // The tier asks for leases (fcntl), which rustix does not have.
    ("libc", &["weir-tier", "weir-fuse", "weir-door-fuse", "weir-bench", "weir"]),
    ("axum", &["weir"]),
    ("hyper", &["weir"]),
    // Who mounts does not carry gRPC.
    ("tonic", &["weir-csi"]),
    ("clap", &["weir", "weir-csi"]),
    ("prometheus-client", &["weir"]),
    // Pages are made by the rooms that know what is on them.
    ("maud", &["weir-cost", "weir-bench"]),
    ("tracing-subscriber", &["weir", "weir-csi"]),
    (
        "tokio",
        &[
            "weir-object",
            "weir-meta",
            "weir-peer",
            "weir-engine",
            "weir-door-fuse",
            "weir-door-block",
            "weir-door-nfs",
            "weir-sync",
            "weir-csi",
            "weir",
        ],
    ),
    // The engine and the buckets write files for others to find: by openat2, so that no link leads
    // them elsewhere.
    (
        "rustix",
        &[
            "weir-object",
            "weir-fuse",
            "weir-tier",
            "weir-engine",
            "weir-door-fuse",
            "weir-door-block",
            "weir-door-nfs",
            "weir-bench",
            "weir-sync",
            "weir-csi",
            "weir",
        ],
    ),
];

/// What each room depends on, by cargo's word.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let mut asked = MetadataCommand::new();
    asked.manifest_path("../../Cargo.toml").no_deps();
    let metadata = asked.exec().expect("cargo metadata");
    let rooms = metadata.packages.iter();
    rooms
        .map(|package| {
            let touched = package.dependencies.iter();
            let touched = touched.filter(|d| d.kind != DependencyKind::Development);
            (package.name.to_string(), touched.map(|d| d.name.clone()).collect())
        })
        .collect()
}

/// All edges that the tables do not allow, a sentence each.
fn broken(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (room, touched) in edges {
        let rule = ROOMS.iter().find(|(name, _)| name == room).map(|(_, may)| *may);
        if rule.is_none() && room != PROGRAM {
            found.push(format!("{room} is not in the table of rooms: say what it may touch"));
        }
        for name in touched {
            let ours = edges.contains_key(name);
            let allowed = room == PROGRAM || rule.is_some_and(|may| may.contains(&name.as_str()));
            if ours && (name == PROGRAM || !allowed) {
                found.push(format!("{room} may not touch {name}"));
            }
            let library = LIBRARIES.iter().find(|(library, _)| library == name);
            if library.is_some_and(|(_, may)| !may.contains(&room.as_str())) {
                found.push(format!("{room} may not use {name}"));
            }
        }
    }
    found
}

#[test]
fn no_room_touches_what_it_may_not() {
    let edges = edges();
    assert!(edges.contains_key("weir-engine"), "cargo told of {edges:?}");
    assert_eq!(broken(&edges), Vec::<String>::new());
}

#[test]
fn the_tables_name_only_what_there_is() {
    let edges = edges();
    let used: BTreeSet<&String> = edges.values().flatten().collect();
    for (room, may) in ROOMS {
        for name in [&[room], may].concat() {
            assert!(edges.contains_key(name), "there is no {name}");
        }
        let unused = may.iter().find(|name| !edges[room].contains(**name));
        assert_eq!(unused, None, "{room} may touch it and does not");
    }
    for (library, may) in LIBRARIES {
        assert!(used.contains(&library.to_owned()), "nobody uses {library}");
        let unused = may.iter().find(|room| !edges[**room].contains(library));
        assert_eq!(unused, None, "it may use {library} and does not");
    }
}

#[test]
fn a_forbidden_edge_is_found() {
    for (room, touched, wanted) in [
        ("weir-types", "tokio", "weir-types may not use tokio"),
        ("weir-segment", "object_store", "weir-segment may not use object_store"),
        ("weir-meta", "weir-object", "weir-meta may not touch weir-object"),
        ("weir-door-fuse", "weir-meta", "weir-door-fuse may not touch weir-meta"),
        ("weir-engine", "slatedb", "weir-engine may not use slatedb"),
        ("weir-bench", "weir", "weir-bench may not touch weir"),
        ("weir-attic", "serde", "weir-attic is not in the table"),
    ] {
        let mut edges = edges();
        edges.entry(room.to_owned()).or_default().insert(touched.to_owned());
        let found = broken(&edges);
        assert!(found.iter().any(|text| text.contains(wanted)), "{wanted}: {found:?}");
    }
}
