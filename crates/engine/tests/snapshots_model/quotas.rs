//! Quotas over the model's files: what is let in, and what counts at rest.

use std::time::{Duration, Instant};

use rand::RngExt;
use weir_engine::{QuotaChange, QuotaSubject, QuotaView};
use weir_types::{ErrorKind, FsError, Ino};

use super::{FILE_BYTES_MAX, FILES, Run};

/// All files are root's, and in the root.
const SUBJECTS: [QuotaSubject; 3] =
    [QuotaSubject::Directory(Ino::ROOT.0), QuotaSubject::User(0), QuotaSubject::Group(0)];
/// What is dirty counts in whole pages: in each file one more at both ends.
const PAGES_BYTES: u64 = FILES * 2 * 4096;

impl Run {
    /// Bytes of all files, none of which has a hole.
    pub(super) fn bytes(&self) -> u64 {
        self.now.values().map(|content| content.len() as u64).sum()
    }

    /// Sets one, which may be full before long, or removes one.
    pub(super) fn set_quota(&mut self) {
        let subject = SUBJECTS[self.rng.random_range(0..SUBJECTS.len())];
        let more = self.rng.random_range(0..2 * FILE_BYTES_MAX as u64);
        let place = self.place();
        if self.rng.random_range(0..4) == 0 {
            let removed = self.world.run(self.world.engine().remove_quota(subject));
            let expected = self.quotas.remove(&place_of(subject)).is_some();
            assert_eq!(removed.is_ok(), expected, "{place}: {removed:?}");
            return;
        }
        let limit = match self.rng.random_range(0..3) {
            0 => 0,
            _ => self.bytes() + more,
        };
        let change = QuotaChange { bytes_max: Some(limit), files_max: Some(0) };
        self.world.run(self.world.engine().set_quota(subject, change)).expect("sets");
        self.quotas.insert(place_of(subject), limit);
        self.counting = true;
    }

    /// What was there when a quota was set may not all count yet: until it does, more is let in.
    fn is_counting(&mut self) -> bool {
        if self.counting {
            let all = self.world.run(self.world.engine().quotas()).expect("lists");
            self.counting = all.iter().any(|quota| quota.counting.is_some());
            return true;
        }
        false
    }

    /// What grew by so many bytes was let in, or was not: the least limit says which of it is right.
    pub(super) fn judge(&mut self, grown: u64, refused: Option<&FsError>) {
        let is_counting = self.is_counting();
        let limit = self.quotas.values().copied().filter(|limit| *limit > 0).min();
        let (place, after) = (self.place(), self.bytes() + grown);
        match (refused, limit) {
            (Some(error), Some(limit)) => {
                assert_eq!(error.kind(), ErrorKind::Quota, "{place}: {error}");
                let told = self.world.run(self.world.engine().quotas());
                assert!(
                    after + PAGES_BYTES > limit,
                    "{place}: {after} of {limit} is refused, {grown} more: {error}; {told:?}"
                );
            }
            (Some(error), None) => panic!("{place}: {error}"),
            (None, Some(limit)) if grown > 0 && !is_counting => {
                assert!(after <= limit + PAGES_BYTES, "{place}: {after} of {limit} is let in");
            }
            (None, _) => {}
        }
    }

    /// Once nothing is dirty and what was removed is gone, what counts is what is there.
    pub(super) fn check_quotas(&self) {
        let (engine, place) = (self.world.engine(), self.place());
        self.world.run(engine.flush_all()).expect("flushes");
        // The root is a file, too.
        let wanted = (self.now.len() as u64 + 1, self.bytes());
        let began = Instant::now();
        loop {
            let mut all = self.world.run(engine.quotas()).expect("lists");
            all.retain(|quota| !quota.removed);
            let right = |quota: &QuotaView| {
                quota.counting.is_none() && (quota.files_used, quota.bytes_used) == wanted
            };
            if all.iter().all(right) {
                assert_eq!(all.len(), self.quotas.len(), "{place}: {all:?}");
                for quota in all {
                    let limit = Some(self.quotas[&place_of(quota.subject)]).filter(|max| *max > 0);
                    assert_eq!(quota.bytes_max, limit, "{place}");
                }
                return;
            }
            let late = began.elapsed() > Duration::from_secs(30);
            assert!(!late, "{place}: {wanted:?} files and bytes, and {all:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The volume is as it was once: so are its quotas, but for those that were being removed.
    pub(super) fn learn_quotas(&mut self) {
        let all = self.world.run(self.world.engine().quotas()).expect("lists");
        let kept = all.into_iter().filter(|quota| !quota.removed);
        self.quotas =
            kept.map(|of| (place_of(of.subject), of.bytes_max.unwrap_or_default())).collect();
        self.counting = true;
    }
}

fn place_of(subject: QuotaSubject) -> usize {
    SUBJECTS.iter().position(|one| *one == subject).expect("one of them")
}
