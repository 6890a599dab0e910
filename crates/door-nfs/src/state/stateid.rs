//! Names of what a client has open or locked.

use crate::protocol::xdr::{Reader, Writer, Xdr};

/// A `stateid4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stateid {
    /// Counts its changes; 0 is the last one.
    pub(crate) seq: u32,
    pub(crate) other: [u8; 12],
}

/// What a client means by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// Nothing that it has open.
    Anonymous,
    /// The same, past locks.
    Bypass,
    /// The one that an operation before it in the compound left.
    Current,
    /// Never one that is held.
    Invalid,
    /// The one of this number, given out by this life of the server or not.
    Held { seq: u32, boot: u32, number: u64 },
}

impl Stateid {
    pub(crate) const INVALID: Self = Self { seq: u32::MAX, other: [0; 12] };

    pub(crate) fn new(boot: u32, number: u64, seq: u32) -> Self {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&boot.to_be_bytes());
        other[4..].copy_from_slice(&number.to_be_bytes());
        Self { seq, other }
    }

    pub(crate) fn read(input: &mut Reader) -> Xdr<Self> {
        Ok(Self { seq: input.u32()?, other: input.fixed()? })
    }

    pub(crate) fn write(self, out: &mut Writer) {
        out.u32(self.seq);
        out.fixed(&self.other);
    }

    pub(crate) fn meant(self) -> Meant {
        const ZEROS: [u8; 12] = [0; 12];
        const ONES: [u8; 12] = [0xff; 12];
        match (self.other, self.seq) {
            (ZEROS, 0) => Meant::Anonymous,
            (ZEROS, 1) => Meant::Current,
            (ONES, u32::MAX) => Meant::Bypass,
            (ZEROS | ONES, _) => Meant::Invalid,
            ([a, b, c, d, number @ ..], seq) => Meant::Held {
                seq,
                boot: u32::from_be_bytes([a, b, c, d]),
                number: u64::from_be_bytes(number),
            },
        }
    }
}
