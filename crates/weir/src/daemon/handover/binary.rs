//! The binary that is to go on: what can be found out about it before anything stops.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use weir_types::{ErrorKind, FsError, Result};

/// Versions of what is handed over that this build reads; the first is the one it writes.
pub(crate) const VERSIONS: [u32; 1] = [1];

/// How long a binary may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Its word for that.
const COMMAND: &str = "can-take-over";
/// Bytes of a program's head that say for which machines it is.
const HEAD_BYTES: usize = 20;

/// What a binary is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The command line with which it would be executed.
    pub(crate) argv: Vec<OsString>,
    /// Where relative paths in it begin.
    pub(crate) directory: OsString,
    /// Where the volume is mounted.
    pub(crate) mountpoint: OsString,
}

/// What it answers if it understands that. Fields may be added.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The versions of what is handed over that it reads.
    pub(crate) handover: Vec<u32>,
    /// Its own.
    pub(crate) version: String,
}

/// A file that can be executed. It is the one that was looked at, whatever is put into its place.
#[derive(Debug)]
pub(crate) struct Binary {
    file: File,
    path: PathBuf,
}

impl Binary {
    /// The one that runs.
    pub(crate) fn own() -> Result<Self> {
        let path = PathBuf::from("/proc/self/exe");
        let file = File::open(&path).map_err(|e| FsError::local_io("open this program", e))?;
        Ok(Self { file, path })
    }

    /// Opens a file, if it may be executed in the place of this process. Not one on the mount: that
    /// would be read while nobody serves it.
    pub(crate) fn open(path: &Path, mountpoint: Option<&Path>) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).map_err(|e| FsError::local_io(format!("open {shown}"), e))?;
        let at = |e| FsError::local_io(format!("look at {shown}"), e);
        let metadata = file.metadata().map_err(at)?;
        let own = Self::own()?;
        let head = head(&file).map_err(at)?;
        let own_head = head_of(&own).map_err(at)?;
        let on_mount = mountpoint
            .map(std::fs::metadata)
            .transpose()
            .map_err(at)?
            .is_some_and(|mount| mount.dev() == metadata.dev());
        match fault(&metadata, rustix::process::geteuid().as_raw(), head, own_head, on_mount) {
            Some(why) => Err(FsError::new(ErrorKind::Invalid, format!("{shown}: {why}"))),
            None => Ok(Self { file, path: path.to_owned() }),
        }
    }

    /// Asks it whether it would go on with what this build hands over, called so. Answers its version.
    pub(crate) async fn ask(&self, question: &Question) -> Result<String> {
        let no = |why: String| {
            let text = format!("{} cannot take the mount over: {why}", self.path.display());
            FsError::new(ErrorKind::Invalid, text)
        };
        let said = self.run(question).await.map_err(|e| no(format!("it does not run: {e}")))?;
        let Some((ended_well, said, complained)) = said else {
            return Err(no(format!("it did not answer within {} s", ANSWER_MAX.as_secs())));
        };
        let answer: Option<Answer> = serde_json::from_slice(&said).ok();
        match answer {
            Some(answer) if !ended_well => {
                Err(no(format!("version {} says: {complained}", answer.version)))
            }
            None if complained.is_empty() || ended_well => {
                Err(no("it is no weir, or one from before upgrades in place".to_owned()))
            }
            None => Err(no(format!("it says: {complained}"))),
            Some(Answer { handover, version }) => match handover.contains(&VERSIONS[0]) {
                true => Ok(version),
                false => Err(no(format!(
                    "version {version} reads other versions of what is handed over ({handover:?}, \
                     and this is {}): unmount, and mount with it",
                    VERSIONS[0]
                ))),
            },
        }
    }

    /// Whether it ended well, what it answered, and what it complained of; `None` if it takes too
    /// long.
    async fn run(&self, question: &Question) -> std::io::Result<Option<(bool, Vec<u8>, String)>> {
        let question = serde_json::to_vec(question)?;
        let mut child = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .arg0("weir")
            .arg(COMMAND)
            .env_remove("NOTIFY_SOCKET")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let answer = async {
            if let Some(mut input) = child.stdin.take() {
                // One that reads nothing may be gone.
                let _ = input.write_all(&question).await;
            }
            child.wait_with_output().await
        };
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Err(_) => Ok(None),
            Ok(output) => {
                let output = output?;
                let complained = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Ok(Some((output.status.success(), output.stdout, complained)))
            }
        }
    }
}

impl AsFd for Binary {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

type Head = [u8; HEAD_BYTES];

fn head_of(binary: &Binary) -> std::io::Result<Option<Head>> {
    head(&binary.file)
}

fn head(file: &File) -> std::io::Result<Option<Head>> {
    let mut head = Head::default();
    let mut file = file;
    match file.read_exact(&mut head) {
        Ok(()) => Ok(Some(head)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why a file must not be executed in the place of this process, by the user `we` are.
fn fault(
    metadata: &Metadata,
    we: u32,
    head: Option<Head>,
    own: Option<Head>,
    on_mount: bool,
) -> Option<&'static str> {
    // Magic number, word size and order of bytes; then the machine.
    let machine = |head: Head| (head[..6].to_vec(), head[18..].to_vec());
    let is_program = head.is_some_and(|head| head.starts_with(b"\x7fELF"));
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        Some("it is no file that can be executed")
    } else if metadata.uid() != 0 && metadata.uid() != we {
        Some("it belongs to another user: what is executed as the daemon must be root's or its own")
    } else if metadata.mode() & 0o022 != 0 {
        Some("others may change it (its mode): `chmod go-w` it first")
    } else if !is_program {
        Some("it is no program")
    } else if head.map(machine) != own.map(machine) {
        Some("it is for another kind of machine")
    } else if on_mount {
        Some("it is on the mount, where nobody could read it meanwhile: copy it to another disk")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_programs_for_this_machine_that_nobody_else_can_change_are_executed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weir");
        let own = std::fs::read("/proc/self/exe").expect("this program")[..64].to_vec();
        let refused = |bytes: &[u8], mode: u32| {
            std::fs::write(&path, bytes).expect("writes");
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
            Binary::open(&path, None).map(|_| ()).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&own, 0o755), None);
        let says = |bytes: &[u8], mode, what: &str| {
            let said = refused(bytes, mode).unwrap_or_else(|| panic!("not refused: {what}"));
            assert!(said.contains(what), "{said}");
        };
        says(&own, 0o644, "no file that can be executed");
        says(&own, 0o775, "others may change it");
        says(b"#!/bin/sh\nexit 0\n# a script", 0o755, "no program");
        says(b"", 0o755, "no program");
        let mut other = own.clone();
        other[18] ^= 0x55;
        says(&other, 0o755, "another kind of machine");
        let gone = Binary::open(&dir.path().join("none"), None).expect_err("there is none");
        assert!(gone.to_string().contains("none"), "{gone}");
        std::fs::write(&path, &own).expect("writes");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("chmod");
        let on_it = Binary::open(&path, Some(dir.path())).expect_err("it is on the mount");
        assert!(on_it.to_string().contains("on the mount"), "{on_it}");
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        let metadata = std::fs::metadata("/proc/self/exe").expect("this program");
        let head = head_of(&Binary::own().expect("opens")).expect("reads");
        let stranger = metadata.uid() + 1;
        let why = fault(&metadata, stranger, head, head, false);
        assert_eq!(why.is_some(), metadata.uid() != 0, "root's is everybody's");
        assert_eq!(fault(&metadata, metadata.uid(), head, head, false), None);
    }
}
