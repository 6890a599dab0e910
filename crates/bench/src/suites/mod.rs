//! The suites.

mod aligner;
mod blast;
mod cold;
mod credit_drain;
mod fio;
mod genome;
mod hydrate;
#[cfg(test)]
mod testing;

use crate::suite::Suite;

/// The suites that run other programs.
pub fn external() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(fio::Sequential),
        Box::new(fio::Random),
        Box::new(credit_drain::CreditDrain),
        Box::new(blast::Blast),
        Box::new(hydrate::Hydrate),
        Box::new(aligner::Aligner),
    ]
}
