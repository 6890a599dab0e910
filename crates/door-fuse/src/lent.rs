//! What the kernel may remember where other nodes change the volume, too: names and attributes on which this
//! node has leases.
//!
//! A name is lent if there is a lease on its directory and one on what it leads to. When either is lost the
//! kernel is told: its attributes are void, and so are all names that it knows, at once. That takes no lock
//! of the kernel's: one that forgets a single name waits for whoever works in the directory, who may wait
//! for another node, which may wait for this one.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use weir_types::Ino;

/// What was lent.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// The kernel can be told that all names are void.
    pub(crate) may: AtomicBool,
    /// Held for reading while something lent is sent to the kernel.
    pub(crate) sending: RwLock<()>,
    /// The directories of lent names, and what these lead to.
    pub(crate) inos: Mutex<HashSet<Ino>>,
}
