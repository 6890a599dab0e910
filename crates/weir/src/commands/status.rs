//! `weir status`: what a mount is doing, and what it costs.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use weir_cost::PriceBook;
use weir_engine::{
    AsideEntry, JournalUsage, LeaseStatus, LimitStatus, MetadataStatus, PeersStatus,
};
use weir_object::{MeterSnapshot, Trouble};
use weir_tier::Recovered;
use weir_types::{Bytes, FsError, Result, Settings};

use crate::api::{
    BlockStatus, NfsStatus, Passthrough, StatusAnswer, Tls, Transport, TransportKind,
};
use crate::cli::StatusArgs;
use crate::client::{Client, Heard};
use crate::commands::{flush, links, prices};
use crate::render::{self, heading, seconds, table};
use crate::targets;

mod costs;

use costs::{Asked, costs};

/// How long a mount without a daemon that can be asked may take to show that it is dead.
const DEAD_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: StatusArgs) -> Result<ExitCode> {
    prices::at(&PriceBook::built_in(), &args.region)?;
    let asked = async |client: &Client| Asked::of(client, !args.json).await;
    let (statuses, silent) = match &args.dir {
        Some(dir) => (vec![asked(&Client::at(dir)?).await?], Vec::new()),
        None => {
            let Heard { answers, mut silent } = Heard::from(Client::all(), asked).await;
            silent.extend(dead_mounts().await?);
            (answers.into_iter().map(|(_, status)| status).collect(), silent)
        }
    };
    // Who looks after a machine by this must hear of it.
    let code = if silent.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if args.json {
        match (args.dir.is_some(), statuses.first()) {
            (true, Some(asked)) => render::say_json(&asked.status)?,
            _ => {
                let error = |(place, error): (String, FsError)| Told::Silent {
                    place,
                    error: error.to_string(),
                };
                let told = statuses.into_iter().map(|asked| Told::Status(Box::new(asked.status)));
                render::say_json_rows(told.chain(silent.into_iter().map(error)))?;
            }
        }
        return Ok(code);
    }
    if statuses.is_empty() && silent.is_empty() {
        render::say("No volume is mounted or served here (by this user).\n")?;
    }
    let mut texts = Vec::new();
    for status in statuses {
        texts.push(describe(&status, &args.region));
    }
    texts.extend(silent.iter().map(|(place, error)| format!("{}\n  {error}\n", heading(place))));
    render::say(&texts.join("\n"))?;
    Ok(code)
}

/// A row of all statuses, as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Told {
    Status(Box<StatusAnswer>),
    Silent { place: String, error: String },
}

/// The mounts whose daemon is dead. One that hangs is passed over.
async fn dead_mounts() -> Result<Vec<(String, FsError)>> {
    let mut dead = Vec::new();
    for mountpoint in weir_door_fuse::our_mounts()? {
        if Client::of(&mountpoint).is_some() {
            continue;
        }
        let shown = mountpoint.display().to_string();
        // A thread of its own, which nobody waits for at the end.
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || tell.send(weir_door_fuse::dead_mount(&mountpoint)));
        if let Ok(Ok(Some(error))) = tokio::time::timeout(DEAD_MAX, told).await {
            dead.push((shown, error));
        }
    }
    Ok(dead)
}

