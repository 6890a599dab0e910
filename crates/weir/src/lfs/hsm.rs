//! `lfs hsm_state`, `hsm_action`, `hsm_restore`, `hsm_release`, `hsm_archive`, `hsm_cancel`,
//! `hsm_set` and `hsm_clear`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use weir_engine::{ActionId, ActionKind, ActionRequest, ActionState, ActionView, FileState};

use weir_types::{FsError, Ino};

use super::answer::{Answer, Failure};
use super::words::{self, Known, Words, flag, value};
use crate::api::{Cancel, GetAction, Pin, StartAction};
use crate::client::STATES_AT_ONCE;
use crate::targets::{Finder, Target};

/// A flag of Lustre: its bit, its word, and whether a file has it.
type Flag = (u32, &'static str, fn(&FileState) -> bool);

/// Lustre's flags in the order in which they are told.
const FLAGS: [Flag; 7] = [
    (0x04, "released", |state| state.released),
    (0x01, "exists", |state| state.exists),
    (0x02, "dirty", |state| state.dirty),
    (0x08, "archived", |state| state.archived),
    (0x10, "never_release", |state| state.pinned),
    (0x20, "never_archive", |_| false),
    (0x40, "lost_from_hsm", |state| state.lost),
];

/// The number of the one archive there is.
const ARCHIVE_ID: u32 = 1;
/// How long one question for the end of a release waits.
const WAIT_MS: u64 = 10_000;

const REQUEST: [Known; 4] = [
    value('l', &["filelist"]),
    value('D', &["data"]),
    value('a', &["archive"]),
    value('m', &["mntpath"]),
];

const SET: [Known; 7] = [
    flag('\x01', &["norelease"]),
    flag('\x02', &["noarchive"]),
    flag('\x03', &["dirty"]),
    flag('\x04', &["exists"]),
    flag('\x05', &["archived"]),
    flag('\x06', &["lost"]),
    value('i', &["archive-id"]),
];

pub(super) fn is_command(name: &str) -> bool {
    matches!(
        name,
        "hsm_state"
            | "hsm_action"
            | "hsm_restore"
            | "hsm_release"
            | "hsm_archive"
            | "hsm_cancel"
            | "hsm_set"
            | "hsm_clear"
    )
}

/// Runs one of the commands, on this thread alone.
pub(super) fn run(name: &str, words: &[OsString], answer: &mut Answer) -> Result<(), Failure> {
    let known = match name {
        "hsm_set" | "hsm_clear" => &SET[..],
        "hsm_state" | "hsm_action" => &[],
        _ => &REQUEST[..],
    };
    let words = words::read(words, known)?;
    if matches!(name, "hsm_set" | "hsm_clear") {
        check_flags(&words)?;
    }
    let paths = paths(&words)?;
    if paths.is_empty() {
        return Err(Failure::new(Errno::INVAL, "a file is missing: see `lfs help`"));
    }
    let mut files = Files::find(&paths, answer);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| Failure::from(&FsError::local_io("start the runtime", e)))?;
    runtime.block_on(async {
        match name {
            "hsm_state" => files.state(answer).await,
            "hsm_action" => files.action(answer).await,
            "hsm_restore" => files.request(ActionKind::Hydrate, answer).await,
            "hsm_release" => files.request(ActionKind::Release, answer).await,
            "hsm_archive" => files.request(ActionKind::Archive, answer).await,
            "hsm_cancel" => files.cancel(answer).await,
            _ => files.pin(name == "hsm_set", answer).await,
        }
    });
    Ok(())
}

/// Only `norelease` is ours to set: the others say what the bucket has, and the bucket is asked.
fn check_flags(words: &Words) -> Result<(), Failure> {
    let others = words.options.iter().find(|(letter, _)| *letter != '\x01');
    if let Some((letter, _)) = others {
        let known = SET.iter().find(|known| known.letter == *letter);
        let name = known.and_then(|known| known.long.first()).copied().unwrap_or_default();
        let text = format!(
            "--{name} cannot be set by hand: it follows from the file and its object; only \
             --norelease (`weir pin`) can"
        );
        return Err(Failure::new(Errno::OPNOTSUPP, text));
    }
    match words.has('\x01') {
        true => Ok(()),
        false => Err(Failure::new(Errno::INVAL, "name a flag: --norelease")),
    }
}

/// Operands, and the lines of `--filelist`, those below `--mntpath` if they are relative.
fn paths(words: &Words) -> Result<Vec<PathBuf>, Failure> {
    let mut paths: Vec<PathBuf> = words.operands.iter().map(PathBuf::from).collect();
    if let Some(list) = words.value('l') {
        let bytes = std::fs::read(list).map_err(|e| Failure::from(&FsError::local_io(list, e)))?;
        let below = Path::new(words.value('m').unwrap_or_default());
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        paths.extend(lines.map(|line| below.join(OsString::from_vec(line.to_vec()))));
    }
    Ok(paths)
}

