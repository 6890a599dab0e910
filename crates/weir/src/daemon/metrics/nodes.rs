//! A node among those that share its volume, as Prometheus reads it. Without values where it is alone.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use weir_engine::NodesStatus;

use super::told::Told;

impl Told {
    pub(super) fn nodes(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        type Column = (&'static str, &'static str, fn(&NodesStatus) -> u64);
        let Some(nodes) = &self.status.nodes else { return Ok(()) };
        let gauges: [Column; 3] = [
            ("nodes_live", "Nodes that share the volume, this one too", |nodes| nodes.live),
            ("node_on_duty", "1 if this node collects, imports and exports for all", |nodes| {
                nodes.on_duty.into()
            }),
            ("node_shut_out", "1 if the others shut this node out", |nodes| nodes.shut_out.into()),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value(nodes)).unwrap_or(i64::MAX);
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let (name, help) = (
            "node_beat_age_seconds",
            "Since this node said that it lives, and was answered: every 3 s; after 12 s it is shut out",
        );
        let age = nodes.since_beat_ms as f64 / 1e3;
        to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&age)?;
        let counters: [Column; 3] = [
            ("node_beats", "How often this node said that it lives", |nodes| nodes.beats),
            ("node_beats_failed", "How often it could not say so", |nodes| nodes.beats_failed),
            ("node_evictions", "Silent nodes that this one shut out", |nodes| nodes.evicted),
        ];
        for (name, help, value) in counters {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value(nodes), None)?;
        }
        Ok(())
    }
}
