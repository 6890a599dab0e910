//! Which volume it is, how it is laid out, who may write it, and what all parts of a mount share.

pub(crate) mod age;
pub(crate) mod belongs;
pub(crate) mod boxed;
pub(crate) mod claim;
pub(crate) mod connector;
pub(crate) mod context;
pub(crate) mod doors;
pub(crate) mod fence;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod health;
pub(crate) mod host;
pub(crate) mod keys;
pub(crate) mod locked;
pub(crate) mod locks;
pub(crate) mod members;
pub(crate) mod metadata;
pub(crate) mod migrate;
pub(crate) mod names_log;
pub(crate) mod options;
pub(crate) mod pulse;
pub(crate) mod restored;
pub(crate) mod standby;
pub(crate) mod together;
pub(crate) mod turn;
