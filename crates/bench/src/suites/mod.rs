//! The suites.

mod aligner;
mod blast;
mod cold;
mod fio;
mod genome;
#[cfg(test)]
mod testing;

use crate::suite::Suite;

/// The suites that run other programs.
pub fn external() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(fio::Sequential),
        Box::new(fio::Random),
        Box::new(blast::Blast),
        Box::new(aligner::Aligner),
    ]
}