/// The files that were named and found, with their mounts.
struct Files {
    finder: Finder,
    found: Vec<(usize, Target)>,
}

impl Files {
    fn find(paths: &[PathBuf], answer: &mut Answer) -> Self {
        let mut finder = Finder::default();
        let mut found = Vec::new();
        for path in paths {
            match finder.locate(path) {
                Ok(located) => found.push(located),
                Err(error) => {
                    let mut failure = Failure::from(&error);
                    if std::error::Error::source(&error).is_none() {
                        // It is there, but on another file system: what ioctl says there.
                        failure.errno = Errno::NOTTY;
                    }
                    answer.fail(Some(path), &failure);
                }
            }
        }
        Self { finder, found }
    }

    /// The regular files among them; the others are told.
    fn regular(&mut self, answer: &mut Answer) {
        self.found.retain(|(_, target)| {
            if !target.is_file {
                let failure = Failure::new(Errno::INVAL, "is not a regular file");
                answer.fail(Some(&target.asked), &failure);
            }
            target.is_file
        });
    }

    /// The state of each; `None` for what is no regular file, or is gone, or cannot be asked.
    async fn states(&self, answer: &mut Answer<'_>) -> Vec<Option<FileState>> {
        let mut states: Vec<Option<FileState>> = vec![None; self.found.len()];
        for (at, mount) in self.finder.mounts.iter().enumerate() {
            let of_mount = self.found.iter().enumerate();
            let of_mount = of_mount.filter(|(_, (mount, target))| *mount == at && target.is_file);
            let of_mount: Vec<(usize, u64)> = of_mount.map(|(n, (_, t))| (n, t.ino)).collect();
            for some in of_mount.chunks(STATES_AT_ONCE) {
                let inos = some.iter().map(|(_, ino)| Ino(*ino)).collect();
                match mount.client.states(inos).await {
                    Ok(told) => {
                        for ((n, _), state) in some.iter().zip(told) {
                            states[*n] = state;
                        }
                    }
                    Err(error) => {
                        answer.fail(Some(&mount.mountpoint), &Failure::from(&error));
                        break;
                    }
                }
            }
        }
        states
    }

    async fn state(&self, answer: &mut Answer<'_>) {
        let states = self.states(answer).await;
        for ((_, target), state) in self.found.iter().zip(states) {
            match state {
                Some(state) => answer.line(target.asked.as_os_str(), &state_text(&state)),
                None if !target.is_file => {
                    answer.line(target.asked.as_os_str(), ": (0x00000000)");
                }
                None => answer.fail_unknown(target.asked.as_os_str()),
            }
        }
    }

    async fn action(&self, answer: &mut Answer<'_>) {
        let states = self.states(answer).await;
        let mut actions: HashMap<(usize, ActionId), ActionView> = HashMap::new();
        for ((mount, target), state) in self.found.iter().zip(states) {
            let Some(state) = state else {
                match target.is_file {
                    true => answer.fail_unknown(target.asked.as_os_str()),
                    false => answer.line(target.asked.as_os_str(), ": NOOP"),
                }
                continue;
            };
            let key = state.action.map(|id| (*mount, id));
            if let Some(key) = key.filter(|key| !actions.contains_key(key)) {
                // One that ended meanwhile may be forgotten already.
                if let Ok(action) = self.finder.mounts[key.0]
                    .client
                    .call(&GetAction { id: key.1, wait_ms: 0 })
                    .await
                {
                    actions.insert(key, action);
                }
            }
            let action = key.and_then(|key| actions.get(&key));
            answer.line(target.asked.as_os_str(), &action_text(&state, action));
        }
    }

    /// Restoring and archiving go on in the background; releasing is waited for, as on Lustre.
    async fn request(&mut self, kind: ActionKind, answer: &mut Answer<'_>) {
        self.regular(answer);
        for (at, target) in self.found.drain(..) {
            self.finder.mounts[at].targets.push(target);
        }
        for mount in self.finder.mounts.iter().filter(|mount| !mount.targets.is_empty()) {
            let roots = mount.roots();
            let request = ActionRequest {
                kind,
                roots,
                recursive: false,
                max_bytes_per_s: None,
                restore: None,
            };
            let started = mount.client.call(&StartAction(request)).await;
            let mut action = match started {
                Ok(action) => action,
                Err(error) => {
                    answer.fail(Some(&mount.mountpoint), &Failure::from(&error));
                    continue;
                }
            };
            while kind == ActionKind::Release && !has_ended(&action) {
                match mount.client.call(&GetAction { id: action.id, wait_ms: WAIT_MS }).await {
                    Ok(later) => action = later,
                    Err(error) => {
                        answer.fail(Some(&mount.mountpoint), &Failure::from(&error));
                        break;
                    }
                }
            }
            for refused in &action.reasons {
                let path = crate::targets::above(&mount.mountpoint, &refused.path);
                let failure = Failure::new(Errno::PERM, refused.reason.clone());
                answer.fail(Some(&path), &failure);
            }
            let told = u64::try_from(action.reasons.len()).unwrap_or(u64::MAX);
            if action.refused > told {
                let text = format!("{} more files were refused", action.refused - told);
                answer.fail(Some(&mount.mountpoint), &Failure::new(Errno::PERM, text));
            }
        }
    }

