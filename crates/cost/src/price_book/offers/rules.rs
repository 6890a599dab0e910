//! Which row of an offer file is the price of which item.
//!
//! Rows are known by their usage type without its region, such as `Requests-Tier1` for
//! `APN2-Requests-Tier1`, and by what else tells them apart.

use super::super::item::Item;
use super::offer::Offer;
use super::table::Row;

/// What a row must say, by column.
type Says = &'static [(&'static str, &'static str)];

/// Item, usage type, and what else its row says.
type Rule = (Item, &'static str, Says);

const SSD: Says = &[("File System Type", "Lustre"), ("Storage Type", "SSD")];
const HDD: Says = &[("File System Type", "Lustre"), ("Storage Type", "HDD")];
const LUSTRE: Says = &[("File System Type", "Lustre")];
const READ: Says = &[("Access Type", "Read")];
const WRITE: Says = &[("Access Type", "Write")];

const S3: [Rule; 20] = [
    (Item::S3Storage, "TimedStorage-ByteHrs", &[("Storage Class", "General Purpose")]),
    (Item::S3Put, "Requests-Tier1", &[("Group", "S3-API-Tier1")]),
    (Item::S3Get, "Requests-Tier2", &[("Group", "S3-API-Tier2")]),
    (Item::S3StandardIaStorage, "TimedStorage-SIA-ByteHrs", &[]),
    (Item::S3StandardIaPut, "Requests-SIA-Tier1", &[]),
    (Item::S3StandardIaGet, "Requests-SIA-Tier2", &[]),
    (Item::S3StandardIaRetrieve, "Retrieval-SIA", &[]),
    (Item::S3OneZoneIaStorage, "TimedStorage-ZIA-ByteHrs", &[]),
    (Item::S3OneZoneIaPut, "Requests-ZIA-Tier1", &[]),
    (Item::S3OneZoneIaGet, "Requests-ZIA-Tier2", &[]),
    (Item::S3OneZoneIaRetrieve, "Retrieval-ZIA", &[]),
    (Item::S3GlacierInstantStorage, "TimedStorage-GIR-ByteHrs", &[]),
    (Item::S3GlacierInstantPut, "Requests-GIR-Tier1", &[]),
    (Item::S3GlacierInstantGet, "Requests-GIR-Tier2", &[]),
    (Item::S3GlacierInstantRetrieve, "Retrieval-GIR", &[]),
    (Item::S3ExpressStorage, "TimedStorage-XZ-ByteHrs", &[]),
    (Item::S3ExpressPut, "Requests-XZ-Tier1", &[]),
    (Item::S3ExpressGet, "Requests-XZ-Tier2", &[]),
    (Item::S3ExpressUpload, "Upload-XZ", &[]),
    (Item::S3ExpressRetrieve, "Retrieval-XZ", &[]),
];

const EFS: [Rule; 9] = [
    (Item::EfsStandard, "TimedStorage-ByteHrs", &[]),
    (Item::EfsOneZone, "TimedStorage-Z-ByteHrs", &[]),
    (Item::EfsIaElastic, "IATimedStorage-ET-ByteHrs", &[]),
    (Item::EfsIa, "IATimedStorage-ByteHrs", &[]),
    (Item::EfsIaRead, "IADataAccess-Bytes", READ),
    (Item::EfsArchive, "ArchiveTimedStorage-ByteHrs", &[]),
    (Item::EfsElasticRead, "ETDataAccess-Bytes", READ),
    (Item::EfsElasticWrite, "ETDataAccess-Bytes", WRITE),
    (Item::EfsProvisioned, "ProvisionedTP-MiBpsHrs", &[]),
];

const FSX: [Rule; 12] = [
    (Item::FsxScratch2, "Storage", SSD),
    (Item::FsxPersistent1At50, "Storage.SSD.50", SSD),
    (Item::FsxPersistent1At100, "Storage.SSD.100", SSD),
    (Item::FsxPersistent1At200, "Storage.SSD.200", SSD),
    (Item::FsxHdd12, "Storage.HDD.12", HDD),
    (Item::FsxHdd40, "Storage.HDD.40", HDD),
    (Item::FsxPersistent2At125, "Storage.SSD.125", SSD),
    (Item::FsxPersistent2At250, "Storage.SSD.250", SSD),
    (Item::FsxPersistent2At500, "Storage.SSD.500", SSD),
    (Item::FsxPersistent2At1000, "Storage.SSD.1000", SSD),
    (Item::FsxMetadataIops, "MetadataIOPS", LUSTRE),
    (Item::FsxBackup, "BackupUsage", LUSTRE),
];

const EBS: [Rule; 6] = [
    (Item::Gp3Storage, "EBS:VolumeUsage.gp3", &[("Volume API Name", "gp3")]),
    (Item::Gp3Iops, "EBS:VolumeP-IOPS.gp3", &[("Volume API Name", "gp3")]),
    (Item::Gp3Throughput, "EBS:VolumeP-Throughput.gp3", &[("Volume API Name", "gp3")]),
    (Item::Io2Storage, "EBS:VolumeUsage.io2", &[("Volume API Name", "io2")]),
    (Item::Io2Iops, "EBS:VolumeP-IOPS.io2", &[("Volume API Name", "io2")]),
    (Item::Io2IopsAbove32k, "EBS:VolumeP-IOPS.io2.tier2", &[("Volume API Name", "io2")]),
];

const TRANSFER: [Rule; 1] = [(
    Item::S3TransferOut,
    "DataTransfer-Out-Bytes",
    &[("Transfer Type", "AWS Outbound"), ("To Location", "External")],
)];

/// An instance is one on demand, on shared hardware, with Linux and nothing else on it.
const INSTANCE: Says = &[
    ("Product Family", "Compute Instance"),
    ("Operating System", "Linux"),
    ("Tenancy", "Shared"),
    ("Pre Installed S/W", "NA"),
    ("CapacityStatus", "Used"),
    ("operation", "RunInstances"),
];

/// How many of an offered unit make one of ours: our unit, theirs, and the factor.
const UNITS: [(&str, &str, f64); 9] = [
    ("GB-month", "GB-Mo", 1.0),
    ("GB-month", "GB-month", 1.0),
    ("GB", "GB", 1.0),
    ("GB", "GigaBytes", 1.0),
    ("1,000 requests", "Requests", 1000.0),
    ("IOPS-month", "IOPS-Mo", 1.0),
    ("MiB/s-month", "MiBps-Mo", 1.0),
    ("MiB/s-month", "GiBps-Mo", 1.0 / 1024.0),
    ("hour", "Hrs", 1.0),
];

/// The rules of an offer; EC2's instances have one rule for all.
fn rules(offer: Offer) -> &'static [Rule] {
    match offer {
        Offer::S3 => &S3,
        Offer::Efs => &EFS,
        Offer::Fsx => &FSX,
        Offer::Ec2 => &EBS,
        Offer::DataTransfer => &TRANSFER,
    }
}

