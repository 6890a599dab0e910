//! A volume by NFS beside a mount of the same daemon: what one changes the other sees at once, whatever the
//! kernel of the mount had in its caches. The NFS client is the one of the tests of requests.

#[path = "../common/mod.rs"]
mod common;

mod both;
mod bytes;
mod locks;
mod mapped;
mod names;
mod storm;
