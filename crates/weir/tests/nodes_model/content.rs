//! What is in files: words of 8 bytes that know who wrote them and where they belong, so that whoever
//! reads can tell whose each one is; and records, which are appended.

use serde::{Deserialize, Serialize};

/// Which write.
pub(crate) type Tag = u32;
/// A word of zeros, that nobody wrote.
pub(crate) const ZERO: Tag = 0;
/// A word that nobody wrote at this place.
pub(crate) const ALIEN: Tag = Tag::MAX;
pub(crate) const WORD: u64 = 8;
/// Words of a page.
pub(crate) const PAGE: u64 = 4096 / WORD;

/// Bytes of `words` words that a write puts at word `at`.
pub(crate) fn bytes_of(tag: Tag, at: u64, words: u64) -> Vec<u8> {
    let word = |n: u64| (u64::from(tag) << 32 | (n & 0xffff_ffff)).to_le_bytes();
    (at..at + words).flat_map(word).collect()
}

/// Words of one write that stand side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tag: Tag,
    pub(crate) words: u64,
}

/// Whose the words of a file are that begins with these bytes.
pub(crate) fn runs_of(bytes: &[u8]) -> Vec<Run> {
    let tags = bytes.chunks(WORD as usize).enumerate().map(|(at, word)| {
        let Ok(word) = word.try_into().map(u64::from_le_bytes) else { return ALIEN };
        match (word >> 32) as Tag {
            _ if word == 0 => ZERO,
            tag if word & 0xffff_ffff == at as u64 && tag != ZERO => tag,
            _ => ALIEN,
        }
    });
    in_runs(tags)
}

pub(crate) fn in_runs(tags: impl IntoIterator<Item = Tag>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for tag in tags {
        match runs.last_mut() {
            Some(last) if last.tag == tag => last.words += 1,
            _ => runs.push(Run { tag, words: 1 }),
        }
    }
    runs
}

pub(crate) fn tags_of(runs: &[Run]) -> impl Iterator<Item = Tag> + '_ {
    runs.iter().flat_map(|run| std::iter::repeat_n(run.tag, run.words as usize))
}

/// As people read it; of many runs the first ones.
pub(crate) fn told(runs: &[Run]) -> String {
    const SHOWN: usize = 12;
    let tag = |tag| match tag {
        ZERO => "zeros".to_owned(),
        ALIEN => "bytes of nobody".to_owned(),
        tag => format!("#{tag}"),
    };
    let one = |run: &Run| format!("{}×{}", run.words, tag(run.tag));
    let mut told: Vec<_> = runs.iter().take(SHOWN).map(one).collect();
    if runs.len() > SHOWN {
        told.push(format!("… {} runs more", runs.len() - SHOWN));
    }
    format!("[{}]", told.join(" "))
}

/// A record that is appended: whose it is, and which of its.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) writer: u32,
    pub(crate) number: u32,
    /// With its head.
    pub(crate) bytes: u32,
}

const MAGIC: [u8; 8] = *b"\xabrecord\n";
/// Bytes of a record's head, which no record is shorter than.
pub(crate) const HEAD: u32 = 20;

impl Record {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut all = MAGIC.to_vec();
        for number in [self.writer, self.number, self.bytes] {
            all.extend(number.to_le_bytes());
        }
        let mut state = u64::from(self.writer) << 32 | u64::from(self.number);
        while all.len() < self.bytes as usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Never the first byte of a head.
            all.push((state >> 57) as u8);
        }
        all
    }

    /// The record that these bytes begin with, if all of it is there.
    fn at_start(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD as usize)?.strip_prefix(&MAGIC)?;
        let mut numbers =
            head.chunks(4).map(|n| u32::from_le_bytes(n.try_into().expect("4 bytes")));
        let mut number = || numbers.next().expect("a head has three");
        let record = Self { writer: number(), number: number(), bytes: number() };
        let whole = bytes.get(..record.bytes as usize)?;
        (record.bytes >= HEAD && record.to_bytes() == whole).then_some(record)
    }
}

/// Whole records with their places, in their order, and how many bytes belong to none.
pub(crate) fn records_in(bytes: &[u8]) -> (Vec<(u64, Record)>, u64) {
    let (mut found, mut at, mut stray) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        match Record::at_start(&bytes[at..]) {
            Some(record) => {
                found.push((at as u64, record));
                at += record.bytes as usize;
            }
            None => {
                stray += 1;
                at += 1;
            }
        }
    }
    (found, stray)
}
