//! The bill over the admin door.

use std::sync::Arc;

use weir_cost::{Amount, Bill, PriceBook, Storage};
use weir_types::Result;

use super::prices;
use super::routes::Routes;
use super::throughput::used;
use crate::api::{Cost, CostElsewhere, CostReport, GetBill, GetUsed, Service, Sum};
use crate::bill::{Counted, Elsewhere, MONTH_FROM, Report, Terms, report, sum};
use crate::daemon::shared::DaemonState;

/// What whoever watches the daemon may ask, on a port of the machine too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(bill)
}

async fn bill(shared: Arc<DaemonState>, call: GetBill) -> Result<CostReport> {
    let GetBill { region, since_unix_ms, node } = call;
    let region = prices::region_of(&shared, region).await?;
    let counted = Counted {
        files: shared.engine.status().await?.files,
        period: used(shared.clone(), GetUsed { since_unix_ms, node }).await?,
        ..Counted::default()
    };
    of_region(&PriceBook::built_in(), &region, counted)
}

fn of_region(book: &PriceBook, region: &str, counted: Counted) -> Result<CostReport> {
    let linked_bytes = sum(counted.period.average_linked_bytes);
    let report = report(counted, Terms::default(), prices::listed(book, region)?)?;
    let Report { region, so_far, month, shadow, used, .. } = report;
    Ok(CostReport {
        region,
        used,
        linked_bytes,
        month_from_s: MONTH_FROM.as_secs(),
        weir: cost(&so_far, month.as_ref()),
        elsewhere: shadow.into_iter().map(told).collect(),
    })
}

fn told(shadow: Elsewhere) -> CostElsewhere {
    let Elsewhere { name, storage, so_far, month, seconds, bound_by } = shadow;
    let service = match storage {
        Storage::Efs { .. } => Service::Efs,
        Storage::FsxLustre { .. } => Service::FsxLustre,
        Storage::Gp3 { .. } | Storage::Io2 { .. } => Service::Ebs,
        Storage::InstanceStore => Service::InstanceStore,
        Storage::S3Files => Service::S3Files,
        Storage::Weir { .. } => Service::Weir,
    };
    let cost = cost(&so_far, month.as_ref());
    CostElsewhere {
        service,
        name,
        cost,
        io_seconds: seconds.is_finite().then_some(seconds),
        bound_by,
    }
}

fn cost(so_far: &Bill, month: Option<&Bill>) -> Cost {
    let sum = |bill: &Bill| {
        let Amount { usd, complete } = bill.amount();
        Sum { nano_usd: usd, complete }
    };
    Cost { so_far: sum(so_far), month: month.map(sum) }
}

#[cfg(test)]
mod tests {
    use weir_engine::{Period, Totals};
    use weir_types::ErrorKind;

    use super::*;

    /// 730 GiB in the bucket for that long, which files think are a TiB, and a million GETs.
    fn counted(seconds: u64) -> Counted {
        let used = Totals {
            unix_ms: seconds * 1_000,
            get_requests: 1_000_000,
            read_bytes: 1 << 40,
            reads: 1 << 20,
            ..Totals::default()
        };
        let period = Period {
            from_unix_ms: 0,
            average_stored_bytes: 1 << 40,
            average_bucket_bytes: 730 << 30,
            used,
            ..Period::default()
        };
        Counted { files: 10, period, ..Counted::default() }
    }

    fn told_after(seconds: u64, region: &str) -> CostReport {
        of_region(&PriceBook::built_in(), region, counted(seconds)).expect("a bill")
    }

    #[test]
    fn it_says_what_work_cost_here_and_elsewhere() {
        let hour = told_after(3_600, "us-east-1");
        // A GB-month x $0.023 and a million GETs x $0.0004 / 1000; the machine is on no bill.
        assert_eq!((hour.weir.so_far.nano_usd.0, hour.weir.so_far.complete), (423_000_000, true));
        let month = hour.weir.month.expect("an hour is enough").nano_usd.0;
        assert_eq!(month, 730 * (400_000_000 + 23_000_000));
        for service in [Service::Efs, Service::FsxLustre] {
            let told: Vec<_> = hour.elsewhere.iter().filter(|of| of.service == service).collect();
            assert!(told.len() >= 3, "{told:?}");
            for of in told {
                assert!(of.cost.so_far.nano_usd.0 > 0 && of.cost.month.is_some(), "{of:?}");
            }
        }
        let efs = &hour.elsewhere[0];
        assert_eq!((efs.service, efs.name.as_str()), (Service::Efs, "EFS elastic"));
        // EFS stores what files hold: 1,024 GB for an hour of 730 x $0.30, and reads 1,024 GB x $0.03.
        let wanted = 1_024.0 / 730.0 * 0.30e9 + 1_024.0 * 0.03e9;
        let off = efs.cost.so_far.nano_usd.0 as f64 - wanted;
        assert!(off.abs() < 1e6, "{efs:?} is not {wanted}");
    }

    #[test]
    fn no_month_is_told_from_less_than_ten_minutes() {
        for (seconds, is_told) in [(0, false), (599, false), (600, true)] {
            let report = told_after(seconds, "us-east-1");
            assert_eq!(report.month_from_s, 600);
            assert_eq!(report.weir.month.is_some(), is_told, "{seconds} s");
            let told = report.elsewhere.iter().filter(|of| of.cost.month.is_some()).count();
            assert_eq!(told, if is_told { report.elsewhere.len() } else { 0 }, "{seconds} s");
        }
    }

    #[test]
    fn what_has_no_price_is_not_free_and_a_place_that_is_none_is_refused() {
        let tokyo = told_after(3_600, "ap-northeast-1");
        assert!(!tokyo.weir.so_far.complete);
        let error = of_region(&PriceBook::built_in(), "eu-mars-9", counted(1)).expect_err("none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        // What never ends has no number in JSON.
        let text = serde_json::to_string(&told_after(0, "us-east-1")).expect("encodes");
        serde_json::from_str::<CostReport>(&text).expect("decodes");
    }
}
