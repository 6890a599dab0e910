//! What a client gets in the transmission phase: replies as they become ready, as many as there are
//! in one system call, and each of them whole before the next.

use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;

use super::protocol::Head;

/// Replies that are sent at once, at most.
const TOGETHER: usize = 128;

/// A reply that is ready.
pub(super) struct Reply {
    pub(super) head: Head,
    /// What follows the head.
    pub(super) body: Vec<Bytes>,
    /// What the request took of the connection's limits, given back when the reply is out.
    pub(super) _held: Vec<OwnedSemaphorePermit>,
}

/// Sends replies until nobody has any more, and says so to the client. Fails if it takes none for
/// longer than `patience`.
pub(super) async fn send_replies<W: AsyncWrite + Unpin>(
    mut stream: W,
    mut ready: UnboundedReceiver<Reply>,
    patience: Duration,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(TOGETHER);
    while ready.recv_many(&mut batch, TOGETHER).await > 0 {
        send(&mut stream, &batch, patience).await?;
        tokio::time::timeout(patience, stream.flush()).await??;
        batch.clear();
    }
    stream.shutdown().await
}

async fn send<W: AsyncWrite + Unpin>(
    stream: &mut W,
    batch: &[Reply],
    patience: Duration,
) -> io::Result<()> {
    let mut slices = Vec::with_capacity(2 * batch.len());
    for reply in batch {
        slices.push(IoSlice::new(reply.head.as_slice()));
        slices.extend(reply.body.iter().map(|piece| IoSlice::new(piece)));
    }
    let mut left = &mut slices[..];
    // Empty pieces would look like a stream that takes no more.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match tokio::time::timeout(patience, stream.write_vectored(left)).await?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            sent => IoSlice::advance_slices(&mut left, sent),
        }
    }
    Ok(())
}
