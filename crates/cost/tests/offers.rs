//! Price lists in AWS's form, read as prices. Where their rows are from: `offers/README.md`.

use std::io::BufReader;

use weir_cost::{
    Change, ChangeKind, Confidence, Found, Item, Offer, OfferError, PriceBook, Take, read_offer,
};

const S3: &str = include_str!("offers/s3-us-east-1.csv");
const EFS: &str = include_str!("offers/efs-ap-northeast-2.csv");
const FSX: &str = include_str!("offers/fsx-ap-northeast-2.csv");
const EC2: &str = include_str!("offers/ec2-ap-northeast-2.csv");
const TRANSFER: &str = include_str!("offers/transfer-us-east-1.csv");

const VIRGINIA: &str = "us-east-1";
const SEOUL: &str = "ap-northeast-2";

fn read(list: &str, region: &str) -> Result<Found, OfferError> {
    let instances = ["c5.2xlarge", "c6g.medium", "t2.micro", "r6i.24xlarge"];
    // Lines must not depend on what is read at once.
    let from = BufReader::with_capacity(7, list.as_bytes());
    read_offer(from, region, "list.csv", &instances.map(str::to_owned))
}

fn found(list: &str, region: &str) -> Found {
    read(list, region).expect("a sound list")
}

/// Each price as `name dollars`.
fn prices(found: &Found) -> Vec<String> {
    let entries = found.entries.iter();
    entries.map(|entry| format!("{} {}", entry.item, entry.price.usd.0 as f64 / 1e9)).collect()
}

fn names(items: &[Item]) -> Vec<String> {
    items.iter().map(Item::to_string).collect()
}

#[test]
fn s3_is_priced_by_its_first_tier_and_by_1000_requests() {
    let s3 = found(S3, VIRGINIA);
    let expected = [
        "s3.storage 0.023",
        "s3.put 0.005",
        "s3.get 0.0004",
        "s3.standard-ia.storage 0.0125",
        "s3.standard-ia.put 0.01",
        "s3.standard-ia.get 0.001",
        "s3.standard-ia.retrieve 0.01",
        "s3.one-zone-ia.storage 0.01",
        "s3.one-zone-ia.put 0.01",
        "s3.one-zone-ia.get 0.001",
        "s3.one-zone-ia.retrieve 0.01",
        "s3.glacier-instant.storage 0.004",
        "s3.glacier-instant.put 0.02",
        "s3.glacier-instant.get 0.01",
        "s3.glacier-instant.retrieve 0.03",
        "s3-express.storage 0.11",
        "s3-express.put 0.00113",
        "s3-express.get 0.00003",
        "s3-express.upload 0.0032",
        "s3-express.retrieve 0.0006",
    ];
    assert_eq!(prices(&s3), expected);
    assert_eq!((s3.offer, s3.published.as_str()), (Offer::S3, "2026-08-31T09:22:25Z"));
    assert!(s3.missing.is_empty() && s3.refused.is_empty(), "{s3:?}");
    let price = &s3.entries[0].price;
    assert_eq!(price.date.as_deref(), Some("2026-08-31"));
    assert_eq!(price.confidence, Confidence::Vendor);
    let source = "AWS price list AmazonS3, TimedStorage-ByteHrs, SKU WP9ANXZGBYYSGJEA, in list.csv";
    assert_eq!(price.source, source);
}

#[test]
fn efs_tells_reads_from_writes_and_sold_throughput_from_included() {
    let efs = found(EFS, SEOUL);
    let expected = [
        "efs.standard 0.33",
        "efs.one-zone 0.176",
        "efs.ia-elastic 0.02",
        "efs.ia 0.0272",
        "efs.ia-read 0.011",
        "efs.archive 0.01",
        "efs.elastic-read 0.03",
        "efs.elastic-write 0.07",
        "efs.provisioned 6.6",
    ];
    assert_eq!(prices(&efs), expected);
}

