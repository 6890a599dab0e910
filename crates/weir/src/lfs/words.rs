//! Command line words as getopt_long(3) reads them: short options may be joined, operands may stand
//! between options, `--` ends options.

use std::ffi::OsString;

use lexopt::{Arg, Parser, ValueExt};
use rustix::io::Errno;

use super::answer::Failure;

/// An option: its letter (or a number of its own below 32), its long names, whether it has a value.
pub(super) struct Known {
    pub(super) letter: char,
    pub(super) long: &'static [&'static str],
    pub(super) value: bool,
}

/// An option without a value.
pub(super) const fn flag(letter: char, long: &'static [&'static str]) -> Known {
    Known { letter, long, value: false }
}

/// An option with a value.
pub(super) const fn value(letter: char, long: &'static [&'static str]) -> Known {
    Known { letter, long, value: true }
}

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Options in their order, by letter, with their values.
    pub(super) options: Vec<(char, String)>,
    pub(super) operands: Vec<OsString>,
}

impl Words {
    pub(super) fn has(&self, letter: char) -> bool {
        self.options.iter().any(|(given, _)| *given == letter)
    }

    /// The last value of an option.
    pub(super) fn value(&self, letter: char) -> Option<&str> {
        let found = self.options.iter().rev().find(|(given, _)| *given == letter);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads `words` by what is `known`.
pub(super) fn read(words: &[OsString], known: &[Known]) -> Result<Words, Failure> {
    let mut found = Words::default();
    let mut words = Parser::from_args(words.to_vec());
    // getopt_long takes `-c=4` for the value `=4`.
    words.set_short_equals(false);
    while let Some(word) = words.next()? {
        let option = match &word {
            Arg::Value(operand) => {
                found.operands.push(operand.clone());
                continue;
            }
            Arg::Short(letter) => known.iter().find(|known| known.letter == *letter),
            Arg::Long(name) => known.iter().find(|known| known.long.contains(name)),
        };
        let option = option.ok_or_else(|| word.unexpected())?;
        let given = if option.value { words.value()?.string()? } else { String::new() };
        found.options.push((option.letter, given));
    }
    Ok(found)
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self::new(Errno::INVAL, format!("{error}: see `lfs help`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known; 3] =
        [flag('d', &["directory"]), value('c', &["stripe-count", "count"]), flag('r', &[])];

    fn of(line: &str) -> Result<Words, Failure> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), &KNOWN)
    }

    #[test]
    fn options_come_in_every_form() {
        for line in ["-d -c 4 f", "-dc4 f", "f --directory --count=4", "-d --stripe-count 4 -- f"] {
            let words = of(line).map_err(|failure| failure.text).expect(line);
            assert!(words.has('d') && !words.has('r'), "{line}");
            assert_eq!(words.value('c'), Some("4"), "{line}");
            assert_eq!(words.operands, ["f"], "{line}");
        }
        let words = of("-c -1 -- -d").map_err(|failure| failure.text).expect("read");
        assert_eq!((words.value('c'), words.has('d')), (Some("-1"), false));
        assert_eq!(words.operands, ["-d"]);
    }

    #[test]
    fn mistakes_are_invalid() {
        for line in ["-x", "--nothing", "-c", "--count", "--directory=1"] {
            let failure = of(line).expect_err(line);
            assert_eq!(failure.errno, Errno::INVAL);
        }
    }
}
