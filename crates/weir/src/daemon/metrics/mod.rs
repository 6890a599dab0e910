//! The daemon's state as Prometheus reads it. Everything is taken from one status at each scrape.

mod block;
mod nfs;
mod nodes;
mod quotas;
mod scrub;
mod snapshots;
mod throughput;
mod told;

#[cfg(test)]
mod tests;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use weir_door_fuse::PassthroughState;
use weir_engine::{ActionKind, ActionView, LinkView};
use weir_object::{Component, LATENCY_BUCKETS, MeterRow, RequestKind};
use weir_types::{ErrorKind, FsError, Result, StorageClass};

pub(crate) use throughput::metadata_ops;
pub(crate) use told::Told;

/// OpenMetrics text of what was told.
pub(crate) fn text(told: Told) -> Result<String> {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(told));
    let mut text = String::new();
    encode(&mut text, &registry)
        .map_err(|e| FsError::new(ErrorKind::Bug, "write the metrics").with_source(e))?;
    Ok(text)
}

impl Collector for Told {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        self.gauges(&mut to)?;
        self.bucket_bytes(&mut to)?;
        self.cold_bytes(&mut to)?;
        self.linked_bytes(&mut to)?;
        self.lifecycle(&mut to)?;
        self.counters(&mut to)?;
        self.leases(&mut to)?;
        self.fuse_requests(&mut to)?;
        self.nodes(&mut to)?;
        self.block(&mut to)?;
        self.nfs(&mut to)?;
        self.links(&mut to)?;
        self.actions(&mut to)?;
        self.throughput(&mut to)?;
        self.quotas(&mut to)?;
        self.snapshots(&mut to)?;
        self.scrub(&mut to)?;
        self.requests(&mut to)?;
        self.troubles(&mut to)?;
        self.latency(&mut to)
    }
}

