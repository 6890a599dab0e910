//! Which headers requests and replies have.

/// Which headers a connection has agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// One reply to each request.
    #[default]
    Simple,
    /// Replies in chunks that tell their own length.
    Structured,
    /// As structured, with lengths of 64 bits both ways.
    Extended,
}
