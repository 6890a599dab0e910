//! The admin API: what is asked of a daemon and what it answers, the same for both sides.
//!
//! Each request is a type that names its method, path and answer ([`Call`]); [`crate::client`] sends
//! it and [`crate::daemon`] serves it. docs/api.md is written from these types, and a test holds it.

mod actions;
mod disks;
mod links;
mod mount;
mod recover;
mod refusal;
mod status;
mod throughput;

#[cfg(test)]
pub(crate) mod page;

pub(crate) use actions::{Cancel, GetAction, GetStates, ListActions, Pin, Pinned, StartAction};
pub(crate) use disks::{
    Attach, CloneDisk, CreateDisk, DeleteDisk, Deleted, Detach, ListDevices, ListDisks, ResizeDisk,
    SnapshotDisk,
};
pub(crate) use links::{
    ListHidden, ListLinks, ListPending, MakeLink, PlanLink, RefreshLink, Unlink,
};
pub(crate) use mount::{Flush, Flushed, GetResidency, Unmount, Unmounted};
pub(crate) use recover::{
    DiscardAside, Discarded, ExtractAside, GetRecoverProgress, ListAside, MergeAside,
};
pub(crate) use refusal::Refusal;
pub(crate) use status::{BlockStatus, GetStatus, Held, NbdStatus, Passthrough, StatusAnswer, Tls};
pub(crate) use throughput::{GetThroughput, GetUsed, SetThroughput};

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// It changes nothing; its fields are the query.
    Get,
    /// It changes something; its fields are a body in JSON, which may be empty where none is needed.
    Post,
}

/// A request to a daemon. The first part of each path is the API's version: fields are added to it,
/// and what means something else gets another.
pub(crate) trait Call: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// What the daemon answers if it can; else it answers a [`Refusal`].
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    const METHOD: Method;
    const PATH: &'static str;
}

/// Says how a type is called.
macro_rules! call {
    ($method:ident $path:literal, $call:ty => $answer:ty) => {
        impl $crate::api::Call for $call {
            type Answer = $answer;
            const METHOD: $crate::api::Method = $crate::api::Method::$method;
            const PATH: &'static str = $path;
        }
    };
}
use call;
