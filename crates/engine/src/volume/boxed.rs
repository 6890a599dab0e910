//! What the engine answers to those above it.

use std::pin::Pin;

use super::locks::apart;

/// A future of the engine: in a box, so that it is compiled here, and not anew in each crate and
/// test that awaits it.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Puts an answer in its box. Callers may await several side by side.
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> Boxed<'a, T> {
    Box::pin(apart(future))
}
