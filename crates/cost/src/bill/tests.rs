//! Bills: what is on them, and what nobody knows.

use proptest::prelude::*;

use super::*;
use crate::PriceBook;

const GIB: u64 = 1 << 30;

fn amounts(bill: &Bill) -> Vec<Option<i64>> {
    bill.lines.iter().map(|line| line.amount.map(|amount| amount.0)).collect()
}

#[test]
fn a_month_of_a_terabyte() {
    let book = PriceBook::built_in();
    // 1,024 GB x $0.023 = $23.552.
    let bill = month(book.at("us-east-1"), 1024 * GIB);
    assert_eq!(bill.total, NanoUsd(23_552_000_000));
    assert!(bill.complete);
    assert_eq!(bill.to_string(), "$23.55");
}

fn an_hour_of_work() -> Usage {
    Usage {
        stored_bytes: 73 * GIB,
        requests: Requests { put: 250, get: 1_000_000, delete: 9_000 },
        observed: Duration::from_secs(3600),
        ..Usage::default()
    }
}

#[test]
fn an_hour() {
    let book = PriceBook::built_in();
    let bill = so_far(book.at("us-east-1"), &an_hour_of_work());
    // 73 GB for 1 of 730 hours = 0.1 GB-month x $0.023 = $0.0023.
    // 250 PUTs = 0.25 thousand x $0.005 = $0.00125.
    // 1,000,000 GETs = 1,000 thousand x $0.0004 = $0.40.
    // DELETE is free; nothing left the region, so its unknown price does not matter.
    let expected = [2_300_000, 1_250_000, 400_000_000, 0, 0].map(Some);
    assert_eq!(amounts(&bill), expected);
    assert_eq!(bill.total, NanoUsd(403_550_000));
    assert!(bill.complete);
}

#[test]
fn what_is_cold_has_lines_of_its_own() {
    let book = PriceBook::built_in();
    let glacier = ColdUsage {
        class: StorageClass::GlacierIr,
        stored_bytes: 36 * GIB + GIB / 2,
        moved: 50,
        gets: 1_000,
        read_bytes: 10 * GIB,
        early_byte_days: 0,
    };
    let usage = Usage { cold: vec![glacier], ..an_hour_of_work() };
    let bill = so_far(book.at("us-east-1"), &usage);
    // Half of the storage at $0.023, half at $0.004; 50 of the PUTs at $0.02 a thousand, 1,000 of the GETs at
    // $0.01; 10 GB read at $0.03.
    let expected =
        [1_150_000, 1_000_000, 399_600_000, 0, 0, 200_000, 1_000_000, 10_000_000, 300_000_000];
    assert_eq!(amounts(&bill), expected.map(Some));
    let lines: Vec<_> = bill.lines[5..].iter().map(|line| &line.what[..]).collect();
    let names = ["storage in", "moved into", "GET requests of", "read from"];
    assert_eq!(lines, names.map(|name| format!("{name} GLACIER_IR")));
    let early = ColdUsage {
        early_byte_days: 73 * GIB,
        ..ColdUsage { class: StorageClass::GlacierIr, ..ColdUsage::default() }
    };
    let bill = so_far(book.at("us-east-1"), &Usage { cold: vec![early], ..an_hour_of_work() });
    // 73 GB for a day are 2.4 GB-months.
    assert_eq!(amounts(&bill)[5..], [Some(9_600_000)]);
}

#[test]
fn objects_of_links_cost_what_their_class_does() {
    let book = PriceBook::built_in();
    let usage = Usage { linked_bytes: [73 * GIB, 0, 0, 146 * GIB], ..an_hour_of_work() };
    let bill = so_far(book.at("us-east-1"), &usage);
    // 0.1 GB-months at $0.023 and 0.2 at $0.004.
    assert_eq!(amounts(&bill)[5..], [Some(2_300_000), Some(800_000)]);
    let names: Vec<_> = bill.lines[5..].iter().map(|line| &line.what[..]).collect();
    assert_eq!(names, ["linked objects in STANDARD", "linked objects in GLACIER_IR"]);
    let month = per_month(book.at("us-east-1"), &usage);
    assert_eq!(amounts(&month)[5..], [Some(1_679_000_000), Some(584_000_000)]);
}

#[test]
fn a_month_at_that_rate() {
    let book = PriceBook::built_in();
    let bill = per_month(book.at("us-east-1"), &an_hour_of_work());
    // 730 of those hours: 73 GB x $0.023 = $1.679; 730 x $0.00125 = $0.9125; 730 x $0.40 = $292.
    let expected = [1_679_000_000, 912_500_000, 292_000_000_000, 0, 0].map(Some);
    assert_eq!(amounts(&bill), expected);
    let unwatched = Usage { observed: Duration::ZERO, ..an_hour_of_work() };
    let bill = per_month(book.at("us-east-1"), &unwatched);
    assert_eq!(amounts(&bill), [1_679_000_000, 0, 0, 0, 0].map(Some));
}

