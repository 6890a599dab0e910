//! What clients did, by the address that they came from and the export that they were in: also of those that are
//! gone.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::options::Export;

/// Rows that are kept at most; what comes then is counted in the row of all others.
const ROWS_MAX: usize = 10_000;

/// What came from one address to one export since the server began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UseView {
    /// The address; `None` is all for which there was no row any more.
    #[schemars(with = "Option<String>")]
    pub address: Option<IpAddr>,
    /// What the export was called when it was used first. Empty: `host:/`.
    pub export: String,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of files that were read.
    pub bytes_read: u64,
    /// Bytes of files that were written.
    pub bytes_written: u64,
}

/// What one request did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Did {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// All rows, by address and by the number of the export.
#[derive(Default)]
pub(crate) struct Uses {
    rows: Mutex<HashMap<(Option<IpAddr>, u32), UseView>>,
}

impl Uses {
    /// Counts a request.
    pub(crate) fn count(&self, address: IpAddr, export: &Export, did: Did) {
        let mut rows = self.rows.lock();
        let key = (Some(address), export.id);
        let is_full = rows.len() >= ROWS_MAX && !rows.contains_key(&key);
        let (address, id) = if is_full { (None, 0) } else { key };
        let row = rows.entry((address, id)).or_insert_with(|| UseView {
            address,
            export: if is_full { String::new() } else { export.name.clone() },
            requests: 0,
            bytes_read: 0,
            bytes_written: 0,
        });
        row.requests += 1;
        row.bytes_read += did.bytes_read;
        row.bytes_written += did.bytes_written;
    }

    /// All of them, by address.
    pub(crate) fn all(&self) -> Vec<UseView> {
        let mut all: Vec<_> = self.rows.lock().values().cloned().collect();
        all.sort_by(|a, b| (a.address, &a.export).cmp(&(b.address, &b.export)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_and_nothing_is_lost() {
        let (uses, whole) = (Uses::default(), Export::whole());
        let other = Export { id: 1, name: "other".into(), ..Export::whole() };
        let did = Did { bytes_read: 2, bytes_written: 1 };
        let address = |at: usize| IpAddr::from((at as u32).to_be_bytes());
        for at in 0..ROWS_MAX + 5 {
            uses.count(address(at), &whole, did);
        }
        uses.count(address(0), &other, did);
        uses.count(address(0), &whole, did);
        let all = uses.all();
        assert_eq!(all.len(), ROWS_MAX + 1);
        assert_eq!((all[0].address, all[0].requests), (None, 6), "those for whom there was none");
        assert_eq!((all[1].requests, all[1].bytes_read, all[1].bytes_written), (2, 4, 2));
        let requests: u64 = all.iter().map(|row| row.requests).sum();
        assert_eq!(requests, ROWS_MAX as u64 + 7);
    }
}
