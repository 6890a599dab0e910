//! Who asks a bucket, and what for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who asks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The volume itself: `volume.json`, probes.
    Volume,
    /// The metadata engine.
    Meta,
    /// Segments, written by flushes and read by fetches.
    Data,
    /// Native objects of links.
    Link,
    /// The collector of dead segments.
    Collect,
    /// Checks of a volume's health.
    Check,
    /// Benchmarks.
    Bench,
}

impl Component {
    /// All of them, in the order of their rows.
    pub const ALL: [Component; 7] = [
        Component::Volume,
        Component::Meta,
        Component::Data,
        Component::Link,
        Component::Collect,
        Component::Check,
        Component::Bench,
    ];
}

/// What is asked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Store an object or a part of one.
    Put,
    /// Read an object or a range of one.
    Get,
    /// Ask for an object's size and times.
    Head,
    /// One page of keys.
    List,
    /// Delete an object.
    Delete,
    /// Copy an object within the store.
    Copy,
}

impl RequestKind {
    /// All of them, in the order of their rows.
    pub const ALL: [RequestKind; 6] = [
        RequestKind::Put,
        RequestKind::Get,
        RequestKind::Head,
        RequestKind::List,
        RequestKind::Delete,
        RequestKind::Copy,
    ];
}
