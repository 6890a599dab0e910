//! Values that lead to other keys: what an entry of a directory says is where its inode is.

use super::contract::{Key, Versioned};

/// Bytes behind the first one that a number may take: 63 bits, 7 in each.
pub(super) const NUMBER_BYTES: usize = 9;

/// What a value was, and what is at the keys that it leads to, all of them as of one moment where the
/// engine can tell such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The value that was followed; `None` if it is absent.
    pub from: Option<Versioned>,
    /// For each tag what is at its key, in their order; `None` for those absent, and all `None` where
    /// the value leads nowhere.
    pub to: Vec<Option<Versioned>>,
}

/// The keys that `value` leads to: each is a tag and, in 8 bytes, big endian, the number that the value
/// has behind its first byte: below 2^63, in groups of 7 bits, the lowest first, each but the last with
/// the high bit set. Empty where it has none.
pub(super) fn leads_to(value: &[u8], tags: &[u8]) -> Vec<Key> {
    let Some(number) = number_in(value) else { return Vec::new() };
    let key = |tag: &u8| std::iter::once(*tag).chain(number.to_be_bytes()).collect();
    tags.iter().map(key).collect()
}

fn number_in(value: &[u8]) -> Option<u64> {
    let bytes = value.iter().skip(1).take(NUMBER_BYTES);
    let mut number = 0;
    for (byte, place) in bytes.zip(0..) {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
