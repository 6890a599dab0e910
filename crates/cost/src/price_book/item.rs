//! What can be bought, each with its unit.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ArchiveClass, RestoreTier, StorageClass};

/// One thing that has a price. A GB is 2^30 bytes here, as AWS bills it, and an MB/s of throughput
/// is 2^20 bytes a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(rename = "PricedItem")]
pub enum Item {
    /// S3 Standard: keeping.
    S3Storage,
    /// S3 Standard: PUT, COPY and LIST.
    S3Put,
    /// S3 Standard: GET and HEAD.
    S3Get,
    /// S3 Standard: DELETE.
    S3Delete,
    /// S3: sending out of the region.
    S3TransferOut,
    /// S3 Standard-Infrequent Access: keeping.
    S3StandardIaStorage,
    /// S3 Standard-Infrequent Access: PUT, COPY and LIST.
    S3StandardIaPut,
    /// S3 Standard-Infrequent Access: GET and HEAD.
    S3StandardIaGet,
    /// S3 Standard-Infrequent Access: bytes of GETs.
    S3StandardIaRetrieve,
    /// S3 One Zone-Infrequent Access: keeping.
    S3OneZoneIaStorage,
    /// S3 One Zone-Infrequent Access: PUT, COPY and LIST.
    S3OneZoneIaPut,
    /// S3 One Zone-Infrequent Access: GET and HEAD.
    S3OneZoneIaGet,
    /// S3 One Zone-Infrequent Access: bytes of GETs.
    S3OneZoneIaRetrieve,
    /// S3 Glacier Instant Retrieval: keeping.
    S3GlacierInstantStorage,
    /// S3 Glacier Instant Retrieval: PUT, COPY and LIST.
    S3GlacierInstantPut,
    /// S3 Glacier Instant Retrieval: GET and HEAD.
    S3GlacierInstantGet,
    /// S3 Glacier Instant Retrieval: bytes of GETs.
    S3GlacierInstantRetrieve,
    /// S3: bytes restored from GLACIER, within minutes.
    S3RestoreExpedited,
    /// S3: requests to restore from GLACIER, within minutes.
    S3RestoreExpeditedRequests,
    /// S3: bytes restored from GLACIER, within hours.
    S3RestoreStandard,
    /// S3: requests to restore from GLACIER, within hours.
    S3RestoreStandardRequests,
    /// S3: bytes restored from GLACIER, within half a day.
    S3RestoreBulk,
    /// S3: requests to restore from GLACIER, within half a day.
    S3RestoreBulkRequests,
    /// S3: bytes restored from DEEP_ARCHIVE, within 12 hours.
    S3RestoreDeepStandard,
    /// S3: requests to restore from DEEP_ARCHIVE, within 12 hours.
    S3RestoreDeepStandardRequests,
    /// S3: bytes restored from DEEP_ARCHIVE, within 48 hours.
    S3RestoreDeepBulk,
    /// S3: requests to restore from DEEP_ARCHIVE, within 48 hours.
    S3RestoreDeepBulkRequests,
    /// S3 Express One Zone: keeping.
    S3ExpressStorage,
    /// S3 Express One Zone: PUT, COPY and LIST.
    S3ExpressPut,
    /// S3 Express One Zone: GET and HEAD.
    S3ExpressGet,
    /// S3 Express One Zone: bytes of PUTs.
    S3ExpressUpload,
    /// S3 Express One Zone: bytes of GETs.
    S3ExpressRetrieve,
    /// S3 Files: its hot storage.
    S3FilesStorage,
    /// S3 Files: bytes read through it.
    S3FilesRead,
    /// S3 Files: bytes written through it.
    S3FilesWrite,
    /// EFS Standard, regional: keeping.
    EfsStandard,
    /// EFS Standard, One Zone: keeping.
    EfsOneZone,
    /// EFS Infrequent Access with elastic throughput: keeping.
    EfsIaElastic,
    /// EFS Infrequent Access with bursting or provisioned throughput: keeping.
    EfsIa,
    /// EFS Infrequent Access: reading.
    EfsIaRead,
    /// EFS Archive: keeping.
    EfsArchive,
    /// EFS elastic throughput: reading.
    EfsElasticRead,
    /// EFS elastic throughput: writing.
    EfsElasticWrite,
    /// EFS provisioned throughput above what the stored size includes.
    EfsProvisioned,
    /// FSx for Lustre: capacity of Scratch 2.
    FsxScratch2,
    /// FSx for Lustre: capacity of Persistent 1 SSD, 50 MB/s/TiB.
    FsxPersistent1At50,
    /// FSx for Lustre: capacity of Persistent 1 SSD, 100 MB/s/TiB.
    FsxPersistent1At100,
    /// FSx for Lustre: capacity of Persistent 1 SSD, 200 MB/s/TiB.
    FsxPersistent1At200,
    /// FSx for Lustre: capacity of Persistent 1 HDD, 12 MB/s/TiB.
    FsxHdd12,
    /// FSx for Lustre: capacity of Persistent 1 HDD, 40 MB/s/TiB.
    FsxHdd40,
    /// FSx for Lustre: capacity of Persistent 2, 125 MB/s/TiB.
    FsxPersistent2At125,
    /// FSx for Lustre: capacity of Persistent 2, 250 MB/s/TiB.
    FsxPersistent2At250,
    /// FSx for Lustre: capacity of Persistent 2, 500 MB/s/TiB.
    FsxPersistent2At500,
    /// FSx for Lustre: capacity of Persistent 2, 1,000 MB/s/TiB.
    FsxPersistent2At1000,
    /// FSx for Lustre: metadata IOPS that are set by the user.
    FsxMetadataIops,
    /// FSx for Lustre: backups.
    FsxBackup,
    /// EBS gp3: size.
    Gp3Storage,
    /// EBS gp3: IOPS above 3,000.
    Gp3Iops,
    /// EBS gp3: throughput above 125 MiB/s.
    Gp3Throughput,
    /// EBS io2: size.
    Io2Storage,
    /// EBS io2: the first 32,000 IOPS.
    Io2Iops,
    /// EBS io2: IOPS above 32,000.
    Io2IopsAbove32k,
    /// An EC2 instance of this type, on demand, running Linux.
    Instance(String),
}

