//! The price book: what each unit costs, where, since when, and who says so.
//!
//! A book is a list of entries, each one item in one region. What it does not list is unknown.

mod book;
mod dollars;
mod entry;
mod item;
mod offers;
mod update;
mod v1;

pub use book::{PriceBook, PriceBookError, PriceRow, Prices};
pub use entry::{Confidence, Entry, Price};
pub use item::{ClassItems, Item};
pub use offers::{Found, Offer, OfferError, Refused, read_offer};
pub use update::{Change, ChangeKind, Take};
