//! NFS and its clients as Prometheus reads them.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use weir_door_nfs::UseView;

use super::throughput::family;
use super::told::Told;

impl Told {
    pub(super) fn nfs(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let counts = self.nfs.as_ref().map(|nfs| nfs.counts).unwrap_or_default();
        let gauges = [
            (
                "nfs_clients",
                "NFS clients that are known",
                self.nfs.as_ref().map_or(0, |n| n.clients),
            ),
            ("nfs_connections_open", "Connections of NFS clients by now", counts.connections),
            (
                "nfs_claiming",
                "Whether NFS clients of before the start are waited for: nobody else opens or locks files",
                self.nfs.as_ref().map_or(0, |nfs| u64::from(nfs.claiming)),
            ),
        ];
        for (name, help, value) in gauges {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
        }
        let counters = [
            ("nfs_connections", "Connections of NFS clients that came", counts.connections_total),
            ("nfs_requests", "Requests of NFS clients that were answered", counts.requests),
            ("nfs_operations", "Operations in requests of NFS clients", counts.operations),
            (
                "nfs_errors",
                "Operations of NFS clients that were refused or failed, names that are not there too",
                counts.errors,
            ),
            (
                "nfs_replays",
                "Requests of NFS clients that came again, and were not done again",
                counts.replays,
            ),
            (
                "nfs_delegations",
                "Files that NFS clients were given to keep a copy of",
                counts.delegations_given,
            ),
            (
                "nfs_recalls",
                "Delegations that NFS clients were asked to give back",
                counts.delegations_recalled,
            ),
            (
                "nfs_revocations",
                "Delegations that were taken from NFS clients that did not give them back",
                counts.delegations_revoked,
            ),
            ("nfs_reads", "Reads of NFS clients", counts.reads),
            ("nfs_writes", "Writes of NFS clients", counts.writes),
            ("nfs_read_bytes", "Bytes that NFS clients read", counts.bytes_read),
            ("nfs_written_bytes", "Bytes that NFS clients wrote", counts.bytes_written),
        ];
        for (name, help, value) in counters {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        self.nfs_uses(to)
    }

    fn nfs_uses(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&UseView) -> u64);
        let columns: [Column; 3] = [
            ("nfs_client_requests", "Requests from an address to an export", |of| of.requests),
            ("nfs_client_read_bytes", "Bytes that an address read of an export", |of| {
                of.bytes_read
            }),
            ("nfs_client_written_bytes", "Bytes that an address wrote to an export", |of| {
                of.bytes_written
            }),
        ];
        for (name, help, value) in columns {
            let rows = self.nfs_uses.iter().map(|of| {
                let address = of.address.map_or("others".to_owned(), |address| address.to_string());
                let labels = [("address", address), ("export", format!("/{}", of.export))];
                (labels, value(of) as f64)
            });
            family(to, (name, help), MetricType::Counter, rows)?;
        }
        Ok(())
    }
}
