//! Scheduled snapshots as Prometheus reads them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use weir_engine::RuleView;

use super::throughput::family;
use super::told::Told;

impl Told {
    pub(super) fn snapshots(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&RuleView) -> Option<f64>);
        let columns: [Column; 3] = [
            (
                "snapshots_scheduled",
                "Snapshots that are there which a rule of the schedule made",
                |rule| Some(rule.snapshots as f64),
            ),
            (
                "snapshot_newest_timestamp_seconds",
                "When the newest snapshot of a rule was made; absent before the first one",
                |rule| Some(rule.newest?.0 as f64 / 1e9),
            ),
            (
                "snapshot_overdue_seconds",
                "For how long a snapshot of a rule has been due that is not made yet",
                |rule| Some(rule.overdue_s as f64),
            ),
        ];
        for (name, help, value) in columns {
            let rows = self.schedule.rules.iter();
            let of = |rule: &RuleView| [("rule", rule.rule.every.name().to_owned())];
            let rows = rows.filter_map(|rule| Some((of(rule), value(rule)?)));
            family(to, (name, help), MetricType::Gauge, rows)?;
        }
        Ok(())
    }
}
