//! The operations, by what they are about. Each reads its arguments, does what it says, and writes its result
//! behind the status.

mod attrs;
mod delegations;
mod directories;
mod handles;
mod io;
mod locks;
mod names;
mod opens;
mod ranges;
mod sessions;
mod states;
mod xattrs;

pub(crate) use locks::Denied;
