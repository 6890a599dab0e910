//! The experiments.

mod aligner;
mod blast;
mod credit_drain;
mod files;
mod fio;
mod genome;
mod hydrate;
mod metadata;
mod outside;
mod phase;
#[cfg(test)]
mod testing;

use crate::suite::Suite;

pub use files::{Content, Files, Shape, dd_large, dummy_files, small_files};
pub use metadata::Metadata;

/// All suites, in the order in which they run.
pub fn all() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(dd_large()),
        Box::new(small_files()),
        Box::new(dummy_files()),
        Box::new(Metadata::default()),
        Box::new(fio::Sequential),
        Box::new(fio::Random),
        Box::new(credit_drain::CreditDrain),
        Box::new(blast::Blast),
        Box::new(hydrate::Hydrate),
        Box::new(aligner::Aligner),
    ]
}
