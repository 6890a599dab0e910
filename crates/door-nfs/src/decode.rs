//! All decoders at once, for tests that give them any bytes at all.

use bytes::Bytes;

use crate::attributes::Wanted;
use crate::protocol::bitmap::Bitmap;
use crate::protocol::rpc::{self, Call};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::sessions::Channel;
use crate::state::stateid::Stateid;

/// Takes bytes for a record and for each thing that may be in one. Nothing may panic, and what is understood must
/// be written as it came.
pub fn any(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(Call::Compound { mut arguments, .. }) = rpc::call(bytes.clone()) {
        let _ = arguments.opaque(1_024);
    }
    for minor in [1, 2] {
        let _ = Wanted::read(&mut Reader::new(bytes.clone()), minor, |_, _| None);
    }
    let _ = Channel::read(&mut Reader::new(bytes.clone())).map(Channel::granted);
    let mut input = Reader::new(bytes.clone());
    if let Ok(id) = Stateid::read(&mut input) {
        let mut out = Writer::default();
        id.write(&mut out);
        assert_eq!(out.finish().concat(), data[..16]);
        let _ = id.meant();
    }
    let mut input = Reader::new(bytes.clone());
    if let Ok((set, false)) = Bitmap::read(&mut input) {
        let mut out = Writer::default();
        set.write(&mut out);
        let again = Bitmap::read(&mut Reader::new(out.finish().concat().into()));
        assert_eq!(again, Ok((set, false)));
    }
}
