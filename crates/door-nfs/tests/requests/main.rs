//! What the NFS server answers, rule by rule, at the level of requests. The client is written from the RFCs
//! alone: 4506, 5531, 8881 with 5662, 7862, 8276 and 9289. Section numbers are those of RFC 8881.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod alike;
mod attributes;
mod away;
mod bad_input;
mod clients;
mod compounds;
mod copying;
mod crowds;
mod delegations;
mod delegations_lost;
mod done;
mod exports;
mod goes_on;
mod handles;
mod io;
mod leases;
mod listing;
mod locks;
mod model;
mod moves;
mod names;
mod opens;
mod opens_shared;
mod reclaim;
mod records;
mod replay;
mod sessions;
mod setattr;
mod storm;
mod tls;
mod witness;
mod xattrs;
