//! A mount: whether it is what one sees at its place, its daemon answers, and others see it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use weir_engine::NodesStatus;

use super::finding::Finding;
use crate::client::Client;

const AREA: &str = "mount";
/// A beat each 3 s: two were missed.
const BEAT_LATE_MS: u64 = 9_000;
const OURS: &str = "fuse.weir";

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq)]
struct Mounted {
    at: PathBuf,
    kind: String,
    /// What is mounted by one is seen by others, in other namespaces.
    shared: bool,
}

pub(super) async fn look(place: &Path) -> Vec<Finding> {
    let text = match std::fs::read_to_string("/proc/self/mountinfo") {
        Ok(text) => text,
        Err(error) => {
            let finding = Finding::good(AREA, "mounts", error.to_string());
            return vec![finding.bad("mount /proc")];
        }
    };
    let mounts: Vec<Mounted> = text.lines().filter_map(parse).collect();
    let mut found = vec![place_of(&mounts, place)];
    if let Some(over) = covered(&mounts, place) {
        found.push(over);
    }
    found.push(seen_by_others(&mounts, place));
    found.extend(daemon(place).await);
    found
}

fn parse(line: &str) -> Option<Mounted> {
    let (before, behind) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(4);
    let at = unescape(fields.next()?);
    let shared = fields.skip(1).any(|field| field.starts_with("shared:"));
    Some(Mounted { at, kind: behind.split(' ').next()?.to_owned(), shared })
}

