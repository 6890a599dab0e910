//! The command lines of `weir top` and `weir metrics`.

use std::path::PathBuf;

use clap::Args;

use super::known;
use crate::values;

pub(super) const TOP_EXAMPLES: &str = "\
Examples:
  weir top /mnt/genomes                        q ends, space pauses, + and - change the interval
  weir top /mnt/genomes --every 10s --count 6 >what-happened.txt
  weir top /mnt/genomes --json --count 1       the rates of one second, for programs

All rates are of the last interval. Reads that the kernel answers itself, from its page cache or past
the daemon, are not seen by the daemon: of these the opens are shown.";

pub(super) const METRICS_EXAMPLES: &str = "\
Examples:
  weir metrics /mnt/genomes                    what --admin-listen answers at /metrics
  weir metrics /mnt/genomes --check            alerts of monitoring/rules.yml whose condition holds
  weir metrics --check --json | jq .alerts

A check has no patience: of an alert that Prometheus waits two minutes for it tells at once. Alerts
that look back in time (rates, restarts) it cannot judge, and says which these are.

Exit codes: 0 nothing is wrong, 1 an alert's condition holds, or the metrics are not as they should be.";

#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Where it is mounted, or the URL of a volume that is served [default: the only one here]
    pub(crate) dir: Option<PathBuf>,
    /// Hold the metrics against their list and against the rules of alerts
    #[arg(long)]
    pub(crate) check: bool,
    /// The check as JSON
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Where it is mounted, or the URL of a volume that is served [default: the only one here]
    pub(crate) dir: Option<PathBuf>,
    /// Interval, such as 500ms or 10s
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, default_value = "1s")]
    pub(crate) every: u64,
    /// End after so many intervals [default: on a terminal, when told to]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// One JSON object a line for each interval
    #[arg(long)]
    pub(crate) json: bool,
    /// Region whose S3 list prices are used
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
}
