//! Records that are damaged or missing in the bucket, from whichever node has them in its tier.

use weir_object::Component;
use weir_peer::FileRecord;
use weir_segment::decode_record;
use weir_types::RecordRef;

use super::run::Work;
use crate::data::peers::Peers;
use crate::data::peers::resident::first_question;
use crate::data::records::{Run, get_run, record_place, record_span};

impl Work {
    /// Takes in what is not here yet of a run, from any of the other nodes. Answers whether all of it came. A question to
    /// each of them, at most, for each 4 MiB.
    pub(super) async fn take_from_anybody(&self, run: &Run) -> bool {
        let Some(peers) = self.fetcher.peers.as_ref().filter(|peers| peers.others() > 0) else {
            return false;
        };
        let (left, files) = {
            let state = self.state();
            let left: Vec<RecordRef> =
                run.records.iter().filter(|one| state.lacks(one)).copied().collect();
            let files = state.files_of(&left, self.mirror.ino());
            (left, files)
        };
        if files.len() < left.len() {
            return false;
        }
        let mut files = &files[..];
        while !files.is_empty() {
            let asked = first_question(files);
            let asked = if asked.is_empty() { &files[..1] } else { asked };
            // One that is damaged does not keep those beside it from coming.
            if !self.take_answer(peers, asked).await && !self.take_of_bucket(run, asked).await {
                return false;
            }
            files = &files[asked.len()..];
        }
        let segment = run.segment;
        tracing::warn!(%segment, "bytes that the bucket has no more came from another node: run `weir scrub`");
        true
    }

    async fn take_of_bucket(&self, run: &Run, asked: &[FileRecord]) -> bool {
        let records: Vec<RecordRef> = asked.iter().map(|of| of.record).collect();
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return true };
        let (start, end) = (first.position, record_span(last).end as u32);
        let part = Run { start, end, records, ..*run };
        let mut each =
            |record: RecordRef, bytes| self.take(record_place(&record), record.stored_bytes, bytes);
        get_run(&self.fetcher.buckets, Component::Data, &part, &mut each).await.is_ok()
    }

    async fn take_answer(&self, peers: &Peers, asked: &[FileRecord]) -> bool {
        let Some((mut bytes, giver)) = peers.records_of_anybody(asked).await else { return false };
        for FileRecord { record, .. } in asked {
            let stored = bytes.split_to(record.stored_bytes as usize);
            let Ok(decoded) = decode_record(self.fetcher.buckets.keys(), record, None, stored)
            else {
                peers.gave_wrong_bytes(&giver);
                return false;
            };
            if self.take(record_place(record), record.stored_bytes, decoded).is_err() {
                return false;
            }
        }
        true
    }
}
