//! What object storage costs, and how fast it is: a price book and bills made from it; models of
//! the storage services, and the published measurements that they are tested on.
//!
//! Counts of requests and bytes flow in, priced lines flow out; a workload flows in, its run time
//! flows out. Everything here is pure: whoever counts also says how long it watched.
//!
//! What must always hold: a price that is not known is never taken for zero. It stays unknown on
//! its line, and a bill with such a line says that its total is only what is known.

pub mod backtest;
mod bill;
mod price_book;
pub mod simulate;
mod storage;
mod workload;

pub use bill::{Bill, Line, Requests, Usage, month, so_far};
pub use price_book::{Confidence, Price, PriceBook, PriceBookError, S3Prices};
pub use storage::Storage;
pub use workload::{Machine, Workload};