impl Told {
    fn gauges(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let status = &self.status;
        let gauges = [
            ("tier_size_bytes", "Room that the tier was given", status.tier.tier_bytes),
            (
                "tier_limit_bytes",
                "Room that the tier may take: what it was given, or what its disk can give",
                status.tier.limit_bytes,
            ),
            ("tier_used_bytes", "Room that the tier takes", status.tier.used_bytes),
            ("tier_dirty_bytes", "Bytes that are not in the bucket yet", status.tier.dirty_bytes),
            ("tier_free_bytes", "Free bytes on the tier's disk", status.tier.free_bytes),
            ("tier_free_files", "Free inodes on the tier's disk", status.tier.free_files),
            ("tier_files", "Files in the tier", status.tier.mirrors),
            (
                "tier_files_in_doubt",
                "Files of which the tier's disk lost bytes that are not in the bucket",
                status.files_in_doubt,
            ),
            (
                "tier_limit_files",
                "Most files in the tier, by the inodes of its disk and by memory",
                status.tier.limit_files,
            ),
            (
                "tier_memory_bytes",
                "Memory that is taken by what is known of the files in the tier",
                status.tier.memory_bytes,
            ),
            ("journal_bytes", "Bytes of the redo log or journal", status.journal.used_bytes),
            (
                "journal_limit_bytes",
                "Bytes that the journal may take, or at which the redo log is emptied",
                status.journal.limit_bytes,
            ),
            ("journal_free_bytes", "Free bytes on the journal's disk", status.journal.free_bytes),
            ("volume_files", "Inodes in use", status.files),
            ("volume_stored_bytes", "Bytes that files take in the volume", status.stored_bytes),
            ("set_aside_files", "Files with data that is in no volume", status.aside.files),
            (
                "set_aside_bytes",
                "Bytes that are in no volume, with those of logs",
                status.aside.dirty_bytes + status.aside.log_bytes,
            ),
            (
                "flush_failures",
                "Flushes in the background that failed in a row",
                status.flush_failed.as_ref().map_or(0, |failed| failed.failures.into()),
            ),
            (
                "metadata_failures",
                "Calls to the metadata's database that were not answered, 0 once one was",
                status.metadata.trouble.as_ref().map_or(0, |trouble| trouble.failures),
            ),
            ("fenced", "1 if another writer took the volume over", status.fenced.into()),
            (
                "passthrough_active",
                "1 if the kernel reads resident files itself",
                self.passthrough.as_ref().is_some_and(|p| p.off.is_none()).into(),
            ),
            ("uptime_seconds", "Seconds since the mount", self.uptime.as_secs()),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Absent, not zero, while it is not known.
    fn bucket_bytes(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let Some(bytes) = self.status.bucket_bytes else { return Ok(()) };
        let value = i64::try_from(bytes).unwrap_or(i64::MAX);
        let (name, help) = (
            "volume_bucket_bytes",
            "Bytes of the volume's segments in its buckets, compressed, with what is dead in them",
        );
        to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn lifecycle(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let help =
            "Whether the pass that moves what is not used into cheaper classes fails: 1, or 0";
        let value = f64::from(u8::from(self.lifecycle_stands_still));
        to.encode_descriptor("lifecycle_stands_still", help, None, MetricType::Gauge)?
            .encode_gauge(&value)
    }

    fn cold_bytes(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let rows =
            self.cold_bytes.iter().flat_map(|bytes| StorageClass::COLD.into_iter().zip(*bytes));
        let rows = rows.map(|(class, bytes)| ([("class", class.to_string())], bytes as f64));
        let help = "Of volume_bucket_bytes, bytes in each storage class but the first";
        throughput::family(to, ("volume_class_bytes", help), MetricType::Gauge, rows)
    }

    /// Nothing where there is no link.
    fn linked_bytes(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let linked = self.linked_bytes.filter(|_| !self.links.is_empty());
        let rows = linked.iter().flat_map(|bytes| StorageClass::ALL.into_iter().zip(*bytes));
        let rows = rows.map(|(class, bytes)| ([("class", class.to_string())], bytes as f64));
        let help = "Bytes of files that are objects of linked buckets in each storage class: in STANDARD what no rule has looked at, too";
        throughput::family(to, ("linked_class_bytes", help), MetricType::Gauge, rows)
    }

    fn counters(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let since = &self.status.since_mount;
        let opens = |of: fn(&PassthroughState) -> u64| self.passthrough.as_ref().map_or(0, of);
        let peers = self.status.peers.clone().unwrap_or_default();
        let counters = [
            ("read_bytes", "Bytes that programs read through the daemon", since.bytes_read),
            ("written_bytes", "Bytes that programs wrote", since.bytes_written),
            (
                "fetched_bytes",
                "Bytes of records fetched, also from other nodes",
                since.bytes_fetched,
            ),
            ("flushed_bytes", "Bytes of segments sent to the bucket", since.bytes_flushed),
            ("released_bytes", "Bytes of clean pages let go", since.bytes_released),
            ("segments_written", "Segments sent", since.segments_written),
            ("segments_collected", "Segments deleted", since.segments_collected),
            (
                "segments_merged",
                "Small segments whose live records were written into larger ones",
                since.segments_merged,
            ),
            ("fsyncs", "fsync calls", since.fsyncs),
            (
                "journal_refused_fsyncs",
                "fsyncs that went to the bucket because the journal was full",
                self.status.journal.refused_fsyncs,
            ),
            ("peer_given_bytes", "Bytes given to other nodes of the volume", peers.given_bytes),
            ("peer_taken_bytes", "Bytes that other nodes gave", peers.taken_bytes),
            ("peer_hedges", "Times the bucket was asked, too, as a node was slow", peers.hedges),
            ("peer_failures", "Times a node did not give what it was asked for", peers.failures),
            ("passthrough_opens", "Opens that the kernel serves", opens(|p| p.opens)),
            ("daemon_opens", "Opens that the daemon serves", opens(|p| p.other_opens)),
        ];
        for (name, help, value) in counters {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// Absent where no nodes share the volume.
    fn leases(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let Some(leases) = self.status.leases else { return Ok(()) };
        let gauges = [
            ("leases", "Leases that this node has", leases.held),
            (
                "leases_write",
                "Files of which this node may have more than the volume",
                leases.writes,
            ),
            (
                "leases_deferred",
                "Changes of names and attributes that the database does not have yet",
                leases.deferred,
            ),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let counters = [
            ("lease_hits", "Reads of the metadata that were answered from memory", leases.hits),
            ("leases_taken", "Leases that this node took", leases.taken),
            ("leases_given_back", "Leases that other nodes asked for and got", leases.given_back),
            ("leases_asked_back", "Leases of other nodes that were asked for", leases.asked_back),
        ];
        for (name, help, value) in counters {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn fuse_requests(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let (name, help) = ("fuse_requests", "Requests of the kernel");
        let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (op, count) in &self.ops {
            metric
                .encode_family(&[("op", *op)])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }

    fn links(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&LinkView) -> u64);
        let gauges: [Column; 7] = [
            ("link_files", "Files that are objects of a linked bucket", |link| link.files),
            ("link_bytes", "Their bytes", |link| link.bytes),
            ("link_hidden_objects", "Objects that cannot show as files", |link| link.hidden),
            ("link_importing", "1 while an import runs", |link| link.importing.is_some().into()),
            ("link_export_waiting", "Files that wait for their export", |link| link.export_waiting),
            ("link_export_failed", "Files whose export failed", |link| link.export_failed),
            (
                "link_deletions_held",
                "Deletions in the bucket that wait for a confirmation",
                |link| link.held_deletions.map_or(0, |held| held.files),
            ),
        ];
        for (name, help, value) in gauges {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for link in &self.links {
                let value = i64::try_from(value(link)).unwrap_or(i64::MAX);
                metric.encode_family(&link_labels(link))?.encode_gauge(&value)?;
            }
        }
        let (name, help) = ("link_conflicts", "Local changes that a bucket change overtook");
        let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for link in &self.links {
            metric
                .encode_family(&link_labels(link))?
                .encode_counter::<NoLabelSet, _, u64>(&link.conflicts, None)?;
        }
        Ok(())
    }

    /// Of actions that have not ended, by kind.
    fn actions(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&ActionView) -> u64);
        let gauges: [Column; 6] = [
            ("actions_running", "Actions that run or wait", |_| 1),
            ("actions_total_files", "Files of these actions", |action| action.files_total),
            ("actions_done_files", "Files of these that are done", |action| action.files_done),
            ("actions_total_bytes", "Bytes of these actions", |action| action.bytes_total),
            ("actions_done_bytes", "Bytes of these that are moved", |action| action.bytes_done),
            (
                "actions_archived_files",
                "Files of these whose objects are being restored",
                |action| action.archived.waiting,
            ),
        ];
        for (name, help, value) in gauges {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for kind in [ActionKind::Hydrate, ActionKind::Release, ActionKind::Archive] {
                // Those of other nodes are in their metrics.
                let here = |of: &&ActionView| of.node.as_ref().is_none_or(|node| node.here);
                let of_kind = self
                    .actions
                    .iter()
                    .filter(|action| action.request.kind == kind && action.ended_unix_ms.is_none())
                    .filter(here);
                let sum: u64 = of_kind.map(value).sum();
                let label = format!("{kind:?}").to_lowercase();
                metric
                    .encode_family(&[("kind", label)])?
                    .encode_gauge(&i64::try_from(sum).unwrap_or(i64::MAX))?;
            }
        }
        Ok(())
    }

    fn requests(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&MeterRow) -> u64);
        let columns: [Column; 6] = [
            ("requests", "Requests to the buckets", |row| row.requests),
            ("requests_failed", "Requests that failed", |row| row.failed),
            ("requests_retried", "Requests that repeated another", |row| row.retries),
            ("requests_hedged", "Requests sent beside one that was slow", |row| row.hedges),
            ("request_sent_bytes", "Bytes of bodies sent", |row| row.bytes_sent),
            ("request_received_bytes", "Bytes of bodies received", |row| row.bytes_received),
        ];
        for (name, help, value) in columns {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for row in &self.status.requests.rows {
                metric
                    .encode_family(&labels(row.component, row.kind))?
                    .encode_counter::<NoLabelSet, _, u64>(&value(row), None)?;
            }
        }
        Ok(())
    }

    fn troubles(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let (name, help) = ("requests_failing", "Attempts in a row that failed, 0 once answered");
        let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for trouble in &self.status.troubles {
            let labels = labels(trouble.component, trouble.kind);
            let failures = if trouble.lasting { trouble.failures } else { 0 };
            let value = i64::try_from(failures).unwrap_or(i64::MAX);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn latency(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let (name, help) = ("request_latency_seconds", "How long requests took");
        let mut metric = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for row in &self.status.requests.rows {
            let buckets: Vec<(f64, u64)> = row
                .buckets
                .iter()
                .enumerate()
                .map(|(at, count)| (upper_bound_s(at), *count))
                .collect();
            let sum = row.latency_us_sum as f64 / 1e6;
            metric
                .encode_family(&labels(row.component, row.kind))?
                .encode_histogram::<NoLabelSet>(
                    sum,
                    buckets.iter().map(|b| b.1).sum(),
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

/// The end of a latency bucket in seconds; the last has none.
fn upper_bound_s(bucket: usize) -> f64 {
    match bucket + 1 {
        LATENCY_BUCKETS.. => f64::MAX,
        exponent => (1_u64 << exponent) as f64 / 1e6,
    }
}

fn link_labels(link: &LinkView) -> [(&'static str, String); 2] {
    [("link", link.id.0.to_string()), ("path", link.path.clone())]
}

fn labels(component: Component, kind: RequestKind) -> [(&'static str, String); 2] {
    let lower = |text: String| text.to_lowercase();
    [("component", lower(format!("{component:?}"))), ("kind", lower(format!("{kind:?}")))]
}