#[test]
fn a_disk_that_is_written_without_a_pause_shows_what_its_records_cost() {
    // The published run of ZFS on S3: 2.5 GB/s, an object for each MiB: 2,384 PUTs a second,
    // $42.92 an hour.
    let puts = 2_500_000_000 / (1 << 20);
    let minute = Usage {
        requests: Requests { put: puts * 60, ..Requests::default() },
        observed: Duration::from_secs(60),
        ..Usage::default()
    };
    let bill = per_hour(PriceBook::built_in().at("us-east-1"), &minute);
    assert_eq!(bill.to_string(), "$42.91");
}

#[test]
fn the_machine_is_on_the_bill_when_it_is_said() {
    let book = PriceBook::built_in();
    let with = |disk, instance: Option<&str>| {
        let instance = instance.map(str::to_owned);
        let host = Some(Host { instance, disk_bytes: 730 * GIB, disk });
        let usage = Usage { host, observed: Duration::from_secs(3600), ..Usage::default() };
        so_far(book.at("us-east-1"), &usage)
    };
    // 730 GB for one of 730 hours = 1 GB-month of gp3 at $0.08, and an hour of $2.496.
    let bill = with(DiskKind::Gp3, Some("i3.8xlarge"));
    assert_eq!(amounts(&bill)[5..], [Some(80_000_000), Some(2_496_000_000)]);
    let bill = with(DiskKind::InstanceStore, Some("i3.8xlarge"));
    assert_eq!(amounts(&bill)[5..], [Some(0), Some(2_496_000_000)]);
    let bill = with(DiskKind::Unknown, Some("x9.huge"));
    assert_eq!((&amounts(&bill)[5..], bill.complete), (&[None, None][..], false));
    assert_eq!(amounts(&with(DiskKind::Io2, None))[5..], [Some(125_000_000), None]);
}

#[test]
fn the_promise_in_the_settings_holds() {
    // One PUT a second for a month of 730 hours = 2,628,000 x $0.000005 = $13.14.
    let book = PriceBook::built_in();
    let requests = Requests { put: 730 * 3600, ..Requests::default() };
    let bill = so_far(book.at("us-east-1"), &Usage { requests, ..Usage::default() });
    assert_eq!(bill.total, NanoUsd(13_140_000_000));
}

#[test]
fn seoul_has_its_own_prices() {
    // 100 GB x $0.025 = $2.50 a month; 1,000 PUTs = $0.0045; 1,000 GETs = $0.00035.
    let book = PriceBook::built_in();
    let requests = Requests { put: 1000, get: 1000, delete: 0 };
    let observed = Duration::from_secs(730 * 3600);
    let usage = Usage { stored_bytes: 100 * GIB, requests, observed, ..Usage::default() };
    let bill = so_far(book.at("ap-northeast-2"), &usage);
    let expected = [2_500_000_000, 4_500_000, 350_000, 0, 0].map(Some);
    assert_eq!(amounts(&bill), expected);
    assert_eq!(bill.region, "ap-northeast-2");
}

#[test]
fn unknown_is_never_zero() {
    let book = PriceBook::built_in();
    let usage = Usage { out_bytes: 1, ..Usage::default() };
    let bill = so_far(book.at("ap-northeast-1"), &usage);
    assert_eq!(bill.lines[4].amount, None);
    assert!(!bill.complete);
    assert_eq!(bill.to_string(), "unknown");

    let nowhere = month(book.at("moon-1"), 1);
    assert_eq!((nowhere.lines[0].amount, nowhere.complete), (None, false));
    assert!(month(book.at("moon-1"), 0).complete, "nothing stored costs nothing");
}

proptest! {
    #[test]
    fn a_cheaper_price_never_makes_a_dearer_bill(
        dear in 0.0..10.0_f64,
        part in 0.0..1.0_f64,
        stored_bytes in 0..1_u64 << 50,
        get in 0..1_u64 << 40,
        seconds in 0..100_000_000_u64,
    ) {
        let usage = Usage {
            stored_bytes,
            requests: Requests { get, ..Requests::default() },
            observed: Duration::from_secs(seconds),
            ..Usage::default()
        };
        let book = |usd: f64| {
            let entry = |item: &str| format!(
                r#"{{"region": "here", "item": "{item}", "usd": {usd}, "source": "test",
                     "confidence": "unsourced"}}"#
            );
            let entries = format!("{}, {}", entry("s3.storage"), entry("s3.get"));
            let text = format!(r#"{{"schema": "weir-prices/2", "prices": [{entries}]}}"#);
            PriceBook::from_json(&text).expect("sound")
        };
        for bill in [so_far, per_month] {
            let cheap = bill(book(dear * part).at("here"), &usage).total;
            prop_assert!(cheap <= bill(book(dear).at("here"), &usage).total);
        }
    }
}
