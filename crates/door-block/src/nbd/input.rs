//! What a client sends in the transmission phase: headers out of a buffer, many for one system
//! call, and large data straight into memory of its own.

use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read ahead.
const BUFFER_BYTES: usize = 64 << 10;
/// Data of at least this many bytes gets memory of its own.
const LARGE_BYTES: usize = 16 << 10;

/// A client's bytes, in order.
pub(super) struct Input<R> {
    stream: R,
    buffer: BytesMut,
    /// How long the client may stop in the middle of data.
    patience: Duration,
}

impl<R: AsyncRead + Unpin> Input<R> {
    pub(super) fn new(stream: R, patience: Duration) -> Self {
        Self { stream, buffer: BytesMut::new(), patience }
    }

    /// The next `len` bytes, fewer than [`LARGE_BYTES`]; `None` if the client ended before the
    /// first of them.
    pub(super) async fn header(&mut self, len: usize) -> io::Result<Option<BytesMut>> {
        while self.buffer.len() < len {
            if !self.fill().await? {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
        Ok(Some(self.buffer.split_to(len)))
    }

    /// The next `len` bytes.
    pub(super) async fn payload(&mut self, len: usize) -> io::Result<Bytes> {
        if len < LARGE_BYTES {
            let bytes = tokio::time::timeout(self.patience, self.header(len)).await??;
            return bytes.map(BytesMut::freeze).ok_or(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = BytesMut::with_capacity(len);
        let buffered = self.buffer.split_to(self.buffer.len().min(len));
        bytes.extend_from_slice(&buffered);
        while bytes.len() < len {
            let missing = len - bytes.len();
            let mut room = (&mut bytes).limit(missing);
            let read = self.stream.read_buf(&mut room);
            if tokio::time::timeout(self.patience, read).await?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes.freeze())
    }

    /// Reads `len` bytes and forgets them.
    pub(super) async fn skip(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            if self.buffer.is_empty() && !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now = len.min(self.buffer.len() as u64);
            drop(self.buffer.split_to(now as usize));
            len -= now;
        }
        Ok(())
    }

    /// `false` if nothing more comes.
    async fn fill(&mut self) -> io::Result<bool> {
        if self.buffer.capacity() - self.buffer.len() < LARGE_BYTES {
            self.buffer.reserve(BUFFER_BYTES);
        }
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}
