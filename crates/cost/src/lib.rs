//! What storage costs: a price book, and bills made from it.
//!
//! Counts of requests and bytes flow in, priced lines flow out. Everything here is pure: whoever
//! counts also says how long it watched.
//!
//! What must always hold: a price that is not known is never taken for zero. It stays unknown on
//! its line, and a bill with such a line says that its total is only what is known.

mod bill;
mod price_book;

pub use bill::{Bill, DiskKind, Host, Line, Requests, Usage, month, per_month, so_far};
pub use price_book::{Confidence, Entry, Item, Price, PriceBook, PriceBookError, PriceRow, Prices};
