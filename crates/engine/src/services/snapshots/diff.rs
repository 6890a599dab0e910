//! What is different between two snapshots, or a snapshot and the volume as it is now.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::kv::Kv;
use weir_meta::{Between, Change, Difference, differences};
use weir_types::{ErrorKind, FileKind, FsError, Result};

use super::Snapshots;

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffOptions {
    /// The snapshot that is compared with.
    pub before: String,
    /// The other one; the volume as it is now without one. What programs change meanwhile may be told or not.
    #[serde(default)]
    pub after: Option<String>,
    /// Where to go on: `next` of the answer before.
    #[serde(default)]
    pub from: Option<String>,
}

/// Some of the differences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffPage {
    /// Each a name.
    pub differences: Vec<DifferenceView>,
    /// Where the rest begins, if there is any.
    pub next: Option<String>,
    /// Names that were looked at for this.
    pub names: u64,
    /// Files that there are to look at, about.
    pub files: u64,
}

/// What is different of a name.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NameChange {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// Its bytes are others, or it is another file.
    Content,
    /// Only its owner, mode, links, times or attributes are others.
    Attributes,
}

/// A name that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceView {
    /// How.
    pub change: NameChange,
    /// From the volume's root, as it is after; as it was before, if it was removed.
    pub path: String,
    /// `file`, `directory`, `symlink`, …
    pub kind: String,
    /// The number of the file. One that was removed under one name and added under another was renamed.
    pub ino: u64,
    /// The file was there before, and has other bytes now.
    pub rewritten: bool,
}

impl Snapshots {
    /// A page of the differences, up to some thousands. Without `after` what programs wrote before is flushed first. Two
    /// reads of 2,000 names, two of the inodes of those, and two for each directory above one that differs.
    pub(crate) async fn diff(&self, options: &DiffOptions) -> Result<DiffPage> {
        let DiffOptions { before, after, from } = options;
        let cursor = from.as_deref().map(unhex).transpose()?;
        let old = self.state_of(before).await?;
        let (new, files) = match after {
            Some(after) => {
                let row = self.meta.snapshot(after).await?;
                let files = row.state.as_ref().map_or(0, |state| state.inodes);
                (self.meta.view_as(&row).await?.kv().clone(), files)
            }
            None => {
                if cursor.is_none() && !self.context.read_only {
                    self.durability.flush_all().await?;
                }
                (self.meta.kv().clone(), self.meta.usage().await?.inodes)
            }
        };
        let between = Between { before: &*old, after: &*new };
        let page = differences(between, cursor.as_deref()).await?;
        Ok(DiffPage {
            differences: page.found.into_iter().map(told).collect(),
            next: page.next.map(|next| hex(&next)),
            names: page.entries,
            files,
        })
    }

    async fn state_of(&self, name: &str) -> Result<Arc<dyn Kv>> {
        let row = self.meta.snapshot(name).await?;
        Ok(self.meta.view_as(&row).await?.kv().clone())
    }
}

fn told(of: Difference) -> DifferenceView {
    let Difference { change, path, ino, kind, rewritten } = of;
    DifferenceView {
        change: match change {
            Change::Came => NameChange::Added,
            Change::Went => NameChange::Removed,
            Change::Changed { content: true } => NameChange::Content,
            Change::Changed { content: false } => NameChange::Attributes,
        },
        path: format!("/{}", String::from_utf8_lossy(&path)),
        kind: kind_name(kind).to_owned(),
        ino: ino.0,
        rewritten,
    }
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::BlockDevice => "block device",
        FileKind::CharDevice => "character device",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let wrong = || FsError::new(ErrorKind::Invalid, "`from` is no `next` of an answer before");
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_go_on_are_text() {
        assert_eq!(unhex(&hex(&[0, 0xff, 0x44])).expect("is one"), [0, 0xff, 0x44]);
        for wrong in ["0", "zz", "ä"] {
            assert_eq!(unhex(wrong).expect_err(wrong).kind(), ErrorKind::Invalid);
        }
    }
}