fn describe(asked: &Asked, region: &str) -> String {
    let status = &asked.status;
    let title = match &status.mountpoint {
        Some(mountpoint) => format!("{} on {}", status.engine.volume, mountpoint.display()),
        None => format!("{}, not mounted", status.engine.volume),
    };
    let mut text = format!("{}\n{}", heading(&title), table(&facts(status), 2));
    text.push_str(&format!("{}\n", heading("requests to the bucket")));
    text.push_str(&table(&requests(&status.engine.requests), 2));
    text.push_str(&format!("{}\n", heading(&format!("cost at S3 list prices, {region}"))));
    text.push_str(&table(&costs(asked, region), 1));
    let changed = changed_settings(&status.engine.settings);
    if !changed.is_empty() {
        text.push_str(&format!("{}\n", heading("settings that differ from the default")));
        text.push_str(&table(&changed, 2));
    }
    text
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn facts(status: &StatusAnswer) -> Vec<Vec<String>> {
    let tier = &status.engine.tier;
    let since = &status.engine.since_mount;
    let mode = match (status.engine.fenced, status.engine.read_only) {
        (true, _) => "FENCED: another writer took the volume over; unmount",
        (false, true) => "read-only",
        (false, false) => "read and write",
    };
    let log = match status.engine.journal.durable {
        true => "journal",
        false => "redo log",
    };
    let mut rows = vec![
        row(["mode", mode]),
        row([
            "daemon",
            &format!(
                "process {}, weir {}, up {}",
                status.pid,
                status.version,
                seconds(status.uptime_s)
            ),
        ]),
        row([
            "volume",
            &format!(
                "{} files, {} in the bucket, {} not there yet",
                status.engine.files,
                Bytes(status.engine.stored_bytes),
                Bytes(tier.dirty_bytes)
            ),
        ]),
        row(["tier", &format!("{}{}", tier_bytes(tier), doubt(status.engine.files_in_doubt))]),
        row(["files in the tier", &tier_files(tier)]),
        row([log, &journal(&status.engine.journal)]),
        row(["last recovery", &recovery(status)]),
        row([
            "since the mount",
            &format!(
                "read {}, wrote {}, fetched {}, flushed {}, {} fsyncs",
                Bytes(since.bytes_read),
                Bytes(since.bytes_written),
                Bytes(since.bytes_fetched),
                Bytes(since.bytes_flushed),
                since.fsyncs
            ),
        ]),
    ];
    if let Some(state) = &status.passthrough {
        rows.push(row(["passthrough", &passthrough(state, &status.engine.metered)]));
    }
    if let Some(Transport { how, why }) = &status.transport {
        let how = match how {
            TransportKind::Dev => format!("/dev/fuse, not io_uring: {why}"),
            TransportKind::Uring => "io_uring".to_owned(),
        };
        rows.push(row(["requests come by", &how]));
    }
    rows.extend(of_volume(&status.engine));
    rows.extend(database(&status.engine.metadata));
    rows.extend(together(&status.engine));
    rows.extend(disks(&status.block).into_iter().chain(status.nfs.iter().map(nfs)));
    rows.extend(failures(status));
    rows.extend(left_behind(status));
    rows.extend(set_aside(status));
    rows.extend(status.held_deletions.iter().map(|held| {
        let at = status.mountpoint.as_deref().map(|mount| targets::above(mount, &held.path));
        let at = at.map_or_else(|| held.path.clone(), |at| at.display().to_string());
        row(["DELETIONS HELD", &links::held_deletions(&held.deletions, &at)])
    }));
    rows
}

/// What nodes share, and limits, which they keep to together.
fn together(engine: &weir_engine::Status) -> Vec<Vec<String>> {
    let leases = engine.leases.map(|leases| row(["leases", &remembered(&leases)]));
    let peers = engine.peers.as_ref().map(|peers| row(["other nodes", &others(peers)]));
    let limits = engine.limits.iter().map(|limit| row(["limit", &limited(limit)]));
    leases.into_iter().chain(peers).chain(limits).collect()
}

fn limited(limit: &LimitStatus) -> String {
    let LimitStatus { name, permitted_bytes_per_s, share } = limit;
    let rate = Bytes(*permitted_bytes_per_s as u64);
    match share {
        Some(share) => {
            format!("{name}: {rate}/s by all nodes, of which {:.0} % here", share * 100.0)
        }
        None => format!("{name}: {rate}/s"),
    }
}

/// What is not so of most volumes.
fn of_volume(status: &weir_engine::Status) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if status.encrypted {
        let what = match status.encrypted_tier {
            true => "what is in the bucket, and the tier on its disk",
            false => "what is in the bucket; not what is on this machine",
        };
        rows.push(row(["encrypted", what]));
    }
    if let Some(origin) = status.origins.last() {
        rows.push(row(["clone", &format!("shares segments with {origin}, which must stay")]));
    }
    rows
}

/// Where the metadata is, if not in the bucket, and what is wrong with that.
fn database(metadata: &MetadataStatus) -> Vec<Vec<String>> {
    if !metadata.place.contains("://") {
        return Vec::new();
    }
    let mut rows = vec![row(["metadata", &format!("in {}", metadata.place)])];
    if let Some(trouble) = &metadata.trouble {
        let (times, since) = (trouble.failures, seconds(trouble.since_ms_ago / 1_000));
        let text = format!("{times} calls failed in {since}: {}", trouble.error);
        rows.push(row(["DATABASE FAILS", &text]));
    }
    rows
}

/// What nodes give each other.
fn others(peers: &PeersStatus) -> String {
    let Some(address) = &peers.address else {
        return "give this one nothing, and get nothing: see --peer-listen".to_owned();
    };
    format!(
        "{} to ask, gave them {}, took {}, {} hedges, {} failures; they reach this one at {address}",
        peers.others,
        Bytes(peers.given_bytes),
        Bytes(peers.taken_bytes),
        peers.hedges,
        peers.failures
    )
}

