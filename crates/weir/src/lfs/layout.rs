//! Layouts of files: how Lustre would stripe them. Here they are only kept, as the words of the
//! `setstripe` that made them, so that `getstripe` can show them again.

use std::ffi::OsString;

use rustix::io::Errno;

use super::answer::Failure;
use super::words::{self, Known, Words, flag, value};

/// Stripe sizes are whole multiples of this.
const STRIPE_UNIT: u64 = 64 << 10;
const STRIPE_USUAL: u64 = 1 << 20;
/// As many stripes as a file of Lustre can have.
const STRIPES_MAX: i64 = 2_000;

/// Options of `setstripe` that a layout is made of, and `-d`.
pub(super) const OPTIONS: [Known; 8] = [
    value('c', &["stripe-count", "count"]),
    value('S', &["stripe-size", "size"]),
    value('i', &["stripe-index", "index", "offset"]),
    value('L', &["layout"]),
    value('p', &["pool"]),
    value('o', &["ost", "ost-list"]),
    value('E', &["component-end", "comp-end"]),
    flag('d', &["delete"]),
];

/// How a range of a file, or all of it, would be striped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    /// Where it ends; `None`: with the file.
    pub(super) end: Option<u64>,
    /// -1: over all targets.
    pub(super) count: i64,
    pub(super) size: u64,
    /// First target; -1: any.
    pub(super) index: i64,
    pub(super) pattern: &'static str,
    pub(super) pool: Option<String>,
}

/// The layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// At least one, in the order of their ends.
    pub(super) components: Vec<Component>,
    /// It was made of components, even if there is only one.
    pub(super) composite: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self { components: vec![Component::default()], composite: false }
    }
}

impl Default for Component {
    fn default() -> Self {
        let (size, pattern) = (STRIPE_USUAL, "raid0");
        Self { end: None, count: 1, size, index: -1, pattern, pool: None }
    }
}

impl Layout {
    /// The layout that options of `setstripe` ask for. A component takes over what is not said of it
    /// from the one before.
    pub(super) fn asked(words: &Words) -> Result<Self, Failure> {
        let mut components: Vec<Component> = Vec::new();
        let mut current = Component::default();
        let mut composite = false;
        for (letter, text) in &words.options {
            match letter {
                'E' => {
                    let end = end(text)?;
                    if composite {
                        components.push(current.clone());
                    }
                    if composite
                        && current.end.is_none_or(|before| end.is_some_and(|e| e <= before))
                    {
                        return Err(bad(format!("-E {text}: components must end later and later")));
                    }
                    composite = true;
                    current = Component { end, pattern: "raid0", ..current };
                }
                _ => current.set(*letter, text)?,
            }
        }
        components.push(current);
        Ok(Self { components, composite })
    }

    /// The layout as it was written down.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        Self::asked(&words::read(&words, &OPTIONS)?)
    }

    /// The layout as options of `setstripe`, all of them said.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Component { end, count, size, index, pattern, pool } in &self.components {
            if self.composite {
                let end = end.map_or_else(|| "-1".to_owned(), |end| end.to_string());
                text.push_str(&format!("-E {end} "));
            }
            text.push_str(&format!("-c {count} -S {size} -i {index} "));
            if *pattern != "raid0" {
                text.push_str(&format!("-L {pattern} "));
            }
            if let Some(pool) = pool {
                text.push_str(&format!("-p {pool} "));
            }
        }
        text.trim_end().to_owned()
    }

    /// The last component that a file of `size` bytes has reached, from 0.
    pub(super) fn reached(&self, size: u64) -> usize {
        let full = self.components.iter().filter(|c| c.end.is_some_and(|end| end < size)).count();
        full.min(self.components.len() - 1)
    }
}

