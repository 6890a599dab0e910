//! Waiting for the kernel.

use weir_types::{ErrorKind, FsError, Result};

/// Runs what waits for the kernel where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(FsError::new(ErrorKind::Bug, format!("asking the kernel: {error}")))
    })
}
