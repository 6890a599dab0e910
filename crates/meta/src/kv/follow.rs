//! Values that lead to other keys: what an entry of a directory says is where its inode is.

/// Bytes behind the first one that a number may take: 63 bits, 7 in each.
pub(super) const NUMBER_BYTES: usize = 9;

/// The keys that `value` leads to: each is a tag and, in 8 bytes, big endian, the number that the value
/// has behind its first byte: below 2^63, in groups of 7 bits, the lowest first, each but the last with
/// the high bit set. Empty where it has none.
pub(crate) fn leads_to(value: &[u8], tags: &[u8]) -> Vec<Vec<u8>> {
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
