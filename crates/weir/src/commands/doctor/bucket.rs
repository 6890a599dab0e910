//! What a bucket answers: whether it may be read and written, what it promises, and how fast it is.

use std::time::Instant;

use weir_engine::{BucketUrl, Conditions, Connector};
use weir_object::{Bucket, Component, PROBE_PREFIX};
use weir_types::{ErrorKind, FsError, Result};

use super::finding::Finding;
use crate::clock;

const AREA: &str = "bucket";
/// Bytes of the object that goes there and back.
const OBJECT_BYTES: usize = 8 << 20;
/// Small requests, of which the middle one counts.
const LOOKS: usize = 9;
/// A request that takes longer is felt by whoever reads cold, in milliseconds.
const SLOW_MS: f64 = 100.0;
/// Signatures are refused beyond a quarter of an hour; half a minute already deserves a look.
const SKEW_MS: i64 = 30_000;

/// About 25 requests, and 8 MiB each way.
pub(super) async fn look(url: &BucketUrl, connector: &Connector) -> Vec<Finding> {
    let mut found = Vec::new();
    let bucket = match connector.connect(url) {
        Ok(bucket) => bucket,
        Err(error) => return vec![refused("address", &error, "correct the URL or the flags")],
    };
    let began = Instant::now();
    match bucket.probe().await {
        Ok(()) => {
            found.push(took("list", began));
            let keys = bucket.whose_keys().await;
            found.extend(keys.map(|keys| Finding::good(AREA, "credentials", keys)));
        }
        Err(error) => return vec![refused("list", &error, of_refusal(&error))],
    }
    found.extend(volume(url, connector).await);
    match written(&bucket).await {
        Ok(more) => found.extend(more),
        Err(error) if error.kind() == ErrorKind::Permission => {
            let advice = "it can be mounted with --read-only and linked without --export; for more, \
                          docs/credentials.md has the policy";
            found.push(Finding::good(AREA, "write", error.to_string()).warn(advice));
        }
        Err(error) => found.push(refused("write", &error, of_refusal(&error))),
    }
    found
}

fn of_refusal(error: &FsError) -> &'static str {
    match error.kind() {
        ErrorKind::Permission => {
            "give other keys (docs/credentials.md tells how they are found, and the policy that a \
             volume needs)"
        }
        ErrorKind::NotFound => "make the bucket, or correct its name",
        _ => "correct the address (--endpoint, --region), or look at the network between",
    }
}

fn refused(name: &'static str, error: &FsError, advice: &str) -> Finding {
    Finding::good(AREA, name, error.to_string()).bad(advice)
}

fn took(name: &'static str, began: Instant) -> Finding {
    let ms = began.elapsed().as_secs_f64() * 1e3;
    Finding::good(AREA, name, format!("answered in {ms:.1} ms")).measured(ms, "ms")
}

/// What lies at the URL.
async fn volume(url: &BucketUrl, connector: &Connector) -> Vec<Finding> {
    let format = match weir_engine::read_format(url, connector).await {
        Ok(format) => format,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found = format!("none at {url} yet: `weir format {url}` makes one");
            return vec![Finding::good(AREA, "volume", found)];
        }
        Err(error) => {
            return vec![refused("volume", &error, "see what lies there before anything else")];
        }
    };
    let found = Finding::good(AREA, "volume", format.id.to_string());
    let began = Instant::now();
    let metadata = match weir_engine::look_at_metadata(&format, url, connector).await {
        Ok(place) => {
            let ms = began.elapsed().as_secs_f64() * 1e3;
            let place = if place == "slate" { "the bucket".to_owned() } else { place };
            Finding::good(AREA, "metadata", format!("in {place}, opened in {ms:.1} ms"))
                .measured(ms, "ms")
        }
        Err(error) => {
            refused("metadata", &error, "docs/postgres.md tells how a database is reached")
        }
    };
    vec![found, metadata]
}

