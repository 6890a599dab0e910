//! What storage costs, and how fast it is: a price book and bills, what the same work would cost
//! elsewhere, advice, and the models behind it with the measurements that they are tested on.
//!
//! Counts of requests and bytes flow in, priced lines flow out; a workload flows in, its run time
//! flows out. Everything here is pure: whoever counts also says how long it watched.
//!
//! What must always hold: a price that is not known is never taken for zero. It stays unknown on
//! its line, and a bill with such a line says that its total is only what is known.

mod advise;
pub mod backtest;
mod bill;
mod charges;
mod classes;
mod fleet;
mod machines;
pub mod page;
mod polls;
mod price_book;
mod restores;
mod shadow;
pub mod simulate;
mod storage;
mod storage_name;
mod workload;

pub use advise::{
    Advice, BreakEven, Choice, Options, Recommendation, Refusal, Stretch, advise, efs_beside_fsx,
    html, table,
};
pub use bill::{
    Amount, Bill, ColdUsage, DiskKind, Host, Line, Requests, Restored, Usage, month, per_hour,
    per_month, so_far,
};
pub use classes::{MovesPrice, price_moves};
pub use fleet::{Model, RunTime, predicted};
pub use machines::{machine, machines};
pub use polls::{lists_of, polls_per_month};
pub use price_book::{
    Change, ChangeKind, ClassItems, Confidence, Entry, Found, Item, Offer, OfferError, Price,
    PriceBook, PriceBookError, PriceRow, Prices, Refused, Take, read_offer,
};
pub use restores::price_restores;
pub use shadow::{Activity, Shadow, shadow};
pub use storage::Storage;
pub use workload::{Machine, Workload};
