//! One action, how far it came, and its row.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use weir_meta::{ActionEnd, ActionPortion, ActionRow, ActionRowKind};
use weir_types::{ArchiveClass, Ino, Restore};

use super::found::Found;
use super::views::{
    ActionId, ActionKind, ActionRequest, ActionState, ActionView, ArchivedObjects, ArchivedView,
    PortionView, Refused, Root,
};
use crate::volume::locks::{self, Place};

/// Refused files whose reason is kept.
const REASONS_MAX: usize = 20;
/// Files that were opened and wait for their turn, of each hydration.
const NEEDED_MAX: usize = 64;

/// One action, and how far it came.
pub(crate) struct Action {
    pub(crate) id: ActionId,
    pub(crate) request: ActionRequest,
    /// Which part it is of what was asked for; `None`: all of it.
    pub(crate) portion: Option<ActionPortion>,
    /// Some of it found no room in the tier.
    no_room: AtomicBool,
    asked_unix_ms: i64,
    pub(super) state: watch::Sender<ActionState>,
    progress: Mutex<Progress>,
    /// Held while it is brought to its end.
    pub(super) ending: locks::Mutex,
    /// Files that somebody opened, to be looked at before others.
    needed: Mutex<VecDeque<Ino>>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    files_total: u64,
    files_done: u64,
    bytes_total: u64,
    bytes_done: u64,
    counted: bool,
    refused: u64,
    reasons: Vec<Refused>,
    ended_unix_ms: Option<i64>,
    archived: ArchivedView,
}

impl Action {
    pub(super) fn new(id: ActionId, request: ActionRequest, asked_unix_ms: i64) -> Self {
        Self {
            id,
            request,
            portion: None,
            no_room: AtomicBool::new(false),
            asked_unix_ms,
            state: watch::Sender::new(ActionState::Waiting),
            progress: Mutex::default(),
            ending: locks::Mutex::new(Place::ActionEnd, id.0, ()),
            needed: Mutex::default(),
        }
    }

    pub(crate) fn view(&self) -> ActionView {
        let progress = self.progress().clone();
        ActionView {
            id: self.id,
            request: self.request.clone(),
            state: self.state(),
            asked_unix_ms: self.asked_unix_ms,
            ended_unix_ms: progress.ended_unix_ms,
            files_total: progress.files_total,
            files_done: progress.files_done,
            bytes_total: progress.bytes_total,
            bytes_done: progress.bytes_done,
            counted: progress.counted,
            refused: progress.refused,
            reasons: progress.reasons,
            portion: self.portion.as_ref().map(|portion| PortionView {
                group: ActionId(portion.group),
                nth: portion.nth + 1,
                count: portion.count,
                everywhere: portion.everywhere,
            }),
            node: None,
            archived: progress.archived,
        }
    }

    pub(crate) fn state(&self) -> ActionState {
        *self.state.borrow()
    }

    pub(super) fn has_ended(&self) -> bool {
        ended(&self.state())
    }

    /// Waits until it has ended.
    pub(crate) async fn end(&self) {
        // The sender is here, so this does not fail.
        let _ = self.state.subscribe().wait_for(ended).await;
    }

    /// The walk found these files.
    pub(crate) fn found(&self, files: &[Found]) {
        let mut progress = self.progress();
        progress.files_total += files.iter().map(|file| file.files).sum::<u64>();
        progress.bytes_total += files.iter().map(Found::bytes).sum::<u64>();
    }

    /// The walk has found all files.
    pub(crate) fn counted(&self) {
        self.progress().counted = true;
    }

    /// Bytes found, if these are all.
    pub(crate) fn bytes_total(&self) -> Option<u64> {
        let progress = self.progress();
        progress.counted.then_some(progress.bytes_total)
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.progress().bytes_done += bytes;
    }

    /// Bytes that were counted did not help.
    pub(crate) fn unmoved(&self, bytes: u64) {
        let mut progress = self.progress();
        progress.bytes_done = progress.bytes_done.saturating_sub(bytes);
    }

    /// Files are as they were asked to be.
    pub(crate) fn done(&self, files: u64, bytes: u64) {
        let mut progress = self.progress();
        progress.files_done += files;
        progress.bytes_done += bytes;
    }