/// Spaces and the like are written as `\040`.
fn unescape(text: &str) -> PathBuf {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let code = rest.get(at + 1..at + 4).and_then(|code| u8::from_str_radix(code, 8).ok());
        plain.push_str(&rest[..at]);
        match code {
            Some(code) => {
                plain.push(code.into());
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain.into()
}

/// What one sees there is what was mounted last.
fn place_of(mounts: &[Mounted], place: &Path) -> Finding {
    let here: Vec<_> = mounts.iter().filter(|mount| mount.at == place).collect();
    let shown = place.display();
    let (Some(top), ours) = (here.last(), here.iter().any(|mount| mount.kind == OURS)) else {
        let finding = Finding::good(AREA, "place", format!("nothing is mounted on {shown}"));
        return finding.bad(format!("`weir mount URL {shown} --tier DIR`"));
    };
    match (top.kind.as_str(), ours) {
        (OURS, _) => Finding::good(AREA, "place", format!("a volume of Weir is on {shown}")),
        (kind, true) => {
            let found = format!("{kind} was mounted over the volume on {shown}: it is hidden");
            let advice = "unmount what is above, and see what mounts it at boot: an instance store \
                          that mounts itself there hides the data of the volume from every program";
            Finding::good(AREA, "place", found).bad(advice)
        }
        (kind, false) => {
            let found = format!("{kind} is on {shown}, no volume of Weir");
            Finding::good(AREA, "place", found).bad(format!("`weir mount URL {shown} --tier DIR`"))
        }
    }
}

/// Mounts inside the volume, which hide a part of it.
fn covered(mounts: &[Mounted], place: &Path) -> Option<Finding> {
    let below = |mount: &&Mounted| mount.at != place && mount.at.starts_with(place);
    let names: Vec<_> = mounts.iter().filter(below).map(|m| m.at.display().to_string()).collect();
    let found = format!("{} hide a part of the volume", names.join(", "));
    let advice = "as it should be if you mounted them; else unmount them";
    (!names.is_empty()).then(|| Finding::good(AREA, "inside", found).warn(advice))
}

fn seen_by_others(mounts: &[Mounted], place: &Path) -> Finding {
    let above = place.parent().unwrap_or(place);
    let at = mounts.iter().filter(|mount| above.starts_with(&mount.at));
    let shared = at.max_by_key(|mount| mount.at.as_os_str().len()).is_some_and(|at| at.shared);
    match shared {
        true => Finding::good(AREA, "containers", "those that have the directory above see it"),
        false => Finding::good(AREA, "containers", "those that run already do not see it").warn(
            "`mount --make-rshared /` before the mount, or start them after it with `-v \
             DIR:DIR:rslave`",
        ),
    }
}

async fn daemon(place: &Path) -> Vec<Finding> {
    if let Some(error) = weir_door_fuse::dead_mount(place) {
        let finding = Finding::good(AREA, "daemon", error.to_string());
        return vec![finding.bad(format!("`weir umount {}`, then mount again", place.display()))];
    }
    let began = Instant::now();
    let status = match Client::at(place) {
        Ok(client) => client.status().await,
        Err(error) => Err(error),
    };
    match status {
        Ok(status) => {
            let ms = began.elapsed().as_secs_f64() * 1e3;
            let found = format!("process {} answers in {ms:.1} ms", status.pid);
            let daemon = Finding::good(AREA, "daemon", found).measured(ms, "ms");
            std::iter::once(daemon).chain(status.engine.nodes.iter().flat_map(nodes)).collect()
        }
        Err(error) => {
            let finding = Finding::good(AREA, "daemon", error.to_string());
            vec![finding.bad("only who mounted it, and root, may ask: see its log")]
        }
    }
}

/// This node among those that share the volume. No clocks are compared, so they are not looked at.
fn nodes(nodes: &NodesStatus) -> Vec<Finding> {
    let seconds = nodes.since_beat_ms as f64 / 1e3;
    let found = match nodes.shut_out {
        true => "the other nodes shut this one out: it changes nothing any more".to_owned(),
        false => format!("{} live; this one said so {seconds:.1} s ago", nodes.live),
    };
    let beat = Finding::good(AREA, "nodes", found).measured(seconds, "s");
    let beat = match (nodes.shut_out, nodes.since_beat_ms > BEAT_LATE_MS) {
        (true, _) => beat.bad(
            "it comes back by itself within seconds, unless programs hold locks or wrote what is not \
             in the bucket: then unmount, and mount again with the same tier",
        ),
        (false, true) => beat.bad(
            "the metadata's database does not answer: after 12 s without it, the others shut this \
             node out once they are answered",
        ),
        (false, false) => beat,
    };
    let builds: Vec<_> = nodes.builds.iter().map(String::as_str).collect();
    let found = format!("nodes run versions {}", builds.join(", "));
    let versions = (builds.len() > 1).then(|| {
        let advice =
            "as it is in the midst of an upgrade; else `weir upgrade DIR` on the older ones";
        Finding::good(AREA, "versions", found).warn(advice)
    });
    std::iter::once(beat).chain(versions).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn mounts(lines: &[(&str, &str, &str)]) -> Vec<Mounted> {
        let line = |(at, tags, kind): &(&str, &str, &str)| {
            parse(&format!("36 35 98:0 / {at} rw,noatime {tags}- {kind} source rw")).unwrap()
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn it_tells_how_a_node_is_among_the_others() {
        let verdicts = |status: &NodesStatus| {
            nodes(status).iter().map(|finding| finding.verdict).collect::<Vec<_>>()
        };
        let builds = |all: &[&str]| all.iter().map(|build| (*build).to_owned()).collect();
        let good = NodesStatus { live: 2, builds: builds(&["1"]), ..NodesStatus::default() };
        assert_eq!(verdicts(&good), [Verdict::Good]);
        let late = NodesStatus { since_beat_ms: BEAT_LATE_MS + 1, ..good.clone() };
        assert_eq!(verdicts(&late), [Verdict::Bad]);
        let out = NodesStatus { shut_out: true, ..good.clone() };
        assert_eq!(verdicts(&out), [Verdict::Bad]);
        assert!(nodes(&out)[0].found.contains("shut this one out"));
        let mixed = NodesStatus { builds: builds(&["1", "2"]), ..good };
        assert_eq!(verdicts(&mixed), [Verdict::Good, Verdict::Warning]);
        assert!(nodes(&mixed)[1].found.contains("1, 2"));
    }

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let found = mounts(&[("/a\\040b", "shared:7 master:1 ", "ext4"), ("/c", "", OURS)]);
        let of =
            |at: &str, kind: &str, shared| Mounted { at: at.into(), kind: kind.into(), shared };
        assert_eq!(found, [of("/a b", "ext4", true), of("/c", OURS, false)]);
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn what_was_mounted_over_a_volume_is_told() {
        let verdict = |lines: &[_]| place_of(&mounts(lines), Path::new("/fsx")).verdict;
        assert_eq!(verdict(&[("/fsx", "", OURS)]), Verdict::Good);
        assert_eq!(verdict(&[("/fsx", "", "ext4"), ("/fsx", "", OURS)]), Verdict::Good);
        assert_eq!(verdict(&[("/fsx", "", OURS), ("/fsx", "", "xfs")]), Verdict::Bad);
        assert_eq!(verdict(&[("/fsx", "", "xfs")]), Verdict::Bad);
        assert_eq!(verdict(&[("/", "", "ext4")]), Verdict::Bad);
        let inside = mounts(&[("/fsx", "", OURS), ("/fsx/tmp", "", "tmpfs")]);
        let told = covered(&inside, Path::new("/fsx")).unwrap();
        assert!(told.found.contains("/fsx/tmp"), "{told:?}");
        assert_eq!(covered(&mounts(&[("/fsx2", "", OURS)]), Path::new("/fsx")), None);
    }

    #[test]
    fn containers_see_what_is_mounted_below_what_is_shared() {
        let place = Path::new("/data/fsx");
        let seen = |lines: &[_]| seen_by_others(&mounts(lines), place).verdict;
        assert_eq!(seen(&[("/", "shared:1 ", "ext4"), ("/data/fsx", "", OURS)]), Verdict::Good);
        let private = [("/", "shared:1 ", "ext4"), ("/data", "", "xfs"), ("/data/fsx", "", OURS)];
        assert_eq!(seen(&private), Verdict::Warning);
    }
}
