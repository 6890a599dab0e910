//! The parts of a fetch that may come from other nodes, else from the bucket.
//!
//! Records are verified as ever. One that is wrong is asked of the bucket, with all behind it: what the
//! bucket has, and how far it can be trusted, is no other question than on a mount that is alone.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use tokio::time::timeout;
use weir_keys::VolumeKeys;
use weir_meta::sessions::SessionId;
use weir_object::{Bucket, Component, StripeSet};
use weir_peer::{FileRecord, Node, Object};
use weir_segment::decode_record;
use weir_types::{ByteRange, Ino, Native, RecordRef, Result};

use super::Fetcher;
use crate::data::peers::Peers;
use crate::data::peers::resident::first_question;
use crate::data::records::{Cutter, Run, decode_run, get_run, get_stored, record_span};
use crate::volume::context::Counts;

type Each<'a> = &'a mut (dyn FnMut(RecordRef, Bytes) -> Result<()> + Send);

/// A record and its bytes.
type Decoded = (RecordRef, Bytes);

/// Questions of one run that are under way at once, in order.
const AHEAD: usize = 2;

/// Records that are asked for at once, and the files that they are made of; none if these are not known.
struct Question {
    run: Run,
    files: Vec<FileRecord>,
}

/// What came of a run by way of peers.
struct Came {
    /// Records that were handed out.
    records: usize,
    /// Whether the next one is not what it should be.
    wrong: bool,
    /// Who gave which part of the object.
    givers: Vec<(Range<u64>, Option<Node>)>,
}

impl Fetcher {
    fn peers_for(&self, bytes: u64) -> Option<&Arc<Peers>> {
        self.peers.as_ref().filter(|peers| peers.pays(bytes))
    }

    /// Whether there are other nodes that can be asked.
    pub(crate) fn has_peers(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.others() > 0)
    }

    /// Which of these ranges of files one of these sessions has in its tier.
    pub(crate) async fn held_by(
        &self,
        sessions: &[SessionId],
        ranges: &[(Ino, ByteRange)],
    ) -> Vec<bool> {
        match &self.peers {
            Some(peers) => peers.have(sessions, ranges).await,
            None => vec![false; ranges.len()],
        }
    }

    /// As [`get_run`], of records that are made of these bytes of files.
    pub(crate) async fn get_records(
        &self,
        run: &Run,
        files: &[FileRecord],
        each: Each<'_>,
    ) -> Result<()> {
        let Some(peers) = self.peers_for(run.bytes()) else {
            return get_run(&self.buckets, Component::Data, run, each).await;
        };
        let asked = questions(run, files).into_iter();
        let asked = asked.map(|question| self.answer_to(peers, question));
        let mut answers = std::pin::pin!(stream::iter(asked).buffered(AHEAD));
        while let Some(records) = answers.next().await {
            records?.into_iter().try_for_each(|(record, bytes)| each(record, bytes))?;
        }
        Ok(())
    }

    /// From the tier of another node; from the one that asks the bucket, if none has it, or as well, if that takes
    /// too long.
    async fn answer_to(&self, peers: &Peers, question: Question) -> Result<Vec<Decoded>> {
        let mut of_tier =
            std::pin::pin!(take_from_tier(self.buckets.keys(), peers, &question.files));
        let hedged = match timeout(peers.patience(), &mut of_tier).await {
            Ok(Some(records)) => return Ok(records),
            Ok(None) => false,
            Err(_) => true,
        };
        let mut records = Vec::with_capacity(question.run.records.len());
        let mut each = |record, bytes| {
            records.push((record, bytes));
            Ok(())
        };
        let by_peers = get_run_by_peers(peers, &self.buckets, &question.run, &mut each);
        if !hedged {
            by_peers.await?;
            return Ok(records);
        }
        Counts::add(&peers.figures.hedges, 1);
        tokio::select! {
            Some(records) = &mut of_tier => return Ok(records),
            came = by_peers => came?,
        }
        Ok(records)
    }

    /// As [`get_stored`], of a run that records are wanted of.
    pub(crate) async fn get_window(&self, run: &Run) -> Result<(Bytes, Vec<(RecordRef, Bytes)>)> {
        let component = Component::Data;
        if let Some(peers) = self.peers_for(run.bytes()) {
            let object = Object::Segment(run.segment);
            let stored = peers.whole(&object, u64::from(run.start)..u64::from(run.end)).await?;
            if let Ok(records) = decode_run(self.buckets.keys(), run, &stored) {
                return Ok((stored, records));
            }
            peers.forget(&object);
            tracing::warn!(segment = %run.segment, "what came by way of other nodes is wrong");
        }
        let stored = get_stored(&self.buckets, component, run).await?;
        let records = decode_run(self.buckets.keys(), run, &stored)?;
        Ok((stored, records))
    }

    /// The bytes of a version of a native object, piece by piece. What nodes give each other of it is
    /// trusted as they are: it has no checksums, but the way there has, and they asked for that version.
    pub(crate) async fn get_version(
        &self,
        bucket: &Bucket,
        native: &Native,
        range: Range<u64>,
        take: &mut (dyn FnMut(Bytes) + Send),
    ) -> Result<()> {
        let etag = native.etag.as_deref();
        let by_peers = self.peers_for(range.end - range.start).zip(etag);
        let Some((peers, etag)) = by_peers else {
            let bytes = range.end - range.start;
            bucket.get_pieces(Component::Link, &native.key, range, etag, take).await?;
            self.natives.object_was_read(native.link, &native.key, bytes);
            return Ok(());
        };
        let (link, key, etag) = (native.link, native.key.clone(), etag.to_owned());
        let object = Object::Native { link, key, etag };
        let mut pieces = std::pin::pin!(peers.pieces(&object, range));
        while let Some(piece) = pieces.next().await {
            take(piece?.bytes);
        }
        Ok(())
    }
}

