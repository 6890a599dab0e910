//! Where an inode is in the tree, for people.

use weir_types::{Ino, Result};

use crate::codec::{Dirent, decode, last_key};
use crate::keys;
use crate::kv::{Key, Kv};
use crate::op::seen_inode;

/// Entries read at once, and in one directory at most.
const PAGE: usize = 10_000;
const ENTRIES_MAX: usize = 100_000;
/// Directories above one another at most: a move meanwhile could make it climb for longer.
const DEPTH_MAX: usize = 1_000;

/// A path of an inode below the root, `.` for the root; `None` if it has no name, is moved meanwhile, or is in
/// a directory so large that it is not looked for. Of several names it is one. Two reads for each directory
/// above it, one more for each 10,000 names in that.
pub async fn path_of(kv: &dyn Kv, ino: Ino) -> Result<Option<Vec<u8>>> {
    let (mut at, mut names) = (ino, Vec::new());
    while at != Ino::ROOT {
        let found = kv.get_many(&[keys::inode(at)]).await?;
        let Some(inode) = seen_inode(at, found[0].as_ref())?.map(|seen| seen.value) else {
            return Ok(None);
        };
        let name = match inode.nlink == 0 || names.len() >= DEPTH_MAX {
            true => None,
            false => name_in(kv, inode.parent, at).await?,
        };
        let Some(name) = name else { return Ok(None) };
        names.push(name);
        at = inode.parent;
    }
    names.reverse();
    Ok(Some(if names.is_empty() { b".".to_vec() } else { names.join(&b'/') }))
}

async fn name_in(kv: &dyn Kv, dir: Ino, ino: Ino) -> Result<Option<Vec<u8>>> {
    let mut after: Option<Key> = None;
    for _ in 0..ENTRIES_MAX / PAGE {
        let page = kv.scan(&keys::dirents(dir), after.as_deref(), PAGE).await?;
        for (key, found) in &page {
            let entry: Dirent = decode(key, &found.value)?;
            if entry.ino == ino {
                return Ok(keys::parse_dirent(key).map(|(_, name)| name.to_vec()));
            }
        }
        if page.len() < PAGE {
            break;
        }
        after = last_key(&page);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::tests::{dir, file, meta_over};

    #[tokio::test]
    async fn what_has_a_name_has_a_path() {
        let kv = Arc::new(MemoryKv::new());
        let meta = meta_over(kv.clone()).await;
        let above = dir(&meta, Ino::ROOT, "a").await;
        let below = dir(&meta, above, "b").await;
        let ino = file(&meta, below, "f").await;
        file(&meta, below, "g").await;
        let path = async |ino| path_of(&*kv, ino).await.expect("reads");
        assert_eq!(path(ino).await.as_deref(), Some(&b"a/b/f"[..]));
        assert_eq!(path(below).await.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(path(Ino::ROOT).await.as_deref(), Some(&b"."[..]));
        meta.unlink(below, b"f").await.expect("unlinks");
        assert_eq!(path(ino).await, None, "it has none any more");
        assert_eq!(path(Ino(99_999)).await, None, "nobody ever heard of it");
    }
}
