//! Price books of the first schema, which knew S3 only.

use serde::Deserialize;

use super::entry::{Entry, Price};
use super::item::Item;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Book {
    #[serde(rename = "schema")]
    _schema: String,
    s3: Vec<Region>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    region: String,
    storage_gb_month: Option<Price>,
    put_1k: Option<Price>,
    get_1k: Option<Price>,
    delete_1k: Option<Price>,
    transfer_out_gb: Option<Price>,
}

impl Book {
    /// The same prices as entries of today's schema.
    pub(super) fn entries(self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for of in self.s3 {
            for (item, price) in [
                (Item::S3Storage, of.storage_gb_month),
                (Item::S3Put, of.put_1k),
                (Item::S3Get, of.get_1k),
                (Item::S3Delete, of.delete_1k),
                (Item::S3TransferOut, of.transfer_out_gb),
            ] {
                let region = of.region.clone();
                entries.extend(price.map(|price| Entry { region, item, price }));
            }
        }
        entries
    }
}