/// Cuts a run into what is asked for at once. What is behind the last record of a known file is asked of no tier.
fn questions(run: &Run, mut files: &[FileRecord]) -> Vec<Question> {
    let (mut all, mut rest) = (Vec::new(), &run.records[..]);
    while !rest.is_empty() {
        let asked = first_question(files);
        let count = if asked.is_empty() { rest.len() } else { asked.len() };
        let (records, later) = rest.split_at(count);
        let start = records[0].position;
        let end = later.first().map_or(run.end, |_| record_span(&records[count - 1]).end as u32);
        let run = Run { start, end, records: records.to_vec(), ..*run };
        all.push(Question { run, files: asked.to_vec() });
        (files, rest) = (&files[asked.len()..], later);
    }
    all
}

/// Records that are in the tier of another node, all of them.
async fn take_from_tier(
    keys: &VolumeKeys,
    peers: &Peers,
    files: &[FileRecord],
) -> Option<Vec<Decoded>> {
    let (mut bytes, giver) = peers.records_of_tier(files).await?;
    let mut records = Vec::with_capacity(files.len());
    for FileRecord { record, .. } in files {
        let stored = bytes.split_to(record.stored_bytes as usize);
        let Ok(decoded) = decode_record(keys, record, None, stored) else {
            peers.gave_wrong_bytes(&giver);
            return None;
        };
        records.push((*record, decoded));
    }
    Some(records)
}

/// As [`get_run`]. What peers gave and is wrong comes from the bucket.
pub(crate) async fn get_run_by_peers(
    peers: &Peers,
    buckets: &StripeSet,
    run: &Run,
    each: Each<'_>,
) -> Result<()> {
    let mut came = Came { records: 0, wrong: false, givers: Vec::new() };
    let taken = take_run(buckets.keys(), peers, run, each, &mut came).await;
    if !came.wrong {
        return taken;
    }
    let rest = run.records[came.records..].to_vec();
    let Some(first) = rest.first() else { return taken };
    blame(peers, run, &record_span(first), &came);
    let rest = Run { start: first.position, records: rest, ..run.clone() };
    get_run(buckets, Component::Data, &rest, each).await
}

async fn take_run(
    keys: &VolumeKeys,
    peers: &Peers,
    run: &Run,
    each: Each<'_>,
    came: &mut Came,
) -> Result<()> {
    let (object, mut at) = (Object::Segment(run.segment), u64::from(run.start));
    let mut cutter = Cutter::new(at, run.records.iter().map(record_span).collect());
    let mut pieces = std::pin::pin!(peers.pieces(&object, at..u64::from(run.end)));
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let end = at + piece.bytes.len() as u64;
        came.givers.push((at..end, piece.giver));
        at = end;
        let Came { records, wrong, .. } = &mut *came;
        cutter.take(piece.bytes, &mut |index, stored| {
            let record = run.records[index];
            let decoded =
                decode_record(keys, &record, None, stored).inspect_err(|_| *wrong = true)?;
            each(record, decoded)?;
            *records = index + 1;
            Ok(())
        })?;
    }
    Ok(())
}

/// Leaves those out who gave some of a record that is wrong, and forgets what this node has of it.
fn blame(peers: &Peers, run: &Run, span: &Range<u64>, came: &Came) {
    peers.forget(&Object::Segment(run.segment));
    for (range, giver) in &came.givers {
        if let Some(giver) = giver
            && range.start < span.end
            && span.start < range.end
        {
            peers.gave_wrong_bytes(giver);
        }
    }
}
