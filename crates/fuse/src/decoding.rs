//! The decoders alone, for those who put any bytes into them. No part of the interface.

use std::io;

use crate::bytes::Input;
use crate::request::{Dialect, Operation, Request};
use crate::session::{Offer, offered};

/// A request, and what it asks unless it is shorter than its kind.
pub type Decoded<'a> = (Request, Option<Operation<'a>>);

/// A message of the device; `None` without a whole header. `setxattr_ext` is whether the kernel has
/// [`crate::init::SETXATTR_EXT`].
pub fn message(message: &[u8], setxattr_ext: bool) -> Option<Decoded<'_>> {
    let (request, body) = Request::parse(message)?;
    Some(decoded(request, body, setxattr_ext))
}

/// A message of a ring; `None` where its sizes do not fit.
pub fn parts<'a>(
    header: &[u8],
    numbers: &'a [u8],
    payload: &'a [u8],
    setxattr_ext: bool,
) -> Option<Decoded<'a>> {
    let (request, body) = Request::parse_parts(header, numbers, payload)?;
    Some(decoded(request, body, setxattr_ext))
}

/// The first message of all.
///
/// # Errors
/// It is none, or the kernel is too old.
pub fn first(message: &[u8]) -> io::Result<Offer> {
    Ok(offered(message)?.1)
}

fn decoded(request: Request, body: Input<'_>, setxattr_ext: bool) -> Decoded<'_> {
    (request, Operation::parse(Dialect { setxattr_ext }, request.opcode, body))
}
