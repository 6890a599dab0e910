//! What files and objects hold, and what became of it. Each block of 16 bytes tells which write it is
//! of, so that bytes of two versions of an object cannot come together unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const BLOCK_BYTES: usize = 16;

/// The writes that blocks are of, and how many of each follow each other. Write 0 is a hole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content(Vec<(u32, u64)>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(write, n)| format!("{write}x{n}")).collect();
        write!(f, "<{}>", parts.join(" "))
    }
}

impl Content {
    pub fn of(write: u32, blocks: u64) -> Self {
        Self(vec![(write, blocks)])
    }

    pub fn blocks(&self) -> u64 {
        self.0.iter().map(|(_, blocks)| blocks).sum()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let block = |write: u32| match write {
            0 => vec![0; BLOCK_BYTES],
            write => format!("{write:015}\n").into_bytes(),
        };
        self.0.iter().flat_map(|(write, blocks)| block(*write).repeat(*blocks as usize)).collect()
    }

    pub fn parse(bytes: &[u8]) -> Self {
        let mut content = Self(Vec::new());
        let mut last: Option<&[u8]> = None;
        for block in bytes.chunks(BLOCK_BYTES) {
            if last == Some(block) {
                content.0.last_mut().expect("one").1 += 1;
                continue;
            }
            let write = match block.iter().all(|byte| *byte == 0) {
                true => 0,
                false => {
                    let text = std::str::from_utf8(block).ok().and_then(|b| b.strip_suffix('\n'));
                    let write = text.and_then(|text| text.parse().ok());
                    write.unwrap_or_else(|| panic!("nobody wrote {}", block.escape_ascii()))
                }
            };
            content.0.push((write, 1));
            last = Some(block);
        }
        content
    }

    /// With `blocks` of `write` at block `at`.
    pub fn with(&self, at: u64, write: u32, blocks: u64) -> Self {
        let mut parts = self.cut(at).0;
        parts.push((write, blocks));
        let mut start = 0;
        for (write, n) in &self.0 {
            let from = start.max(at + blocks);
            start += n;
            parts.extend(start.checked_sub(from).filter(|n| *n > 0).map(|n| (*write, n)));
        }
        Self(parts).joined()
    }

    /// Cut or extended to `blocks`.
    pub fn cut(&self, blocks: u64) -> Self {
        let (mut parts, mut left) = (Vec::new(), blocks);
        for (write, n) in &self.0 {
            parts.push((*write, left.min(*n)));
            left -= left.min(*n);
        }
        parts.push((0, left));
        Self(parts).joined()
    }

    fn joined(self) -> Self {
        let mut parts: Vec<(u32, u64)> = Vec::new();
        for (write, n) in self.0.into_iter().filter(|(_, n)| *n > 0) {
            match parts.last_mut().filter(|(last, _)| *last == write) {
                Some(last) => last.1 += n,
                None => parts.push((write, n)),
            }
        }
        Self(parts)
    }
}

/// What became of one content.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// The key that others put it at, and have not replaced it since.
    pub theirs: Option<String>,
    /// Somebody put something else in its place, or deleted it, knowing it.
    pub gone: bool,
    /// Its file was removed or renamed here.
    pub removed: bool,
    /// Its file got a name that can be no key.
    pub parked: bool,
    /// We did something for which its object may be replaced or deleted.
    pub may_go: bool,
    /// Contents of which parts may be in it.
    bases: BTreeSet<Content>,
    /// Bytes had been released so many times when it was written.
    releases: u64,
    /// Others replaced the object that parts of it may be in: what is here is all there is.
    only_here: bool,
}

/// All that was ever written.
#[derive(Debug, Default)]
pub struct Ledger {
    pub fates: BTreeMap<Content, Fate>,
    writes: u32,
    /// How often clean bytes may have gone from the tier.
    releases: u64,
    /// What was committed and not flushed may be forgotten.
    pub lost_tier: bool,
}

impl Ledger {
    pub fn next_write(&mut self) -> u32 {
        self.writes += 1;
        self.writes
    }

    /// Notes a content that was written here, over `old` and maybe with parts of it.
    pub fn write(&mut self, new: &Content, old: Option<&Content>, applied: bool) {
        let bases = match old {
            Some(old) => {
                let of_old = self.fates.get(old).map(|fate| fate.bases.clone());
                of_old.into_iter().flatten().chain([old.clone()]).collect()
            }
            None => BTreeSet::new(),
        };
        let gone = !applied || new.blocks() == 0;
        let fate = Fate { gone, bases, releases: self.releases, ..Fate::default() };
        self.fates.insert(new.clone(), fate);
    }

    /// Others put a content at a key. Where ETags are of bytes nobody can tell it from itself.
    pub fn put(&mut self, new: &Content, key: &str, of_bytes: bool) {
        let known = self.fates.get(new).filter(|_| of_bytes).cloned().unwrap_or_default();
        let may_go = known.may_go || known.gone;
        let theirs = Some(key.to_owned());
        let fate = Fate { theirs, may_go, releases: self.releases, ..known };
        self.fates.insert(new.clone(), fate);
    }

    /// Others replaced or deleted this object. What is based on it keeps what is here of it.
    pub fn destroyed(&mut self, old: &Content) {
        let releases = self.releases;
        for (content, fate) in &mut self.fates {
            if content == old {
                (fate.gone, fate.theirs) = (true, None);
            }
            let is_based = fate.bases.contains(old);
            fate.gone |= is_based && fate.releases < releases;
            fate.only_here |= is_based;
        }
    }

    /// Clean bytes may go from the tier now.
    pub fn release(&mut self) {
        self.releases += 1;
        self.fates.values_mut().for_each(|fate| fate.gone |= fate.only_here);
    }

    pub fn of(&mut self, content: Option<&Content>) -> Option<&mut Fate> {
        content.and_then(|content| self.fates.get_mut(content))
    }

    /// What others put at this key.
    pub fn theirs_at<'a>(&'a mut self, key: &'a str) -> impl Iterator<Item = &'a mut Fate> {
        self.fates.values_mut().filter(move |fate| fate.theirs.as_deref() == Some(key))
    }

    /// Whether somebody wrote all of it. A new file is empty before that.
    pub fn knows(&self, content: &Content) -> bool {
        content.blocks() == 0 || self.fates.contains_key(content)
    }
}

#[test]
fn contents_are_what_is_read_of_them() {
    let content = Content::of(7, 4).with(1, 8, 2).with(6, 9, 1);
    assert_eq!(content, Content(vec![(7, 1), (8, 2), (7, 1), (0, 2), (9, 1)]));
    assert_eq!(Content::parse(&content.bytes()), content);
    assert_eq!(content.cut(2), Content(vec![(7, 1), (8, 1)]));
}