    /// A file stays as it is.
    pub(crate) fn refuse(&self, file: &Found, reason: &str) {
        self.progress().files_done += file.files;
        self.refuse_path(|| file.path(), reason);
    }

    /// What is at a path stays as it is, and is not among the files found.
    pub(crate) fn refuse_path(&self, path: impl FnOnce() -> String, reason: &str) {
        let mut progress = self.progress();
        progress.refused += 1;
        if progress.reasons.len() < REASONS_MAX {
            progress.reasons.push(Refused { path: path(), reason: reason.to_owned() });
        }
    }

    /// So many of its files wait until they are restored.
    pub(super) fn waits_for(&self, files: u64) {
        self.progress().archived.waiting = files;
    }

    /// An object of this class is to be restored.
    pub(super) fn restores(&self, class: ArchiveClass, bytes: u64) {
        let mut progress = self.progress();
        let asked = &mut progress.archived.asked;
        match asked.iter_mut().find(|of| of.class == class.name()) {
            Some(of) => (of.objects, of.bytes) = (of.objects + 1, of.bytes + bytes),
            None => {
                asked.push(ArchivedObjects { class: class.name().to_owned(), objects: 1, bytes })
            }
        }
    }

    /// Some of it finds no room in the tier.
    pub(super) fn finds_no_room(&self) {
        self.no_room.store(true, Ordering::Relaxed);
    }

    pub(super) fn found_no_room(&self) -> bool {
        self.no_room.load(Ordering::Relaxed)
    }

    /// The next file that somebody opened.
    pub(crate) fn take_needed(&self) -> Option<Ino> {
        self.needed.lock().pop_front()
    }

    pub(super) fn need(&self, ino: Ino) {
        let mut needed = self.needed.lock();
        if needed.len() < NEEDED_MAX && !needed.contains(&ino) {
            needed.push_back(ino);
        }
    }

    /// When it ended, in milliseconds since 1970.
    pub(super) fn ended_unix_ms(&self) -> Option<i64> {
        self.progress().ended_unix_ms
    }

    /// It is at its end.
    pub(super) fn set_ended(&self, cancelled: bool, unix_ms: i64) {
        self.progress().ended_unix_ms = Some(unix_ms);
        self.state.send_replace(match cancelled {
            true => ActionState::Cancelled,
            false => ActionState::Done,
        });
    }

    pub(super) fn row(&self, end: Option<ActionEnd>) -> ActionRow {
        ActionRow {
            kind: match self.request.kind {
                ActionKind::Hydrate => ActionRowKind::Hydrate,
                ActionKind::Release => ActionRowKind::Release,
                ActionKind::Archive => ActionRowKind::Archive,
            },
            roots: self.request.roots.iter().map(|r| (r.ino, r.path.clone())).collect(),
            recursive: self.request.recursive,
            max_bytes_per_s: self.request.max_bytes_per_s,
            asked_unix_ms: self.asked_unix_ms,
            end,
        }
    }

    pub(super) fn from_row(
        number: u64,
        row: ActionRow,
        portion: Option<ActionPortion>,
        restore: Option<Restore>,
    ) -> Self {
        let root = |(ino, path)| Root { ino, path };
        let request = ActionRequest {
            kind: match row.kind {
                ActionRowKind::Hydrate => ActionKind::Hydrate,
                ActionRowKind::Release => ActionKind::Release,
                ActionRowKind::Archive => ActionKind::Archive,
            },
            roots: row.roots.into_iter().map(root).collect(),
            recursive: row.recursive,
            max_bytes_per_s: row.max_bytes_per_s,
            restore,
        };
        let action = Self { portion, ..Self::new(ActionId(number), request, row.asked_unix_ms) };
        if let Some(end) = row.end {
            let refused = |(path, reason)| Refused { path, reason };
            *action.progress() = Progress {
                files_total: end.files.0,
                files_done: end.files.1,
                bytes_total: end.bytes.0,
                bytes_done: end.bytes.1,
                counted: !end.cancelled,
                refused: end.refused,
                reasons: end.reasons.into_iter().map(refused).collect(),
                ended_unix_ms: None,
                archived: ArchivedView::default(),
            };
            action.set_ended(end.cancelled, end.unix_ms);
        }
        action
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

fn ended(state: &ActionState) -> bool {
    matches!(state, ActionState::Done | ActionState::Cancelled)
}
