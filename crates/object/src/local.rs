//! A directory as an object store that survives a power cut.
//!
//! An object's bytes are synced and the directories that name it, also one that somebody else has
//! just made; deletes are synced; whoever loses the race to create an object knows it to be
//! durable. Updates on conditions take turns among processes. Listings are in the order of keys.
//! Attributes are kept only by this process, for a writer to know its own object after a lost
//! answer.
//!
//! A root that is not the directory it was (a disk that was unmounted, say) is a store that is
//! away: no object is put into what is left in its place, and none of those that were in it is
//! said to be gone. Nothing outside of the root is read or written, whatever is made in it
//! ([`beneath`]): each operation opens the root, sees that it is the one that it was, and goes from
//! there. (The library's own local store opens paths, and so follows links.)
//!
//! Temporary files and the lock end in `#` and digits, which listings leave out.

mod beneath;
mod change;
#[cfg(test)]
mod hostile;
mod parts;
mod root;
mod staged;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

pub(crate) use root::LocalStore;
