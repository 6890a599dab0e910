//! XDR (RFC 4506): what is written, and what is read back.

/// Bytes under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn bool(self, value: bool) -> Self {
        self.u32(value.into())
    }

    /// Bytes whose number both sides know.
    pub fn fixed(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Their number first.
    pub fn opaque(self, bytes: &[u8]) -> Self {
        self.u32(bytes.len() as u32).fixed(bytes)
    }

    /// What was written elsewhere.
    pub fn add(mut self, other: &Writer) -> Self {
        self.0.extend(&other.0);
        self
    }

    /// A `bitmap4` with these bits.
    pub fn bitmap(self, bits: &[u32]) -> Self {
        let mut words = Vec::new();
        for bit in bits {
            let word = *bit as usize / 32;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1u32 << (bit % 32);
        }
        self.words(&words)
    }

    /// An array of numbers.
    pub fn words(self, words: &[u32]) -> Self {
        words.iter().fold(self.u32(words.len() as u32), |to, word| to.u32(*word))
    }
}

/// Bytes that a server sent. It sends none that are wrong: reading past the end is a failure of the test.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(len).expect("the server sent too little");
        self.rest = rest;
        taken
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        self.fixed(N).try_into().expect("as many as asked for")
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    pub fn bool(&mut self) -> bool {
        match self.u32() {
            0 => false,
            1 => true,
            other => panic!("{other} is no bool"),
        }
    }

    pub fn fixed(&mut self, len: usize) -> &'a [u8] {
        let bytes = self.take(len);
        let padding = self.take(len.next_multiple_of(4) - len);
        assert!(padding.iter().all(|byte| *byte == 0), "padding that is not zero");
        bytes
    }

    pub fn opaque(&mut self) -> Vec<u8> {
        let len = self.u32() as usize;
        self.fixed(len).to_vec()
    }

    pub fn words(&mut self) -> Vec<u32> {
        self.many(Reader::u32)
    }

    /// The bits that are set.
    pub fn bitmap(&mut self) -> Vec<u32> {
        let words = self.words();
        let bits = words.iter().zip(0u32..).flat_map(|(word, at)| {
            (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 32 + bit)
        });
        bits.collect()
    }

    /// An array.
    pub fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.u32();
        (0..len).map(|_| one(self)).collect()
    }

    /// What is left, all of it.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn assert_empty(&self) {
        assert!(self.rest.is_empty(), "{} bytes too many", self.rest.len());
    }
}
