//! Where to cut an interval of keys so that several listings share it: guesses, made from the
//! keys that were seen.
//!
//! A key is read as a number whose digits are the ranks of its bytes among the bytes that occur in
//! their place. The keys of a page tell how far a page reaches; a cut lies some pages' reach further
//! on. So a cut stays among the keys even where these are crowded in a few places, and only the last
//! cuts fall behind the end.

/// Digits that count behind the place where keys begin to differ.
const DIGITS: usize = 8;
/// Bytes from here on share one alphabet.
const PLACES: usize = 200;

/// The bytes that occur in keys, by place.
pub(super) struct Alphabet {
    places: Vec<[bool; 256]>,
    anywhere: [bool; 256],
}

/// The digits of one place.
struct Place {
    bytes: Vec<u8>,
    digits: [u32; 256],
}

impl Place {
    /// One more than there are bytes: digit 0 is the end of a key.
    fn base(&self) -> u32 {
        self.bytes.len() as u32 + 1
    }
}

impl Alphabet {
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), anywhere: [false; 256] }
    }

    pub(super) fn learn(&mut self, key: &[u8]) {
        let len = key.len().min(PLACES);
        if self.places.len() < len {
            self.places.resize(len, [false; 256]);
        }
        for (at, byte) in key.iter().enumerate() {
            self.places[at.min(PLACES - 1)][usize::from(*byte)] = true;
            self.anywhere[usize::from(*byte)] = true;
        }
    }

    /// Where one digit was, there may be others, and where a letter was, other letters.
    fn place(&self, at: usize) -> Place {
        let seen = self.places.get(at.min(PLACES - 1)).unwrap_or(&self.anywhere);
        let any =
            |like: fn(&u8) -> bool| (0..=255).any(|byte| seen[usize::from(byte)] && like(&byte));
        let number = any(u8::is_ascii_digit);
        let lower = any(u8::is_ascii_lowercase);
        let upper = any(u8::is_ascii_uppercase);
        let occurs = |byte: &u8| {
            let known = self.anywhere[usize::from(*byte)];
            seen[usize::from(*byte)]
                || (number && byte.is_ascii_digit())
                || (lower && known && byte.is_ascii_lowercase())
                || (upper && known && byte.is_ascii_uppercase())
        };
        let bytes: Vec<u8> = (0..=255).filter(occurs).collect();
        let mut digits = [0; 256];
        let mut smaller = 0;
        for (byte, digit) in digits.iter_mut().enumerate() {
            *digit = (smaller + 1).min(bytes.len());
            smaller +=
                usize::from(bytes.get(smaller).is_some_and(|next| usize::from(*next) == byte));
        }
        Place { bytes, digits: digits.map(|digit| digit as u32) }
    }
}

/// Up to `cuts` keys between `last` and `until`, ascending, `reach` pages apart or nearer. `first`
/// and `last` are the ends of the page that was seen just now. None where the rest seems to be
/// less than two pages. All are UTF-8.
pub(super) fn cuts(
    alphabet: &Alphabet,
    (first, last): (&[u8], &[u8]),
    until: Option<&[u8]>,
    reach: u32,
    cuts: usize,
) -> Vec<Vec<u8>> {
    let common = |other: &[u8]| last.iter().zip(other).take_while(|(a, b)| a == b).count();
    let len = common(first).max(until.map_or(0, common)) + DIGITS;
    let places: Vec<Place> = (0..len).map(|at| alphabet.place(at)).collect();
    let number = |key: &[u8]| -> Vec<u32> {
        let digits = places.iter().enumerate();
        digits.map(|(at, p)| key.get(at).map_or(0, |byte| p.digits[usize::from(*byte)])).collect()
    };
    let at = number(last);
    let end = until.map_or_else(|| places.iter().map(|p| p.base() - 1).collect(), number);
    let page = minus(&at, &number(first), &places);
    let Some(page) = page.filter(|page| page.iter().any(|digit| *digit > 0)) else {
        return Vec::new();
    };
    let Some(room) = minus(&end, &at, &places) else { return Vec::new() };
    if until.is_some() && times(&page, 2, &places).is_none_or(|two| room < two) {
        return Vec::new();
    }
    let even = divided(&room, cuts as u32 + 1, &places);
    let step = times(&page, reach, &places).map_or(even.clone(), |far| far.min(even));
    let step = step.max(page);
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut here = at;
    for _ in 0..cuts {
        let Some(next) = plus(&here, &step, &places) else { break };
        here = next;
        let guess = key(&here, &places);
        if until.is_some_and(|until| guess.as_slice() >= until) {
            break;
        }
        if guess.as_slice() > found.last().map_or(last, Vec::as_slice) {
            found.push(guess);
        }
    }
    found
}

/// The key of a number, cut off where it ends or stops being UTF-8.
fn key(number: &[u32], places: &[Place]) -> Vec<u8> {
    let digits = number.iter().zip(places).take_while(|(digit, _)| **digit > 0);
    let mut key: Vec<u8> = digits.map(|(digit, place)| place.bytes[*digit as usize - 1]).collect();
    key.truncate(utf8_len(&key));
    key
}