/// What an object in a storage class of S3 costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassItems {
    /// Keeping it.
    pub keep: Item,
    /// Putting it there, by a PUT or a COPY.
    pub put: Item,
    /// Asking for it.
    pub get: Item,
    /// Its bytes, when they are read; none: they cost nothing.
    pub retrieve: Option<Item>,
}

const GB_MONTH: &str = "GB-month";
const GB: &str = "GB";
const THOUSAND: &str = "1,000 requests";
const IOPS_MONTH: &str = "IOPS-month";
const MIBPS_MONTH: &str = "MiB/s-month";
const INSTANCE: &str = "ec2.";

/// Each item but the instances: its name in price books, and its unit.
const CATALOGUE: [(Item, &str, &str); 62] = [
    (Item::S3Storage, "s3.storage", GB_MONTH),
    (Item::S3Put, "s3.put", THOUSAND),
    (Item::S3Get, "s3.get", THOUSAND),
    (Item::S3Delete, "s3.delete", THOUSAND),
    (Item::S3TransferOut, "s3.transfer-out", GB),
    (Item::S3StandardIaStorage, "s3.standard-ia.storage", GB_MONTH),
    (Item::S3StandardIaPut, "s3.standard-ia.put", THOUSAND),
    (Item::S3StandardIaGet, "s3.standard-ia.get", THOUSAND),
    (Item::S3StandardIaRetrieve, "s3.standard-ia.retrieve", GB),
    (Item::S3OneZoneIaStorage, "s3.one-zone-ia.storage", GB_MONTH),
    (Item::S3OneZoneIaPut, "s3.one-zone-ia.put", THOUSAND),
    (Item::S3OneZoneIaGet, "s3.one-zone-ia.get", THOUSAND),
    (Item::S3OneZoneIaRetrieve, "s3.one-zone-ia.retrieve", GB),
    (Item::S3GlacierInstantStorage, "s3.glacier-instant.storage", GB_MONTH),
    (Item::S3GlacierInstantPut, "s3.glacier-instant.put", THOUSAND),
    (Item::S3GlacierInstantGet, "s3.glacier-instant.get", THOUSAND),
    (Item::S3GlacierInstantRetrieve, "s3.glacier-instant.retrieve", GB),
    (Item::S3RestoreExpedited, "s3.restore.expedited", GB),
    (Item::S3RestoreExpeditedRequests, "s3.restore.expedited-requests", THOUSAND),
    (Item::S3RestoreStandard, "s3.restore.standard", GB),
    (Item::S3RestoreStandardRequests, "s3.restore.standard-requests", THOUSAND),
    (Item::S3RestoreBulk, "s3.restore.bulk", GB),
    (Item::S3RestoreBulkRequests, "s3.restore.bulk-requests", THOUSAND),
    (Item::S3RestoreDeepStandard, "s3.restore.deep-standard", GB),
    (Item::S3RestoreDeepStandardRequests, "s3.restore.deep-standard-requests", THOUSAND),
    (Item::S3RestoreDeepBulk, "s3.restore.deep-bulk", GB),
    (Item::S3RestoreDeepBulkRequests, "s3.restore.deep-bulk-requests", THOUSAND),
    (Item::S3ExpressStorage, "s3-express.storage", GB_MONTH),
    (Item::S3ExpressPut, "s3-express.put", THOUSAND),
    (Item::S3ExpressGet, "s3-express.get", THOUSAND),
    (Item::S3ExpressUpload, "s3-express.upload", GB),
    (Item::S3ExpressRetrieve, "s3-express.retrieve", GB),
    (Item::S3FilesStorage, "s3-files.storage", GB_MONTH),
    (Item::S3FilesRead, "s3-files.read", GB),
    (Item::S3FilesWrite, "s3-files.write", GB),
    (Item::EfsStandard, "efs.standard", GB_MONTH),
    (Item::EfsOneZone, "efs.one-zone", GB_MONTH),
    (Item::EfsIaElastic, "efs.ia-elastic", GB_MONTH),
    (Item::EfsIa, "efs.ia", GB_MONTH),
    (Item::EfsIaRead, "efs.ia-read", GB),
    (Item::EfsArchive, "efs.archive", GB_MONTH),
    (Item::EfsElasticRead, "efs.elastic-read", GB),
    (Item::EfsElasticWrite, "efs.elastic-write", GB),
    (Item::EfsProvisioned, "efs.provisioned", MIBPS_MONTH),
    (Item::FsxScratch2, "fsx.scratch-2", GB_MONTH),
    (Item::FsxPersistent1At50, "fsx.persistent-1-50", GB_MONTH),
    (Item::FsxPersistent1At100, "fsx.persistent-1-100", GB_MONTH),
    (Item::FsxPersistent1At200, "fsx.persistent-1-200", GB_MONTH),
    (Item::FsxHdd12, "fsx.hdd-12", GB_MONTH),
    (Item::FsxHdd40, "fsx.hdd-40", GB_MONTH),
    (Item::FsxPersistent2At125, "fsx.persistent-2-125", GB_MONTH),
    (Item::FsxPersistent2At250, "fsx.persistent-2-250", GB_MONTH),
    (Item::FsxPersistent2At500, "fsx.persistent-2-500", GB_MONTH),
    (Item::FsxPersistent2At1000, "fsx.persistent-2-1000", GB_MONTH),
    (Item::FsxMetadataIops, "fsx.metadata-iops", IOPS_MONTH),
    (Item::FsxBackup, "fsx.backup", GB_MONTH),
    (Item::Gp3Storage, "ebs.gp3", GB_MONTH),
    (Item::Gp3Iops, "ebs.gp3-iops", IOPS_MONTH),
    (Item::Gp3Throughput, "ebs.gp3-throughput", MIBPS_MONTH),
    (Item::Io2Storage, "ebs.io2", GB_MONTH),
    (Item::Io2Iops, "ebs.io2-iops", IOPS_MONTH),
    (Item::Io2IopsAbove32k, "ebs.io2-iops-above-32k", IOPS_MONTH),
];