impl Component {
    fn set(&mut self, letter: char, text: &str) -> Result<(), Failure> {
        let number = |least: i64, most: i64| {
            let number = text.parse::<i64>().ok().filter(|n| (least..=most).contains(n));
            number.ok_or_else(|| bad(format!("-{letter} {text}: write {least} to {most}")))
        };
        match letter {
            'c' => self.count = Some(number(-1, STRIPES_MAX)?).filter(|n| *n != 0).unwrap_or(1),
            'i' => self.index = number(-1, STRIPES_MAX)?,
            'S' => {
                let size = bytes(text)?;
                if !size.is_multiple_of(STRIPE_UNIT) || size >= 4 << 30 {
                    return Err(bad(format!("-S {text}: write a multiple of 64K below 4G")));
                }
                self.size = Some(size).filter(|size| *size > 0).unwrap_or(STRIPE_USUAL);
            }
            'L' => {
                self.pattern = match text {
                    "raid0" => "raid0",
                    "mdt" => "mdt",
                    _ => return Err(bad(format!("-L {text}: write raid0 or mdt"))),
                }
            }
            // A list of targets: its first is where the file begins.
            'o' => {
                let first = text.split([',', '-']).next().unwrap_or_default();
                self.index = first.parse().map_err(|_| bad(format!("-o {text}: write 0,1,…")))?;
            }
            'p' if text.contains(char::is_whitespace) || text.starts_with('-') => {
                return Err(bad(format!("-p {text}: that is no name of a pool")));
            }
            'p' => self.pool = Some(text.to_owned()).filter(|p| !p.is_empty() && p != "none"),
            _ => {}
        }
        Ok(())
    }
}

fn end(text: &str) -> Result<Option<u64>, Failure> {
    match text {
        "-1" | "eof" | "EOF" => Ok(None),
        _ => match bytes(text)? {
            0 => Err(bad(format!("-E {text}: a component cannot end at 0"))),
            end => Ok(Some(end)),
        },
    }
}

/// A number of bytes with one of Lustre's units, K to P, in powers of 1,024.
fn bytes(text: &str) -> Result<u64, Failure> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        "p" | "pb" | "pib" => Some(50),
        _ => None,
    };
    let read = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
    read.ok_or_else(|| bad(format!("`{text}` is no size: write 64K, 4M or 1G")))
}

fn bad(text: String) -> Failure {
    Failure::new(Errno::INVAL, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Layout {
        Layout::parse(line).map_err(|failure| failure.text).expect(line)
    }

    #[test]
    fn plain_layouts_are_read_and_written() {
        let layout = of("-S 128K -c 2");
        assert!(!layout.composite);
        let [component] = &layout.components[..] else {
            panic!("one component");
        };
        assert_eq!((component.count, component.size, component.index), (2, 131_072, -1));
        assert_eq!(layout.text(), "-c 2 -S 131072 -i -1");
        assert_eq!(of("").text(), "-c 1 -S 1048576 -i -1");
        assert_eq!(of("-c 0 -S 0"), Layout::default());
    }

    /// FSx for Lustre's usual layout, and the examples of lfs-setstripe(1).
    #[test]
    fn composite_layouts_are_read_and_written() {
        let fsx = of("-E 100M -c 1 -E 10G -c 8 -E 100G -c 16 -E -1 -c 32");
        let counts: Vec<_> = fsx.components.iter().map(|c| c.count).collect();
        assert_eq!(counts, [1, 8, 16, 32]);
        let reached = [0, 100 << 20, (100 << 20) + 1, 1 << 60].map(|size| fsx.reached(size));
        assert_eq!(reached, [0, 0, 1, 3]);
        for line in ["-E 4M -c 1 -E 64M -c 4 -E -1 -c -1", "-E 1M -L mdt -E -1", "-E eof -c 4"] {
            let layout = of(line);
            assert!(layout.composite, "{line}");
            assert_eq!(Layout::parse(&layout.text()).expect("again"), layout, "{line}");
        }
        assert_eq!(of("-E 1M -L mdt -E -1 -p ssd").components[1].pattern, "raid0");
    }

    #[test]
    fn what_lustre_refuses_is_refused() {
        for line in
            ["-c x", "-c -2", "-S 1000", "-S 4G", "-E 2M -E 1M", "-E -1 -E 2M", "-L raid5", "-E 0"]
        {
            let failure = Layout::parse(line).expect_err(line);
            assert_eq!(failure.errno, Errno::INVAL, "{line}");
        }
    }
}