#[test]
fn what_fsx_does_not_list_is_named() {
    let fsx = found(FSX, SEOUL);
    let expected = [
        "fsx.scratch-2 0.165",
        "fsx.persistent-1-50 0.159",
        "fsx.persistent-1-100 0.216",
        "fsx.persistent-1-200 0.328",
        "fsx.hdd-12 0.027",
        "fsx.persistent-2-125 0.164",
        "fsx.persistent-2-250 0.237",
        "fsx.metadata-iops 0.062",
        "fsx.backup 0.05",
    ];
    assert_eq!(prices(&fsx), expected);
    let missing = ["fsx.hdd-40", "fsx.persistent-2-500", "fsx.persistent-2-1000"];
    assert_eq!(names(&fsx.missing), missing);
}

#[test]
fn ec2_is_read_for_the_named_types_on_shared_hardware_with_linux_alone() {
    let ec2 = found(EC2, SEOUL);
    let expected = [
        "ebs.gp3 0.0912",
        "ebs.gp3-iops 0.0057",
        "ebs.gp3-throughput 0.0456",
        "ebs.io2 0.1278",
        "ebs.io2-iops 0.0666",
        "ebs.io2-iops-above-32k 0.04662",
        "ec2.c5.2xlarge 0.384",
        "ec2.c6g.medium 0.0385",
        "ec2.t2.micro 0.0144",
    ];
    assert_eq!(prices(&ec2), expected);
    assert_eq!(names(&ec2.missing), ["ec2.r6i.24xlarge"]);
    let none = read_offer(EC2.as_bytes(), SEOUL, "list.csv", &[]).expect("reads");
    assert!(none.entries.iter().all(|entry| !matches!(entry.item, Item::Instance(_))));
}

#[test]
fn what_leaves_the_region_is_not_what_goes_to_another() {
    assert_eq!(prices(&found(TRANSFER, VIRGINIA)), ["s3.transfer-out 0.09"]);
    // A tier for nothing is no price.
    let paid = TRANSFER.lines().find(|line| line.contains("0.0900000000")).expect("there");
    let free =
        paid.replace("\"0\",\"10240\"", "\"0\",\"1\"").replace("0.0900000000", "0.0000000000");
    let list = TRANSFER.replace("\"0\",\"10240\"", "\"1\",\"10240\"") + &free + "\n";
    assert_eq!(prices(&found(&list, VIRGINIA)), ["s3.transfer-out 0.09"]);
}