fn left_behind(status: &StatusAnswer) -> Option<Vec<String>> {
    let left = status.engine.mount.left_behind.as_ref()?;
    let what = [("tier", &left.tier), ("journal", &left.journal)];
    let what: Vec<_> = what
        .into_iter()
        .filter_map(|(name, path)| Some(format!("{name} {}", path.as_ref()?)))
        .collect();
    let text = format!(
        "{} of {}, which did not end cleanly: what was only there is not part of the volume",
        what.join(" and "),
        left.host
    );
    Some(row(["LEFT BEHIND", &text]))
}

/// What is in no volume, until somebody settles it.
fn set_aside(status: &StatusAnswer) -> Vec<Vec<String>> {
    let place = status.place();
    let entry = |entry: &AsideEntry| {
        let text = format!(
            "{} and {} of log, not part of the volume, in {}: `weir recover {} {}`",
            format_args!("{}, {}", render::files(entry.files), Bytes(entry.dirty_bytes)),
            Bytes(entry.log_bytes),
            entry.directory.display(),
            place.display(),
            entry.label
        );
        row(["SET ASIDE", &text])
    };
    status.engine.aside.entries.iter().map(entry).collect()
}

/// What the bucket refuses, and, for an hour, what it refused.
fn failures(status: &StatusAnswer) -> Vec<Vec<String>> {
    let shown = |trouble: &&Trouble| trouble.lasting || trouble.last_ms_ago < 3_600_000;
    let told = status.engine.troubles.iter().filter(shown).map(|trouble| {
        let title = if trouble.lasting { "BUCKET FAILS" } else { "bucket failed" };
        row([title, &flush::describe(trouble)])
    });
    let mut rows: Vec<_> = told.collect();
    if let Some(failed) = &status.engine.flush_failed {
        let (times, ago) = (failed.failures, seconds(failed.last_ms_ago / 1_000));
        let text = format!("{times} times in a row, the last {ago} ago: {}", failed.error);
        rows.push(row(["FLUSH FAILS", &text]));
    }
    rows
}

fn tier_bytes(tier: &weir_tier::Usage) -> String {
    let small = match tier.limit_bytes < tier.tier_bytes {
        true => format!(" (its disk cannot give {})", Bytes(tier.tier_bytes)),
        false => String::new(),
    };
    format!(
        "{} of {}{small} used, {} dirty; {} free on its disk",
        Bytes(tier.used_bytes),
        Bytes(tier.limit_bytes),
        Bytes(tier.dirty_bytes),
        Bytes(tier.free_bytes)
    )
}

fn tier_files(tier: &weir_tier::Usage) -> String {
    let memory = Bytes(tier.memory_bytes);
    let free = match tier.free_files {
        u64::MAX => String::new(),
        free => format!("; {free} inodes free on its disk"),
    };
    format!("{} of {}, {memory} of memory{free}", tier.mirrors, tier.limit_files)
}

fn journal(journal: &JournalUsage) -> String {
    let used = Bytes(journal.used_bytes);
    if !journal.durable {
        return used.to_string();
    }
    let (limit, free) = (Bytes(journal.limit_bytes), Bytes(journal.free_bytes));
    let full = match journal.refused_fsyncs {
        0 => String::new(),
        n => format!("; {n} fsyncs went to the bucket because it was full"),
    };
    format!("{used} of {limit} used; {free} free on its disk{full}")
}

fn remembered(leases: &LeaseStatus) -> String {
    let LeaseStatus { held, writes, deferred, hits, taken, given_back, asked_back } = leases;
    let writes = match writes {
        0 => String::new(),
        writes => format!(", {writes} of them on files that only this node has all of"),
    };
    let deferred = match deferred {
        0 => String::new(),
        deferred => format!("; {deferred} changes of names are not in the database yet"),
    };
    format!(
        "{held}{writes}; {hits} reads were answered from memory; {taken} taken, {given_back} given back, \
         {asked_back} of others asked for{deferred}"
    )
}

fn passthrough(state: &Passthrough, metered: &[String]) -> String {
    let Passthrough { active, why, opens, other_opens } = state;
    if !active {
        return format!("off: {why}");
    }
    let mut text = format!("on: {opens} opens served by the kernel, {other_opens} by the daemon");
    if !metered.is_empty() {
        let whose = metered.join(", ");
        text.push_str(&format!("; off for {whose}, where throughput is limited or metered"));
    }
    text
}

/// Where NFS clients are served, and how many there are.
fn nfs(nfs: &NfsStatus) -> Vec<String> {
    let tls = if nfs.tls { ", TLS" } else { "" };
    let claiming =
        if nfs.claiming { "; those of before the start claim what they had" } else { "" };
    let answers = match nfs.answers {
        true => "",
        false => "; answers nobody, because another machine may have the volume by now",
    };
    let counts = &nfs.counts;
    let text = format!(
        "{}{tls}; {} clients; read {} in {}, wrote {} in {}, {} requests{claiming}{answers}",
        nfs.address,
        nfs.clients,
        Bytes(counts.bytes_read),
        counts.reads,
        Bytes(counts.bytes_written),
        counts.writes,
        counts.requests
    );
    row(["NFS", &text])
}

