//! Disks and their clients as Prometheus reads them.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::told::Told;

impl Told {
    pub(super) fn block(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let (block, counts) = (&self.block, &self.block.counts);
        let gauges = [
            ("block_disks", "Disks and snapshots; absent while nobody can look", block.disks),
            ("block_disks_open", "Disks that somebody has open", block.disks_open),
            (
                "block_devices",
                "Disks that are devices of this machine",
                Some(block.devices.len() as u64),
            ),
            (
                "block_connections_open",
                "Connections of clients and devices by now",
                Some(counts.connections),
            ),
        ];
        for (name, help, value) in gauges {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            if let Some(value) = value {
                metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
            }
        }
        let (name, help) = ("block_requests", "Requests to disks that were answered");
        let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (kind, count) in [
            ("read", counts.reads),
            ("write", counts.writes),
            ("trim", counts.trims),
            ("flush", counts.flushes),
        ] {
            metric
                .encode_family(&[("kind", kind)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let counters = [
            (
                "block_connections",
                "Connections of clients and devices that came",
                counts.connections_total,
            ),
            ("block_errors", "Requests to disks answered with an error", counts.errors),
            ("block_read_bytes", "Bytes of disks that were read", counts.bytes_read),
            ("block_written_bytes", "Bytes of disks that were written", counts.bytes_written),
        ];
        for (name, help, value) in counters {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }
}
