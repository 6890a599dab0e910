//! Frames: a length (4 bytes), the number of the question (8 bytes), and a body, little-endian.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::ask::GIVEN_BYTES;

/// Most bytes of a question's body.
pub(crate) const ASK_BYTES: usize = 16 << 10;
/// Most bytes of an answer's body.
pub(crate) const ANSWER_BYTES: usize = GIVEN_BYTES as usize + 1;

const ID_BYTES: usize = 8;

/// Reads a frame with a body of at most `most` bytes; `None` at the end of the stream.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Option<(u64, Bytes)>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let length = u32::from_le_bytes(length) as usize;
    if !(ID_BYTES..=ID_BYTES + most).contains(&length) {
        let text = format!("a frame of {length} bytes, of at most {}", ID_BYTES + most);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let id = from.read_u64_le().await?;
    let mut body = BytesMut::with_capacity(length - ID_BYTES);
    let mut rest = from.take((length - ID_BYTES) as u64);
    while rest.limit() > 0 {
        if rest.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some((id, body.freeze())))
}

/// A question as a frame.
pub(crate) fn ask(id: u64, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(4 + ID_BYTES + body.len());
    frame.put_u32_le((ID_BYTES + body.len()) as u32);
    frame.put_u64_le(id);
    frame.put_slice(body);
    frame.freeze()
}
