//! Throughput as Prometheus reads it: by rule, by tenant, and under the names that Amazon
//! CloudWatch gives the same of an EFS file system.
//!
//! Source of names and meanings: EFS User Guide, "CloudWatch metrics for Amazon EFS".

use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use weir_engine::{Subject, TenantView, ThroughputView};

use super::told::Told;

/// What EFS meters a metadata operation at, in bytes.
const METADATA_BYTES: u64 = 4_096;
/// Reads and writes a second that EFS's bursting mode takes (EFS User Guide, quotas).
const IO_LIMITS_PER_S: (f64, f64) = (35_000.0, 7_000.0);
/// Requests of the kernel that are no metadata operations.
const DATA_OPS: [&str; 4] = ["read", "write", "fsync", "release"];

/// How many of these requests of the kernel are metadata operations.
pub(crate) fn metadata_ops(ops: &[(&'static str, u64)]) -> u64 {
    ops.iter().filter(|(op, _)| !DATA_OPS.contains(op)).map(|(_, count)| count).sum()
}

type Row<L> = (L, f64);

/// Writes one metric with a row for each set of labels.
pub(super) fn family<L: EncodeLabelSet>(
    to: &mut DescriptorEncoder,
    (name, help): (&str, &str),
    kind: MetricType,
    rows: impl Iterator<Item = Row<L>>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in rows {
        let mut row = metric.encode_family(&labels)?;
        match kind {
            MetricType::Counter => row.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            _ => row.encode_gauge(&value)?,
        }
    }
    Ok(())
}

impl Told {
    pub(super) fn throughput(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        self.rules(to)?;
        self.tenants(to)?;
        self.budget(to)?;
        self.cloudwatch(to)
    }

    fn rules(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, MetricType, fn(&ThroughputView) -> Option<f64>);
        let columns: [Column; 6] = [
            (
                "throughput_permitted_bytes_per_second",
                "Metered bytes a second that may move now; absent without a limit",
                MetricType::Gauge,
                |rule| rule.permitted_bytes_per_s,
            ),
            (
                "throughput_credit_bytes",
                "Burst credits; absent without a limit",
                MetricType::Gauge,
                |rule| rule.permitted_bytes_per_s.map(|_| rule.credit_bytes),
            ),
            (
                "throughput_share",
                "This node's share of the limit, 0 to 1; absent where nodes share none",
                MetricType::Gauge,
                |rule| rule.share.map(|share| share.share),
            ),
            ("throughput_waiting", "I/Os that wait for their turn", MetricType::Gauge, |rule| {
                Some(rule.waiting as f64)
            }),
            (
                "throughput_metered_bytes",
                "Bytes as the mode meters them",
                MetricType::Counter,
                |rule| Some(rule.metered_bytes as f64),
            ),
            ("throughput_waited_seconds", "Time that I/Os waited", MetricType::Counter, |rule| {
                Some(rule.waited_ms as f64 / 1e3)
            }),
        ];
        for (name, help, kind, value) in columns {
            let rows = self.throughput.rules.iter();
            let rows = rows.filter_map(|rule| Some(([("rule", rule.name.clone())], value(rule)?)));
            family(to, (name, help), kind, rows)?;
        }
        Ok(())
    }

    fn tenants(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&TenantView) -> u64);
        let columns: [Column; 8] = [
            ("tenant_opens", "Files opened", |tenant| tenant.opens),
            ("tenant_unmetered_opens", "Opens whose reads the kernel answers, unseen", |tenant| {
                tenant.opens_unmetered
            }),
            ("tenant_reads", "Reads that the daemon answered", |tenant| tenant.reads),
            ("tenant_writes", "Writes", |tenant| tenant.writes),
            ("tenant_read_bytes", "Bytes read through the daemon", |tenant| tenant.bytes_read),
            ("tenant_written_bytes", "Bytes written", |tenant| tenant.bytes_written),
            ("tenant_fetched_bytes", "Bytes that had to come from a bucket first", |tenant| {
                tenant.bytes_fetched
            }),
            ("tenant_waited_milliseconds", "Time that I/Os waited for limits", |t| t.waited_ms),
        ];
        for (name, help, value) in columns {
            let rows = self.throughput.tenants.iter().map(|tenant| {
                let labels = [("path", tenant.path.clone()), ("client", tenant.client.to_string())];
                (labels, value(tenant) as f64)
            });
            family(to, (name, help), MetricType::Counter, rows)?;
        }
        Ok(())
    }

    fn budget(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let budget = self.throughput.budget.as_ref();
        let rows =
            |value: Option<f64>| value.map(|value| ([("currency", "USD")], value)).into_iter();
        let dollars = |nano: weir_types::NanoUsd| nano.0 as f64 / 1e9;
        let hourly = budget.map(|b| dollars(b.nano_usd_per_hour));
        let (name, help) = ("budget_per_hour", "Dollars an hour that requests may cost");
        family(to, (name, help), MetricType::Gauge, rows(hourly))?;
        let (name, help) = ("budget_spent", "Dollars that requests cost since the budget was set");
        let spent = budget.map(|b| dollars(b.spent_nano_usd));
        family(to, (name, help), MetricType::Counter, rows(spent))?;
        let help =
            "0 nothing is slowed, 1 hydration, 2 reading ahead too, 3 all that needs the bucket";
        let slowed = budget.map(|b| f64::from(b.slowed as u8));
        family(to, ("budget_slowed", help), MetricType::Gauge, rows(slowed))
    }

    /// The names of CloudWatch.
    fn cloudwatch(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let volume = self.throughput.rules.iter().find(|rule| rule.subject == Subject::VOLUME);
        let since = &self.status.since_mount;
        let metadata = metadata_ops(&self.ops) * METADATA_BYTES;
        let (reads, writes) = self.io_per_s;
        let percent = (reads / IO_LIMITS_PER_S.0).max(writes / IO_LIMITS_PER_S.1) * 100.0;
        let clients: BTreeSet<u32> = self.throughput.tenants.iter().map(|t| t.client).collect();
        let limited = volume.filter(|rule| rule.permitted_bytes_per_s.is_some());
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        let total = since.bytes_read + since.bytes_written + metadata;
        type Metric = (&'static str, &'static str, MetricType, Option<f64>);
        let metrics: [Metric; 10] = [
            (
                "efs_BurstCreditBalance",
                "Burst credits in bytes; absent without a limit",
                gauge,
                limited.map(|rule| rule.credit_bytes),
            ),
            (
                "efs_PermittedThroughput",
                "Bytes a second; absent without a limit",
                gauge,
                volume.and_then(|rule| rule.permitted_bytes_per_s),
            ),
            (
                "efs_MeteredIOBytes",
                "Reads and writes as EFS meters them, metadata apart",
                counter,
                volume.map(|rule| rule.metered_bytes as f64),
            ),
            (
                "efs_DataReadIOBytes",
                "Bytes read through the daemon",
                counter,
                Some(since.bytes_read as f64),
            ),
            ("efs_DataWriteIOBytes", "Bytes written", counter, Some(since.bytes_written as f64)),
            (
                "efs_MetadataIOBytes",
                "Metadata operations at 4 KiB each",
                counter,
                Some(metadata as f64),
            ),
            ("efs_TotalIOBytes", "Reads, writes and metadata", counter, Some(total as f64)),
            (
                "efs_PercentIOLimit",
                "I/Os a second of the last minute, of those that EFS's bursting mode takes",
                gauge,
                Some(percent),
            ),
            (
                "efs_StorageBytes",
                "Bytes that files take",
                gauge,
                Some(self.status.stored_bytes as f64),
            ),
            (
                "efs_ClientConnections",
                "Users that opened files since the mount",
                gauge,
                Some(clients.len() as f64),
            ),
        ];
        for (name, help, kind, value) in metrics {
            let labels = [("volume", self.status.volume.clone())];
            let row = value.map(|value| (labels, value));
            family(to, (name, help), kind, row.into_iter())?;
        }
        Ok(())
    }
}