/// Sends an object there, looks at it, reads it back and takes it away.
async fn written(bucket: &Bucket) -> Result<Vec<Finding>> {
    let conditions = bucket.probe_conditions(Component::Check).await?;
    let key = format!("{PROBE_PREFIX}doctor-{:016x}", rand::random::<u64>());
    let checks = bucket.probe_checksums(Component::Check).await?;
    let measured = measure(bucket, &key).await;
    let removed = bucket.delete(Component::Check, &key).await;
    let mut found = vec![promises(conditions)];
    found.extend(checks.map(checksums));
    found.extend(measured?);
    found.push(match removed {
        Ok(()) => Finding::good(AREA, "delete", "done"),
        Err(error) => refused("delete", &error, "a probe is left in the bucket: remove it"),
    });
    Ok(found)
}

fn promises(conditions: Conditions) -> Finding {
    if conditions == Conditions::ALL {
        return Finding::good(AREA, "conditional PUT", "held: two writers cannot both win");
    }
    Finding::good(AREA, "conditional PUT", "not held")
        .bad("a volume needs a store that holds If-None-Match and If-Match; a link does without")
}

fn checksums(refuses_damaged: bool) -> Finding {
    if refuses_damaged {
        return Finding::good(AREA, "checksums", "held: what is damaged on its way is refused");
    }
    Finding::good(AREA, "checksums", "not looked at: what is damaged on its way is stored so").warn(
        "use a store that checks x-amz-checksum-crc64nvme; a volume finds damage when it reads, and \
         cannot mend it",
    )
}

async fn measure(bucket: &Bucket, key: &str) -> Result<Vec<Finding>> {
    let mut bytes = vec![0; OBJECT_BYTES];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut bytes);
    let began = Instant::now();
    bucket.put(Component::Check, key, bytes.clone()).await?;
    let put = speed("write", began);
    let sent_ms = clock::now().0 / 1_000_000;
    let mut looks = Vec::with_capacity(LOOKS);
    let mut written_ms = 0;
    for _ in 0..LOOKS {
        let began = Instant::now();
        written_ms = bucket.head(Component::Check, key).await?.last_modified_unix_ms;
        looks.push(began.elapsed().as_secs_f64() * 1e3);
    }
    looks.sort_by(f64::total_cmp);
    let began = Instant::now();
    let back = bucket.get(Component::Check, key).await?;
    let get = speed("read", began);
    let same = match back == bytes {
        true => Finding::good(AREA, "bytes", "come back as they went"),
        false => Finding::good(AREA, "bytes", "come back as others")
            .bad("something between here and the bucket changes them: do not use it"),
    };
    Ok(vec![latency(looks[LOOKS / 2]), put, get, same, skew(sent_ms - written_ms)])
}

fn speed(name: &'static str, began: Instant) -> Finding {
    let bytes_per_s = OBJECT_BYTES as f64 / began.elapsed().as_secs_f64();
    let found = format!("{:.0} MB/s by one connection; a mount has many", bytes_per_s / 1e6);
    Finding::good(AREA, name, found).measured(bytes_per_s, "bytes/s")
}

fn latency(ms: f64) -> Finding {
    let finding = Finding::good(AREA, "latency", format!("{ms:.1} ms a HEAD")).measured(ms, "ms");
    match ms > SLOW_MS {
        true => finding.warn("far away: take a bucket in the machine's own region"),
        false => finding,
    }
}

/// How far this machine's clock is ahead of the bucket's, which tells whole seconds.
fn skew(ahead_ms: i64) -> Finding {
    let seconds = ahead_ms as f64 / 1e3;
    let finding = Finding::good(AREA, "clock", format!("{seconds:+.0} s beside the bucket's"));
    let finding = finding.measured(seconds, "s");
    match ahead_ms.abs() > SKEW_MS {
        true => finding.warn("set it (chrony, systemd-timesyncd): S3 refuses keys 15 minutes off"),
        false => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_clock_and_a_bucket_that_are_off_are_told() {
        assert_eq!(skew(999).verdict, Verdict::Good);
        assert_eq!(skew(-31_000).verdict, Verdict::Warning);
        assert_eq!(latency(5.0).verdict, Verdict::Good);
        assert_eq!(latency(180.0).verdict, Verdict::Warning);
        assert_eq!(checksums(true).verdict, Verdict::Good);
        assert_eq!(checksums(false).verdict, Verdict::Warning);
        assert_eq!(promises(Conditions::ALL).verdict, Verdict::Good);
        assert_eq!(
            promises(Conditions { matches: false, ..Conditions::ALL }).verdict,
            Verdict::Bad
        );
    }
}
