//! The bytes of the protocol: XDR, RPC's envelopes, and the numbers of NFS. No I/O.

pub(crate) mod bitmap;
pub(crate) mod numbers;
pub(crate) mod rpc;
pub(crate) mod status;
pub(crate) mod xdr;
