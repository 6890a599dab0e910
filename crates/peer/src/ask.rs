//! What nodes ask each other, and what they answer.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use weir_types::{Ino, LinkId, RecordRef, SegmentId};

/// Most bytes that one answer gives.
pub const GIVEN_BYTES: u64 = 4 << 20;

/// A question. New kinds go to the end: a node that does not know one answers [`Refusal::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Bytes of an object that never changes, as the bucket has them.
    Bytes(ObjectRange),
    /// The metadata says that somebody wants leases of this node back: it is to look at once. Nothing is
    /// given for it.
    Look,
    /// Which nodes asked of late for this part of a segment, one of each [`GIVEN_BYTES`]: they may have its
    /// records in their tiers by now. Given are their fingerprints, one behind the other.
    Who(SegmentId, u64),
    /// Records of a segment that the node may have in its tier, packed as they are in the segment and one behind
    /// the other: all of them, or nothing.
    Records(Vec<FileRecord>),
    /// Of which ranges of files the node has all bytes in its tier: first byte, and the one behind the last, which may
    /// be past the end. Given is a byte for each, 1 or 0.
    Whole(Vec<(Ino, u64, u64)>),
}

/// A record, and which bytes of which file it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The record.
    pub record: RecordRef,
    /// The file.
    pub ino: Ino,
    /// Where the record's first byte is in it.
    pub offset: u64,
}

/// A part of an object, at most [`GIVEN_BYTES`] of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRange {
    /// Which object.
    pub object: Object,
    /// The first byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// An object that never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Object {
    /// A segment of the volume.
    Segment(SegmentId),
    /// One version of an object of a linked bucket.
    Native {
        /// The link.
        link: LinkId,
        /// The object's key.
        key: String,
        /// The version.
        etag: String,
    },
}

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for.
    Given(Bytes),
    /// Nothing, and why.
    Refused(Refusal),
}

/// Why a node gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has, or does, as much as it may: ask later.
    Busy,
    /// It could not be had.
    NotHere,
    /// It does not know this kind of question, or it makes no sense to it.
    Unknown,
}

const GIVEN: u8 = 0;
const BUSY: u8 = 1;
const NOT_HERE: u8 = 2;
const UNKNOWN: u8 = 3;

impl Ask {
    /// As a frame's body.
    pub(crate) fn encode(&self) -> Option<Bytes> {
        postcard::to_stdvec(self).ok().map(Bytes::from)
    }

    /// From a frame's body; `None` of a kind that this build does not know.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(body) {
            Ok((ask, [])) => Some(ask),
            _ => None,
        }
    }
}

impl Answer {
    /// What comes before the bytes that are given: their kind.
    pub(crate) fn parts(self) -> (u8, Bytes) {
        match self {
            Answer::Given(bytes) => (GIVEN, bytes),
            Answer::Refused(Refusal::Busy) => (BUSY, Bytes::new()),
            Answer::Refused(Refusal::NotHere) => (NOT_HERE, Bytes::new()),
            Answer::Refused(Refusal::Unknown) => (UNKNOWN, Bytes::new()),
        }
    }

    /// From a frame's body; `None` if it is none.
    pub(crate) fn decode(mut body: Bytes) -> Option<Self> {
        if body.is_empty() {
            return None;
        }
        let rest = body.split_off(1);
        match (body[0], rest.is_empty()) {
            (GIVEN, _) => Some(Answer::Given(rest)),
            (BUSY, true) => Some(Answer::Refused(Refusal::Busy)),
            (NOT_HERE, true) => Some(Answer::Refused(Refusal::NotHere)),
            // Also reasons of a later build.
            (_, true) => Some(Answer::Refused(Refusal::Unknown)),
            (_, false) => None,
        }
    }
}

/// The head of an answer's frame, with its kind.
pub(crate) fn answer_head(id: u64, kind: u8, given: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(13);
    head.put_u32_le(8 + 1 + given as u32);
    head.put_u64_le(id);
    head.put_u8(kind);
    head.freeze()
}
