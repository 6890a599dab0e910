//! What a build without ublk has in its place.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_engine::Disk;
use weir_types::{ErrorKind, FsError, Result};

use crate::counts::Counts;

pub(super) const PREFIX: &str = "ublkb";

pub(super) async fn connect(
    _disk: Disk,
    _counts: Arc<Counts>,
    _read_only: bool,
    _index: Option<u32>,
    _cut: watch::Receiver<bool>,
) -> Result<(u32, JoinHandle<()>)> {
    Err(missing())
}

pub(super) fn resize(_index: u32, _size_bytes: u64) -> Result<()> {
    Err(missing())
}

pub(super) fn disconnect(_index: u32) -> Result<()> {
    Err(missing())
}

fn missing() -> FsError {
    let text = "this program was built without ublk: build it with `--features ublk`, or attach \
                with `--driver nbd`";
    FsError::new(ErrorKind::Unsupported, text)
}