    /// Stops the actions that were asked for these files and no others.
    async fn cancel(&mut self, answer: &mut Answer<'_>) {
        self.regular(answer);
        let states = self.states(answer).await;
        let mut actions: Vec<(usize, ActionId, PathBuf)> = Vec::new();
        for ((mount, target), state) in self.found.iter().zip(states) {
            if let Some(id) = state.and_then(|state| state.action)
                && !actions.iter().any(|(m, i, _)| (m, i) == (mount, &id))
            {
                actions.push((*mount, id, target.asked.clone()));
            }
        }
        for (at, id, path) in actions {
            let client = &self.finder.mounts[at].client;
            let asked = |ino| self.found.iter().any(|(m, target)| *m == at && target.ino == ino);
            let done = match client.call(&GetAction { id, wait_ms: 0 }).await {
                Ok(action) if action.request.roots.iter().all(|root| asked(root.ino.0)) => client
                    .call(&Cancel { id })
                    .await
                    .map(drop)
                    .map_err(|error| Failure::from(&error)),
                Ok(action) => {
                    let id = action.id.0;
                    let text = format!(
                        "belongs to action {id}, which does more than these files: `weir cancel \
                         {id}` stops all of it"
                    );
                    Err(Failure::new(Errno::BUSY, text))
                }
                Err(error) => Err(Failure::from(&error)),
            };
            if let Err(failure) = done {
                answer.fail(Some(&path), &failure);
            }
        }
    }

    async fn pin(&mut self, pinned: bool, answer: &mut Answer<'_>) {
        self.regular(answer);
        for (at, target) in self.found.drain(..) {
            self.finder.mounts[at].targets.push(target);
        }
        for mount in self.finder.mounts.iter().filter(|mount| !mount.targets.is_empty()) {
            if let Err(error) =
                mount.client.call(&Pin { roots: mount.roots(), recursive: false, pinned }).await
            {
                answer.fail(Some(&mount.mountpoint), &Failure::from(&error));
            }
        }
    }
}

impl Answer<'_> {
    /// A file that is gone; or its daemon could not be asked, which was told.
    fn fail_unknown(&mut self, path: &OsStr) {
        if self.first.is_none() {
            let failure = Failure::new(Errno::NOENT, "No such file or directory");
            self.fail(Some(Path::new(path)), &failure);
        }
    }
}

fn has_ended(action: &ActionView) -> bool {
    matches!(action.state, ActionState::Done | ActionState::Cancelled)
}

/// What follows the path in a line of `hsm_state`.
fn state_text(state: &FileState) -> String {
    let told: Vec<_> = FLAGS.iter().filter(|(_, _, has)| has(state)).collect();
    let bits: u32 = told.iter().map(|(bit, _, _)| bit).sum();
    let mut text = format!(": (0x{bits:08x})");
    for (_, word, _) in told {
        text.push(' ');
        text.push_str(word);
    }
    if state.exists || state.archived {
        text.push_str(&format!(", archive_id:{ARCHIVE_ID}"));
    }
    text
}

/// What follows the path in a line of `hsm_action`.
fn action_text(state: &FileState, action: Option<&ActionView>) -> String {
    let Some(action) = action.filter(|action| !has_ended(action)) else {
        return ": NOOP".to_owned();
    };
    let name = match action.request.kind {
        ActionKind::Hydrate => "RESTORE",
        ActionKind::Release => "RELEASE",
        ActionKind::Archive => "ARCHIVE",
    };
    let moved = match action.request.kind {
        ActionKind::Hydrate => state.resident_bytes.min(state.size),
        // Of an action over several files nobody knows what is this one's.
        _ if action.files_total > 1 => 0,
        _ => action.bytes_done,
    };
    match action.state {
        ActionState::Waiting | ActionState::Away => format!(": {name} waiting (from 0 to EOF)"),
        _ => format!(": {name} running ({moved} bytes moved)"),
    }
}

#[cfg(test)]
mod tests;