impl Item {
    /// All items but the instances, which have as many names as EC2 has types.
    pub fn all() -> impl Iterator<Item = Item> {
        CATALOGUE.iter().map(|(item, ..)| item.clone())
    }

    /// What its price is the price of one of.
    pub fn unit(&self) -> &'static str {
        self.listed().map_or("hour", |(_, unit)| unit)
    }

    /// What an object in a storage class costs.
    pub fn of_class(class: StorageClass) -> ClassItems {
        let of = |keep, put, get, retrieve| ClassItems { keep, put, get, retrieve };
        match class {
            StorageClass::Standard => of(Item::S3Storage, Item::S3Put, Item::S3Get, None),
            StorageClass::StandardIa => of(
                Item::S3StandardIaStorage,
                Item::S3StandardIaPut,
                Item::S3StandardIaGet,
                Some(Item::S3StandardIaRetrieve),
            ),
            StorageClass::OnezoneIa => of(
                Item::S3OneZoneIaStorage,
                Item::S3OneZoneIaPut,
                Item::S3OneZoneIaGet,
                Some(Item::S3OneZoneIaRetrieve),
            ),
            StorageClass::GlacierIr => of(
                Item::S3GlacierInstantStorage,
                Item::S3GlacierInstantPut,
                Item::S3GlacierInstantGet,
                Some(Item::S3GlacierInstantRetrieve),
            ),
        }
    }

    /// What restoring an object out of an archive class costs: its bytes, and the request. None where that is free.
    pub(crate) fn of_restore(class: ArchiveClass, tier: RestoreTier) -> Option<(Item, Item)> {
        match (class, tier) {
            // Source: Amazon S3 User Guide, "Archive retrieval options".
            (ArchiveClass::IntelligentTiering, RestoreTier::Standard | RestoreTier::Bulk) => None,
            (ArchiveClass::DeepArchive, RestoreTier::Bulk) => {
                Some((Item::S3RestoreDeepBulk, Item::S3RestoreDeepBulkRequests))
            }
            (ArchiveClass::DeepArchive, _) => {
                Some((Item::S3RestoreDeepStandard, Item::S3RestoreDeepStandardRequests))
            }
            (_, RestoreTier::Expedited) => {
                Some((Item::S3RestoreExpedited, Item::S3RestoreExpeditedRequests))
            }
            (_, RestoreTier::Standard) => {
                Some((Item::S3RestoreStandard, Item::S3RestoreStandardRequests))
            }
            (_, RestoreTier::Bulk) => Some((Item::S3RestoreBulk, Item::S3RestoreBulkRequests)),
        }
    }

    fn listed(&self) -> Option<(&'static str, &'static str)> {
        let found = CATALOGUE.iter().find(|(item, ..)| item == self);
        found.map(|(_, name, unit)| (*name, *unit))
    }
}

