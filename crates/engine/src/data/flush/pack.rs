//! From dirty ranges to a segment: cut at record edges, read, compressed, put one behind the other.

use weir_meta::Piece;
use weir_segment::{Owner, SealedSegment, SegmentBuilder};
use weir_tier::{Mirror, Snapshot};
use weir_types::{ByteRange, Result};

use crate::data::flush::load::Part;

/// Packs the parts into one segment. One file that cannot be read does not keep the others here:
/// answers the parts that are packed, and what went wrong with the rest.
pub(super) fn pack_all(
    mut builder: SegmentBuilder,
    parts: Vec<Part>,
    record_bytes: u64,
) -> (Option<SealedSegment>, Vec<Part>, Result<()>) {
    let mut result = Ok(());
    let mut whole = Vec::new();
    for mut part in parts {
        match pack(&mut builder, &part.mirror, &part.snapshot, record_bytes) {
            Ok(pieces) => {
                part.pieces = pieces;
                whole.push(part);
            }
            Err(error) => result = result.and(Err(error)),
        }
    }
    ((!builder.is_empty()).then(|| builder.finish()), whole, result)
}

/// Cuts the snapshot's ranges at record edges, reads each piece and adds it to the segment.
fn pack(
    builder: &mut SegmentBuilder,
    mirror: &Mirror,
    snapshot: &Snapshot,
    record_bytes: u64,
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for &ByteRange { start, end } in &snapshot.ranges {
        let mut at = start;
        while at < end {
            let next = ((at / record_bytes + 1) * record_bytes).min(end);
            let owner = Owner { ino: mirror.ino(), offset: at };
            let most = (next - at) as usize;
            // Cut off meanwhile, it may be less or nothing: the commit will find the snapshot void.
            let read = |buffer: &mut Vec<u8>| mirror.read_at(at, most, buffer).map(drop);
            if let Some(record) = builder.push_with(owner, most, read)? {
                pieces.push(Piece { offset: at, record, len: record.raw_bytes });
            }
            at = next;
        }
    }
    Ok(pieces)
}
