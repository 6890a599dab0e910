//! Quotas as Prometheus reads them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use weir_engine::{QuotaSubject, QuotaView};

use super::throughput::family;
use super::told::Told;

impl Told {
    pub(super) fn quotas(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&QuotaView) -> Option<u64>);
        let columns: [Column; 4] = [
            ("quota_used_bytes", "Bytes that count for a quota", |quota| Some(quota.bytes_used)),
            ("quota_limit_bytes", "Bytes that a quota allows; absent without a limit", |quota| {
                quota.bytes_max
            }),
            ("quota_used_files", "Files that count for a quota", |quota| Some(quota.files_used)),
            ("quota_limit_files", "Files that a quota allows; absent without a limit", |quota| {
                quota.files_max
            }),
        ];
        for (name, help, value) in columns {
            let rows = self.quotas.iter();
            let rows = rows.filter_map(|quota| Some(([("of", of(quota))], value(quota)? as f64)));
            family(to, (name, help), MetricType::Gauge, rows)?;
        }
        Ok(())
    }
}

fn of(quota: &QuotaView) -> String {
    match (quota.subject, &quota.path) {
        (QuotaSubject::Directory(_), Some(path)) => path.clone(),
        (QuotaSubject::Directory(ino), None) => format!("inode:{ino}"),
        (QuotaSubject::User(uid), _) => format!("user:{uid}"),
        (QuotaSubject::Group(gid), _) => format!("group:{gid}"),
    }
}
