//! Actions: what is asked for whole trees of files and goes on in the background.
//!
//! Hydrating, releasing and archiving are actions. One is a row of the metadata, so that it goes on
//! after a restart; how far it came is counted in memory, and counted anew by who goes on. Of nodes that share
//! a volume one works on each ([`claims`]); a hydration can be divided among them ([`portions`]).

mod action;
mod archive;
mod batch;
mod claims;
mod feed;
mod found;
mod hydrate;
mod manage;
mod parts;
mod pins;
mod portions;
pub(crate) mod rate;
mod release;
mod reservation;
mod reserve;
mod restore;
mod schedule;
mod small;
mod state;
mod views;
mod walk;

pub(crate) use claims::claims_loop;
pub(crate) use manage::run_loop;
pub(crate) use parts::Actions;
pub(crate) use schedule::Schedule;
pub use views::{
    ActionId, ActionKind, ActionNode, ActionRequest, ActionState, ActionView, ArchivedObjects,
    ArchivedView, FileState, PortionView, Refused, Root,
};
