//! Whose turn it is to serve a volume.

use serde::{Deserialize, Serialize};

/// The right to serve a volume after somebody else, or first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Whose turn was over: it was silent, and may live.
    pub(crate) silent: Option<Beat>,
}

impl Turn {
    /// Whether the volume has to be taken from somebody who may live.
    pub fn takes_over(&self) -> bool {
        self.silent.is_some()
    }
}

/// What one says who has the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    /// The mount, as in `writer.json`.
    pub(crate) id: String,
    /// Another number each time.
    pub(crate) beat: u64,
}
