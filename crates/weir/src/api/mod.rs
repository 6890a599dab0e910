//! The admin API: what is asked of a daemon and what it answers, the same for both sides.
//!
//! Each request is a type that names its method, path and answer ([`Call`]); [`crate::client`] sends
//! it and [`crate::daemon`] serves it. docs/api.md is written from these types, and a test holds it.

mod actions;
mod bill;
mod call;
mod disks;
mod lifecycle;
mod links;
mod locks;
mod mount;
mod nfs;
mod prices;
mod quotas;
mod recover;
mod refusal;
mod scrub;
mod snapshots;
mod status;
mod survey;
mod throughput;
mod upgrade;

#[cfg(test)]
pub(crate) mod page;

pub(crate) use actions::{
    Cancel, GetAction, GetStates, ListActions, Pin, Pinned, StartAction, StartSpread,
};
pub(crate) use bill::{Cost, CostElsewhere, CostReport, GetBill, Service, Sum};
pub(crate) use call::{Call, Method};
pub(crate) use disks::{
    Attach, CloneDisk, CreateDisk, DeleteDisk, Deleted, Detach, ListDevices, ListDisks, ResizeDisk,
    SnapshotDisk,
};
pub(crate) use lifecycle::{GetLifecycle, PlanLifecycle, RunLifecycle, SetLifecycle};
pub(crate) use links::{
    ListHidden, ListLinks, ListPending, MakeLink, PlanLink, RefreshLink, Unlink,
};
pub(crate) use locks::{ALONE, GetLocks};
pub(crate) use mount::{Flush, Flushed, GetResidency, Unmount, Unmounted};
pub(crate) use nfs::{
    ExportLimit, ListClients, ListExports, ListNfsUses, NfsStatus, RemoveExport, SetExport,
};
pub(crate) use prices::{GetPrices, ListPrices};
pub(crate) use quotas::{GetQuotas, ListQuotas, QuotaTarget, RemoveQuota, SetQuota};
pub(crate) use recover::{
    DiscardAside, Discarded, ExtractAside, GetRecoverProgress, ListAside, MergeAside,
};
pub(crate) use refusal::Refusal;
pub(crate) use scrub::{BeginScrub, EndScrub, GetScrub};
pub(crate) use snapshots::{
    CreateSnapshot, DeleteSnapshot, DeletedSnapshot, DiffSnapshots, DumpSnapshot,
    GetSnapshotSchedule, GetSnapshotTotals, HoldSnapshot, ListDumping, ListSnapshots,
    SetSnapshotSchedule,
};
pub(crate) use status::{
    BlockStatus, GetStatus, Held, NbdStatus, Passthrough, StatusAnswer, Tls, Transport,
    TransportKind,
};
pub(crate) use survey::GetSurvey;
pub(crate) use throughput::{GetHistory, GetThroughput, GetUsed, SetThroughput};
pub(crate) use upgrade::{GetUpgrade, LastUpgrade, Upgrade, Upgraded, Upgrading};
