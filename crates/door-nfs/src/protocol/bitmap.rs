//! Sets of attributes (bitmap4): bit n is bit n % 32 of word n / 32.

use super::xdr::{Reader, Writer, Xdr};

/// Words that are looked at; bits beyond them are of nothing that anybody has yet.
const WORDS: usize = 3;
/// Words that are passed over.
const WORDS_MAX: usize = 32;

/// A set of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bitmap([u32; WORDS]);

impl Bitmap {
    /// Those of these numbers.
    pub(crate) const fn of(numbers: &[u32]) -> Self {
        let mut words = [0; WORDS];
        let mut at = 0;
        while at < numbers.len() {
            words[(numbers[at] / 32) as usize] |= 1 << (numbers[at] % 32);
            at += 1;
        }
        Self(words)
    }

    pub(crate) fn has(self, number: u32) -> bool {
        let word = self.0.get((number / 32) as usize).copied().unwrap_or(0);
        word & (1 << (number % 32)) != 0
    }

    pub(crate) fn insert(&mut self, number: u32) {
        self.0[(number / 32) as usize] |= 1 << (number % 32);
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Their numbers, rising.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..32 * WORDS as u32).filter(move |number| self.has(*number))
    }

    /// Bits beyond what is known are left out, but for what they say: that there is something more.
    pub(crate) fn read(input: &mut Reader) -> Xdr<(Self, bool)> {
        let words = input.list(WORDS_MAX, Reader::u32)?;
        let more = words.iter().skip(WORDS).any(|word| *word != 0);
        let known = std::array::from_fn(|at| words.get(at).copied().unwrap_or(0));
        Ok((Self(known), more))
    }

    pub(crate) fn write(self, out: &mut Writer) {
        let words = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        out.u32(words as u32);
        for word in &self.0[..words] {
            out.u32(*word);
        }
    }
}