/// What is wrong with a list is said.
#[test]
fn broken_lists_are_refused_with_their_reason() {
    let cut = |list: &str, less: usize| list[..list.len() - less].to_owned();
    let columns_only: Vec<&str> = S3.lines().take(6).collect();
    for (list, region, reason) in [
        (String::new(), VIRGINIA, "it is empty"),
        ("<!DOCTYPE html>\n<html>".to_owned(), VIRGINIA, "it is a web page"),
        ("\u{feff}{\"formatVersion\" : \"v1.0\",".to_owned(), VIRGINIA, "take index.csv"),
        ("\u{1f}\u{8b}".to_owned(), VIRGINIA, "compressed"),
        ("a,b\nc,d\n".to_owned(), VIRGINIA, "its first 2 lines name no column `SKU`"),
        (S3.replace("PricePerUnit", "Price"), VIRGINIA, "no column `PricePerUnit`"),
        (S3.replace("\"Group\"", "\"Kind\""), VIRGINIA, "no column `Group`"),
        (S3.replace("Region Code", "Place"), VIRGINIA, "no column `Region Code`"),
        (
            S3.replace("AmazonS3\"\n", "AmazonRDS\"\n"),
            VIRGINIA,
            "read from the price list `AmazonRDS`",
        ),
        (S3.replace("Publication Date", "Day"), VIRGINIA, "does not say its `Publication Date`"),
        (cut(S3, 30), VIRGINIA, "line 29 of the price list is broken"),
        (cut(S3, 2), VIRGINIA, "was the file cut off?"),
        (columns_only.join("\n"), VIRGINIA, "no row on demand"),
        (S3.to_owned(), SEOUL, "is of `us-east-1` and has no row of `ap-northeast-2`"),
        (S3.replace("USD", "CNY"), VIRGINIA, "line 7 of the price list is in `CNY`"),
        (S3.replace("0.0230000000", "cheap"), VIRGINIA, "its PricePerUnit is `cheap`"),
        (S3.replace("0.0230000000", "-1"), VIRGINIA, "its PricePerUnit is `-1`"),
    ] {
        let error = read(&list, region).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_list_without_a_last_line_end_and_of_all_regions_is_read() {
    let whole = found(S3, VIRGINIA);
    assert_eq!(found(S3.trim_end(), VIRGINIA), whole);
    assert_eq!(found(&S3.replace('\n', "\r\n"), VIRGINIA), whole);
    let elsewhere: String = S3.lines().skip(6).map(|line| line.to_owned() + "\n").collect();
    let elsewhere = elsewhere.replace(VIRGINIA, "eu-west-1").replace("0.02", "9.02");
    assert_eq!(found(&(S3.to_owned() + &elsewhere), VIRGINIA), whole);
}

/// Nothing is chosen between two prices, and nothing is converted by guess.
#[test]
fn what_is_not_understood_is_named_and_not_taken() {
    let put = S3.lines().find(|line| line.contains("E9YHNFENF4XQBZR6")).expect("there");
    let other = put.replace("E9YHNFENF4XQBZR6", "OTHER").replace("0.0000050000", "0.0000070000");
    let s3 = found(&format!("{S3}{other}\n"), VIRGINIA);
    assert_eq!(names(&[s3.refused[0].item.clone()]), ["s3.put"]);
    assert!(s3.refused[0].why.contains("two products"), "{}", s3.refused[0].why);
    assert!(!prices(&s3).iter().any(|price| price.starts_with("s3.put")));
    // A row for one operation only does not stand against the one for all.
    let one = other.replace("\"Requests-Tier1\",", "\"Requests-Tier1\",\"PutOfSomething\"");
    assert_eq!(prices(&found(&format!("{S3}{one}\n"), VIRGINIA)), prices(&found(S3, VIRGINIA)));

    let s3 = found(&S3.replace("\"Requests\"", "\"Dozens\""), VIRGINIA);
    let why: Vec<&str> = s3.refused.iter().map(|refused| refused.why.as_str()).collect();
    assert!(
        why.iter().all(|why| why.contains("its unit is `Dozens`")) && why.len() == 10,
        "{why:?}"
    );
    assert!(s3.missing.is_empty(), "what is refused is not missing: {:?}", s3.missing);
}

#[test]
fn a_list_that_was_misread_or_is_old_does_not_get_into_the_book() {
    let book = PriceBook::built_in();
    let left = |list: &str| {
        let (updated, changes) = book.updated(&found(list, VIRGINIA).entries, Take::Plausible);
        let left = changes.into_iter().filter(|change: &Change| !change.taken);
        (updated, left.map(|change| (change.item, change.kind)).collect::<Vec<_>>())
    };
    let get = |book: &PriceBook| book.at(VIRGINIA).of(&Item::S3Get).cloned();
    let newer = S3.replace("2026-08-31", "2026-12-31");
    let (updated, none) = left(&newer);
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(get(&updated).and_then(|price| price.date).as_deref(), Some("2026-12-31"));
    // As if its price were for a thousand requests already.
    let (updated, wrong) = left(&newer.replace("0.0000004000", "0.0004000000"));
    assert_eq!(wrong, [(Item::S3Get, ChangeKind::Suspicious)]);
    assert_eq!(get(&updated), get(&book));
    let (updated, old) = left(&S3.replace("2026-08-31", "2020-08-31"));
    assert!(old.len() == 20 && old.iter().all(|(_, kind)| *kind == ChangeKind::Older), "{old:?}");
    assert_eq!(updated, book);
}

#[test]
fn lists_are_fetched_by_region_from_where_aws_publishes_them() {
    let url = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/eu-west-1/index.csv";
    assert_eq!(Offer::S3.url("eu-west-1"), url);
}
