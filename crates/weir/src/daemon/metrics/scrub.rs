//! Scrubs as Prometheus reads them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::told::Told;

impl Told {
    pub(super) fn scrub(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let view = self.scrub.as_ref();
        let gauges: [(&str, &str, Option<f64>); 5] = [
            (
                "scrub_running",
                "Whether a scrub goes on: 1, or 0",
                view.map(|v| f64::from(u8::from(v.running))),
            ),
            (
                "scrub_left_bytes",
                "Bytes of objects that the scrub that runs has not read yet",
                view.map(|v| if v.running { (v.bytes - v.bytes_done) as f64 } else { 0.0 }),
            ),
            (
                "scrub_ended_timestamp_seconds",
                "When the last scrub ended; absent before the first one",
                view.and_then(|v| Some(v.ended?.0 as f64 / 1e9)),
            ),
            (
                "scrub_damaged_segments",
                "Segments that this scrub, or the last one, found damaged or missing in the bucket",
                view.map(|v| v.damaged as f64),
            ),
            (
                "scrub_lost_pieces",
                "Pieces of files that this scrub, or the last one, found nowhere",
                view.map(|v| v.lost_pieces as f64),
            ),
        ];
        for (name, help, value) in gauges {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            if let Some(value) = value {
                metric.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}