/// Length of the longest beginning of `key` that is UTF-8.
pub(super) fn utf8_len(key: &[u8]) -> usize {
    std::str::from_utf8(key).map_or_else(|error| error.valid_up_to(), str::len)
}

/// `a + b`, if it fits.
fn plus(a: &[u32], b: &[u32], places: &[Place]) -> Option<Vec<u32>> {
    let mut carry = 0;
    let mut sum = vec![0; a.len()];
    for at in (0..a.len()).rev() {
        let digit = a[at] + b[at] + carry;
        (sum[at], carry) = (digit % places[at].base(), digit / places[at].base());
    }
    (carry == 0).then_some(sum)
}

/// `a - b`, unless that is below zero.
fn minus(a: &[u32], b: &[u32], places: &[Place]) -> Option<Vec<u32>> {
    let mut borrow = 0;
    let mut left = vec![0; a.len()];
    for at in (0..a.len()).rev() {
        let less = b[at] + borrow;
        borrow = u32::from(a[at] < less);
        left[at] = a[at] + borrow * places[at].base() - less;
    }
    (borrow == 0).then_some(left)
}

/// `a * n`, if it fits.
fn times(a: &[u32], n: u32, places: &[Place]) -> Option<Vec<u32>> {
    let mut carry = 0_u64;
    let mut product = vec![0; a.len()];
    for at in (0..a.len()).rev() {
        let base = u64::from(places[at].base());
        let digit = u64::from(a[at]) * u64::from(n) + carry;
        product[at] = (digit % base) as u32;
        carry = digit / base;
    }
    (carry == 0).then_some(product)
}

/// `a / n`, rounded down.
fn divided(a: &[u32], n: u32, places: &[Place]) -> Vec<u32> {
    let mut rest = 0_u64;
    let digit = |(digit, place): (&u32, &Place)| {
        let have = rest * u64::from(place.base()) + u64::from(*digit);
        rest = have % u64::from(n);
        (have / u64::from(n)) as u32
    };
    a.iter().zip(places).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses(keys: &[&str], until: Option<&str>, reach: u32, n: usize) -> Vec<String> {
        let mut alphabet = Alphabet::new();
        keys.iter().for_each(|key| alphabet.learn(key.as_bytes()));
        let ends = (keys[0].as_bytes(), keys[keys.len() - 1].as_bytes());
        let cuts = cuts(&alphabet, ends, until.map(str::as_bytes), reach, n);
        cuts.into_iter().map(|cut| String::from_utf8(cut).expect("UTF-8")).collect()
    }

    #[test]
    fn cuts_follow_how_far_a_page_reaches() {
        // Ten keys a page.
        let seen = ["n0123456789", "n00", "n09"];
        let found = guesses(&["n00", seen[0], "n09"], None, 2, 3);
        assert_eq!(found, ["n25", "n41", "n58"]);
        // Within bounds they share what is left evenly.
        let found = guesses(&["n00", seen[0], "n09"], Some("n49"), 1000, 3);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|cut| ("n10".."n49").contains(&cut.as_str())), "{found:?}");
        // Less than two pages are left to one.
        assert_eq!(guesses(&["n00", seen[0], "n09"], Some("n20"), 1000, 3), [""; 0]);
    }

    #[test]
    fn cuts_carry_into_the_directory_above() {
        let keys = ["2024/08/00", "2024/08/99", "1357/6"];
        let found = guesses(&[keys[0], keys[2], keys[1]], None, 4, 2);
        assert_eq!(found.len(), 2);
        assert!(found[0].as_str() > keys[1] && found[0].starts_with("2024/"), "{found:?}");
    }

    #[test]
    fn cuts_are_between_and_in_order_whatever_the_keys() {
        let seed: u64 = rand::random();
        eprintln!("seed {seed}");
        let mut rng = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
        let mut any = |least: usize| -> Vec<u8> {
            use rand::RngExt;
            let len = rng.random_range(least..12);
            let bytes = b"ab/\xc3\xbc\xff\x00\x7f09";
            (0..len).map(|_| bytes[rng.random_range(0..bytes.len())]).collect()
        };
        let mut found_any = 0;
        for round in 0..20_000_u32 {
            let mut keys = [any(1), any(1), any(1)];
            keys.sort();
            let [first, last, until] = &keys;
            let mut alphabet = Alphabet::new();
            keys.iter().for_each(|key| alphabet.learn(key));
            let until = (round % 2 == 0).then_some(until.as_slice());
            let found = cuts(&alphabet, (first, last), until, 1 << (round % 20), 4);
            found_any += found.len();
            let mut below = last.as_slice();
            for cut in &found {
                assert!(cut.as_slice() > below, "{keys:?} {found:?}");
                assert!(std::str::from_utf8(cut).is_ok());
                below = cut;
            }
            assert!(until.is_none_or(|until| found.is_empty() || below < until));
        }
        assert!(found_any > 1000, "{found_any}");
    }
}
