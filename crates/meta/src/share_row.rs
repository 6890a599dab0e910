//! The names of the rows by which nodes keep to limits together ([`Meta::share_rows`](crate::Meta)).

use crate::session::SessionId;

/// Which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareRow {
    /// Who has what of the limit of this number.
    Account(u64),
    /// What a session has of all of them.
    Held(SessionId),
    /// What a session did.
    Did(SessionId),
    /// What sessions did that are settled.
    DidBefore,
}
