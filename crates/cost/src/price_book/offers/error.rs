//! Why a price list could not be read.

use thiserror::Error;

use super::offer::codes;

/// Why a price list could not be read.
#[derive(Debug, Error)]
pub enum OfferError {
    /// It could not be read from where it is.
    #[error("the price list ends early: {0}; fetch it again")]
    Read(#[from] std::io::Error),
    /// It is something else.
    #[error("this is no AWS price list (index.csv): {0}")]
    NotAnOffer(String),
    /// It is the list of a service that nothing is read from.
    #[error("nothing is read from the price list `{0}`; there are {codes}", codes = codes())]
    OtherOffer(String),
    /// It does not have a column that tells its rows apart.
    #[error("the price list has no column `{0}`: AWS changed its form, so that nothing is read")]
    Column(&'static str),
    /// A row is broken, as the last one of a file that was cut off.
    #[error("line {line} of the price list is broken: {why}; was the file cut off? fetch it again")]
    Row {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// It has no rows of the region.
    #[error("the price list is of `{found}` and has no row of `{wanted}`")]
    Region {
        /// The region that was asked for.
        wanted: String,
        /// A region that it has.
        found: String,
    },
    /// It has no rows at all.
    #[error("the price list has columns and no row on demand; fetch it again")]
    Empty,
    /// Its prices are in another currency.
    #[error("line {line} of the price list is in `{found}`; prices are kept in USD")]
    Currency {
        /// The line, from 1.
        line: u64,
        /// The currency.
        found: String,
    },
}