/// Nothing where there are neither disks nor a door for them.
fn disks(block: &BlockStatus) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let (Some(disks @ 1..), Some(open)) = (block.disks, block.disks_open) {
        rows.push(row(["disks", &format!("{disks}, {open} of them open")]));
    }
    if let Some(nbd) = &block.nbd {
        let unix = nbd.unix.as_ref().map(|path| path.display().to_string());
        let places: Vec<_> = nbd.address.iter().map(ToString::to_string).chain(unix).collect();
        let tls = match nbd.tls {
            None => "",
            Some(Tls::ClientCertificate) => ", TLS with client certificates",
            Some(Tls::Required) => ", TLS",
        };
        rows.push(row(["NBD", &format!("{}{tls}", places.join(" and "))]));
    }
    let counts = &block.counts;
    if counts.connections_total > 0 {
        rows.push(row([
            "disk I/O",
            &format!(
                "{} connections; read {} in {}, wrote {} in {}, {} trims, {} flushes, {} errors",
                counts.connections,
                Bytes(counts.bytes_read),
                counts.reads,
                Bytes(counts.bytes_written),
                counts.writes,
                counts.trims,
                counts.flushes,
                counts.errors
            ),
        ]));
    }
    for device in &block.devices {
        let access = if device.read_only { ", read-only" } else { "" };
        let text = format!("disk {}{access}", device.name);
        rows.push(row([&device.device.display().to_string(), &text]));
    }
    rows
}

fn doubt(files: u64) -> String {
    match files {
        0 => String::new(),
        _ => format!(", which LOST BYTES of {}: see the log", render::files(files)),
    }
}

fn recovery(status: &StatusAnswer) -> String {
    let mount = &status.engine.mount;
    let mut text = match mount.recovered {
        Recovered::New => "new tier".to_owned(),
        Recovered::Clean => "clean".to_owned(),
        Recovered::Killed => {
            match status.engine.aside.entries.is_empty() && mount.left_behind.is_none() {
                true => "the last daemon was killed; nothing lost".to_owned(),
                false => "the last daemon of this tier was killed".to_owned(),
            }
        }
        Recovered::Remounted { dirty_bytes_in_doubt, .. } => format!(
            "the tier's file system was mounted anew; {} in doubt set aside",
            Bytes(dirty_bytes_in_doubt)
        ),
        Recovered::PowerCut { dirty_bytes_dropped, clean_bytes_dropped } => format!(
            "the machine went down; {} dirty and {} clean dropped",
            Bytes(dirty_bytes_dropped),
            Bytes(clean_bytes_dropped)
        ),
    };
    if mount.replayed_commits + mount.replayed_files > 0 {
        text.push_str(&format!(
            "; replayed {} commits, {} files",
            mount.replayed_commits, mount.replayed_files
        ));
    }
    if let Some(from) = &mount.taken_from {
        text.push_str(&format!("; taken from {from}"));
    }
    text
}

fn requests(meter: &MeterSnapshot) -> Vec<Vec<String>> {
    let mut rows = vec![row(["by", "kind", "requests", "failed", "sent", "received", "mean"])];
    for of in &meter.rows {
        let mean_ms = of.latency_us_sum as f64 / of.requests.max(1) as f64 / 1e3;
        rows.push(vec![
            format!("{:?}", of.component).to_lowercase(),
            format!("{:?}", of.kind).to_uppercase(),
            of.requests.to_string(),
            of.failed.to_string(),
            Bytes(of.bytes_sent).to_string(),
            Bytes(of.bytes_received).to_string(),
            format!("{mean_ms:.1} ms"),
        ]);
    }
    rows
}

fn changed_settings(settings: &Settings) -> Vec<Vec<String>> {
    let default = serde_json::to_value(Settings::default()).unwrap_or_default();
    let settings = serde_json::to_value(settings).unwrap_or_default();
    let all = settings.as_object().into_iter().flatten();
    let changed = all.filter(|(name, value)| default.get(name.as_str()) != Some(value));
    let shown = |name: &str, value: &Value| match value.as_u64() {
        Some(bytes) if name.ends_with("_bytes") => Bytes(bytes).to_string(),
        _ => value.to_string(),
    };
    changed.map(|(name, value)| vec![name.clone(), shown(name, value)]).collect()
}

#[cfg(test)]
mod tests;
