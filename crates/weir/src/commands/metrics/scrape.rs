//! What `/metrics` answers, read as a program would read it.

use std::collections::BTreeMap;
use std::str::Chars;

/// The labels of one series, by name.
pub(super) type Labels = BTreeMap<String, String>;

/// One number and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Labels,
    pub(super) value: f64,
}

/// All of one answer.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    /// The kind of each metric.
    pub(super) kinds: BTreeMap<String, String>,
    /// The series of each name, which is that of a metric or one with an ending.
    samples: BTreeMap<String, Vec<Sample>>,
    /// Lines that are not as the format has them, and metrics that are not what they are called.
    pub(super) wrong: Vec<String>,
}

impl Scrape {
    /// Reads OpenMetrics text.
    pub(super) fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| *line != "# EOF") {
            let known = match line.strip_prefix("# ") {
                Some(told) => scrape.describe(told),
                None => scrape.take(line),
            };
            if known.is_none() {
                scrape.wrong.push(format!("not understood: {line}"));
            }
        }
        if text.lines().last() != Some("# EOF") {
            scrape.wrong.push("the answer is cut off: it does not end with # EOF".to_owned());
        }
        scrape
    }

    /// The series of a name; none if nothing has it.
    pub(super) fn samples(&self, name: &str) -> &[Sample] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    fn describe(&mut self, told: &str) -> Option<()> {
        let (what, rest) = told.split_once(' ')?;
        let (name, text) = rest.split_once(' ')?;
        match what {
            "TYPE" => {
                let twice = self.kinds.insert(name.to_owned(), text.to_owned());
                if twice.is_some() {
                    self.wrong.push(format!("{name} is there twice"));
                }
            }
            "HELP" | "UNIT" => {}
            _ => return None,
        }
        Some(())
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let mut rest = rest.chars();
        let labels = match rest.as_str().starts_with('{') {
            true => labels(&mut rest)?,
            false => Labels::new(),
        };
        // A time or an example may follow.
        let value = rest.as_str().split_whitespace().next()?.parse().ok()?;
        if !self.is_described(name) {
            self.wrong.push(format!("{name} has no type"));
        }
        self.samples.entry(name.to_owned()).or_default().push(Sample { labels, value });
        Some(())
    }

    /// Whether a metric of a kind that has such series was told of.
    fn is_described(&self, name: &str) -> bool {
        let of = |ending: &str, kind: &str| {
            let metric = name.strip_suffix(ending);
            metric.and_then(|metric| self.kinds.get(metric)).is_some_and(|have| have == kind)
        };
        let plain = self.kinds.get(name).is_some_and(|kind| kind == "gauge" || kind == "unknown");
        plain
            || of("_total", "counter")
            || of("_info", "info")
            || ["_bucket", "_count", "_sum"].iter().any(|ending| of(ending, "histogram"))
    }
}

/// `{name="value",…}`.
fn labels(text: &mut Chars<'_>) -> Option<Labels> {
    let mut labels = Labels::new();
    text.next().filter(|c| *c == '{')?;
    loop {
        if let Some(rest) = text.as_str().strip_prefix('}') {
            *text = rest.chars();
            return Some(labels);
        }
        let (name, rest) = text.as_str().split_once("=\"")?;
        *text = rest.chars();
        let mut value = String::new();
        loop {
            match text.next()? {
                '"' => break,
                '\\' => value.push(match text.next()? {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        labels.insert(name.to_owned(), value);
        if let Some(rest) = text.as_str().strip_prefix(',') {
            *text = rest.chars();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_answers_is_read() {
        let scrape = Scrape::read(
            "# HELP weir_a A.\n# TYPE weir_a gauge\nweir_a 5\n\
             # TYPE weir_b counter\nweir_b_total{path=\"/a \\\"b\\\"\\n,c}\",kind=\"x\"} 1.5 17\n\
             # TYPE weir_c histogram\nweir_c_bucket{le=\"+Inf\"} 2\nweir_c_count 2\nweir_c_sum 0.1\n# EOF\n",
        );
        assert_eq!(scrape.wrong, Vec::<String>::new());
        assert_eq!(scrape.samples("weir_a")[0], Sample { labels: Labels::new(), value: 5.0 });
        let [b] = scrape.samples("weir_b_total") else { panic!("one series") };
        assert_eq!((b.labels["path"].as_str(), b.labels["kind"].as_str()), ("/a \"b\"\n,c}", "x"));
        assert_eq!(b.value, 1.5);
        assert_eq!(scrape.samples("weir_none"), []);
    }

    #[test]
    fn what_is_not_as_the_format_has_it_is_told() {
        for (text, wanted) in [
            ("# TYPE a gauge\na 1\n", "cut off"),
            ("a 1\n# EOF\n", "a has no type"),
            ("# TYPE a counter\na 1\n# EOF\n", "a has no type"),
            ("# TYPE a gauge\n# TYPE a gauge\n# EOF\n", "a is there twice"),
            ("# TYPE a gauge\na{b=\"c} 1\n# EOF\n", "not understood: a{b"),
            ("# TYPE a gauge\na one\n# EOF\n", "not understood: a one"),
        ] {
            let wrong = Scrape::read(text).wrong.join("; ");
            assert!(wrong.contains(wanted), "{text}: {wrong}");
        }
    }
}