/// All that an offer may price, these instance types among it.
pub(super) fn items(offer: Offer, instances: &[String]) -> Vec<Item> {
    let listed = rules(offer).iter().map(|(item, ..)| item.clone());
    let instances = instances.iter().filter(|_| offer == Offer::Ec2);
    listed.chain(instances.map(|of| Item::Instance(of.clone()))).collect()
}

/// The columns that tell an offer's rows apart, besides those that all files have.
pub(super) fn columns(offer: Offer) -> Vec<&'static str> {
    let says = rules(offer).iter().flat_map(|(.., says)| says.iter());
    let instance = INSTANCE.iter().filter(|_| offer == Offer::Ec2);
    let mut columns: Vec<&str> = says.chain(instance).map(|(column, _)| *column).collect();
    columns.push(offer.region_column());
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The item that this row prices, if it is one of ours.
pub(super) fn item(offer: Offer, row: &Row<'_>, instances: &[String]) -> Option<Item> {
    let usage = without_region(row.get("usageType"));
    let says = |says: Says| says.iter().all(|(column, value)| row.get(column) == *value);
    if let Some((item, ..)) = rules(offer).iter().find(|(_, of, also)| *of == usage && says(also)) {
        return Some(item.clone());
    }
    let instance = usage.strip_prefix("BoxUsage:").filter(|_| offer == Offer::Ec2)?;
    let wanted = instances.iter().any(|of| of == instance);
    // Blocks of capacity are sold by the hour, too, at prices of their own.
    let market = matches!(row.get("MarketOption"), "" | "OnDemand");
    (wanted && market && says(INSTANCE)).then(|| Item::Instance(instance.to_owned()))
}

/// What one of `item`'s units costs at so much for each of the offered unit.
pub(super) fn convert(item: &Item, usd: f64, offered: &str) -> Option<f64> {
    let unit = |(ours, theirs, _): &&(&str, &str, f64)| {
        *ours == item.unit() && theirs.eq_ignore_ascii_case(offered)
    };
    UNITS.iter().find(unit).map(|(.., factor)| usd * factor)
}

/// `Requests-Tier1` of `APN2-Requests-Tier1`. Ireland is `EU`, and Virginia may have no prefix.
fn without_region(usage: &str) -> &str {
    let Some((region, rest)) = usage.split_once('-') else { return usage };
    let letters = region.trim_end_matches(|c: char| c.is_ascii_digit());
    let code = letters.len() == 3 && region.len() == 4;
    let upper = letters.bytes().all(|c| c.is_ascii_uppercase());
    if region == "EU" || (code && upper) { rest } else { usage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_types_are_the_same_in_all_regions() {
        for (usage, plain) in [
            ("APN2-Requests-Tier1", "Requests-Tier1"),
            ("EU-TimedStorage-ByteHrs", "TimedStorage-ByteHrs"),
            ("TimedStorage-ByteHrs", "TimedStorage-ByteHrs"),
            ("Upload-XZ", "Upload-XZ"),
            ("USE1-BOS1-EBS:VolumeUsage.gp3", "BOS1-EBS:VolumeUsage.gp3"),
            ("USW2-Storage", "Storage"),
        ] {
            assert_eq!(without_region(usage), plain);
        }
    }

    #[test]
    fn each_item_is_in_one_offer_but_what_no_list_has() {
        for item in Item::all() {
            let offers = Offer::ALL.into_iter().filter(|of| items(*of, &[]).contains(&item));
            assert!(offers.count() <= 1, "{item}");
        }
        let unlisted =
            [Item::S3Delete, Item::S3FilesStorage, Item::S3FilesRead, Item::S3FilesWrite];
        let mut found = Offer::unlisted();
        // No list that we have says by which usage type restored bytes are paid.
        found.retain(|item| !item.to_string().starts_with("s3.restore."));
        assert_eq!(found, unlisted);
    }
}