impl fmt::Display for Item {
    /// Its name in price books.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Instance(instance) => write!(f, "{INSTANCE}{instance}"),
            // A test holds that each is listed.
            _ => f.write_str(self.listed().map_or("?", |(name, _)| name)),
        }
    }
}

impl FromStr for Item {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.strip_prefix(INSTANCE) {
            Some(instance) if !instance.is_empty() => Ok(Item::Instance(instance.to_owned())),
            _ => CATALOGUE
                .iter()
                .find(|(_, listed, _)| *listed == name)
                .map(|(item, ..)| item.clone())
                .ok_or_else(|| format!("no item is called `{name}`")),
        }
    }
}

impl TryFrom<String> for Item {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Item> for String {
    fn from(item: Item) -> String {
        item.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_items() {
        let instance = Item::Instance("r6i.24xlarge".to_owned());
        assert_eq!((instance.to_string().as_str(), instance.unit()), ("ec2.r6i.24xlarge", "hour"));
        for item in Item::all().chain([instance]) {
            assert_eq!(item.to_string().parse(), Ok(item));
        }
        for bad in ["", "ec2.", "s3.puts", "?"] {
            assert!(bad.parse::<Item>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_catalogue_holds_each_item_once() {
        for (at, (item, name, _)) in CATALOGUE.iter().enumerate() {
            let same =
                |(other, other_name, _): &(Item, &str, &str)| other == item || other_name == name;
            assert!(!CATALOGUE[..at].iter().any(same), "{name}");
        }
    }
}
