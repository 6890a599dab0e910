//! How near its end a daemon is.

/// How near its end a daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// It runs.
    No,
    /// It takes nothing new, and waits for those who use its devices.
    Asked,
    /// It waits for nobody.
    Forced,
}
