//! What the server remembers of its clients: who they are, what they have open and locked.
//!
//! All of it is in memory, but for who may come back after a restart (`grace`). Nothing here waits.

pub(crate) mod back;
pub(crate) mod clients;
pub(crate) mod delegations;
pub(crate) mod done;
pub(crate) mod grace;
pub(crate) mod held;
pub(crate) mod locks;
pub(crate) mod opens;
pub(crate) mod records;
pub(crate) mod rows;
pub(crate) mod sessions;
pub(crate) mod stateid;
