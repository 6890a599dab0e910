//! Receipts: a row that a door has kept by the very commit that changes a name or an attribute, so that whoever comes after a
//! crash knows whether the change was made.

use bytes::Bytes;

use crate::keys;
use crate::op::Tx;

/// A row for [`Meta::kept`](crate::Meta::kept): its name, of 1 to 255 bytes, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its name.
    pub name: String,
    /// What is kept under it.
    pub value: Bytes,
}

tokio::task_local! {
    static WANTED: Receipt;
}

/// Does some work of this task. The commits of it that make a name, link it, move it or remove it, or set or remove an
/// extended attribute, keep the receipt as well. What fails, or changes nothing, leaves none. No request more.
pub async fn with_receipt<F: Future>(receipt: Receipt, work: F) -> F::Output {
    WANTED.scope(receipt, work).await
}

impl Tx {
    /// Keeps the receipt that is wanted, if one is.
    pub(crate) fn keep_receipt(&mut self) {
        let _ = WANTED.try_with(|receipt| {
            self.put(keys::kept(&receipt.name), receipt.value.clone());
        });
    }
}
