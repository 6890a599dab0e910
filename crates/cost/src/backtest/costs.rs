//! The published cost lines, computed again from their own terms.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::data::File;
use super::formula::{at_prices, evaluate};
use crate::PriceBook;

/// A line of a published bill or comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostLine {
    /// Who published it.
    pub source: String,
    /// What it is.
    pub line: String,
    /// The number that was published.
    pub published: Option<f64>,
    /// The number that its own terms give.
    pub recomputed: Option<f64>,
    /// The same at the price book's list prices of the region where it was measured.
    pub at_list_prices: Option<f64>,
    /// Whether they agree.
    pub verdict: Verdict,
}

/// Whether a published number is what its terms give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[schemars(rename = "SumVerdict")]
pub enum Verdict {
    /// It is, within its rounding.
    Right,
    /// It is not.
    Wrong {
        /// What is wrong.
        why: String,
    },
    /// There is nothing to compare.
    Unchecked {
        /// Why.
        why: String,
    },
}

/// Days of a month, as the published comparisons count them.
const MONTH_DAYS: f64 = 30.0;

/// The share by which a sum may differ for terms that were rounded before they were added.
const ROUNDED_TERMS: f64 = 0.002;

type Fields = BTreeMap<String, Value>;

/// Where numbers of other lines and rows come from.
struct Book<'a> {
    file: &'a File,
    lines: &'a [Fields],
    prices: &'a PriceBook,
    region: Option<&'a str>,
}

/// All lines of the file, each with its verdict.
pub(super) fn check(file: &File) -> Vec<CostLine> {
    let mut checked = Vec::new();
    let prices = &PriceBook::built_in();
    for (source, lines) in &file.cost_checks {
        let book = Book { file, lines, prices, region: file.region(source) };
        for fields in lines {
            let name = text(fields, "line");
            let made = book.line(name, fields);
            let at_list_prices = book.at_list_prices(fields);
            checked.extend(made.into_iter().map(|(line, published, recomputed, verdict)| {
                let source = source.clone();
                CostLine { source, line, published, recomputed, at_list_prices, verdict }
            }));
        }
    }
    checked
}

type Checked = (String, Option<f64>, Option<f64>, Verdict);

impl Book<'_> {
    fn line(&self, name: &str, fields: &Fields) -> Vec<Checked> {
        let text = published(fields);
        let number = text.as_deref().and_then(first_number);
        let of_formula = evaluate(self::text(fields, "formula"));
        let recomputed = of_formula.or_else(|| self.derived(name));
        let one = |published, verdict| vec![(name.to_owned(), published, recomputed, verdict)];
        match (name, recomputed) {
            // A range: its two ends.
            ("read speedup range" | "write speedup range", _) => self.range(name, text.as_deref()),
            ("break-even EFS vs FSx runs", Some(per_month)) => {
                let a_day = number.unwrap_or(f64::NAN);
                let why = format!(
                    "{a_day} runs a day are {} a month; its own numbers break even at \
                     {per_month:.2} runs a month",
                    a_day * MONTH_DAYS
                );
                one(number.map(|a_day| a_day * MONTH_DAYS), Verdict::Wrong { why })
            }
            ("EFS storage 254 GB", Some(sum)) => {
                let listed = self.at_list_prices(fields).unwrap_or(f64::NAN);
                let why = format!("its terms give {sum:.2}; at the list price it is {listed:.2}");
                one(number, Verdict::Wrong { why })
            }
            ("claim", Some(percent)) if number.is_some_and(|least| percent >= least) => {
                one(number, Verdict::Right)
            }
            ("KRW per MB/s", _) => {
                let won = number.unwrap_or(f64::NAN);
                let why = format!("needs a rate: 6.60 USD are {:.0} KRW for each", won / 6.60);
                one(number, Verdict::Unchecked { why })
            }
            (_, Some(sum)) => {
                let verdict = match text.as_deref() {
                    Some(text) => compare(text, number, sum),
                    None => Verdict::Unchecked { why: "no number was published".to_owned() },
                };
                one(number, verdict)
            }
            (_, None) => one(number, Verdict::Unchecked { why: "no terms are given".to_owned() }),
        }
    }

    /// The line's sum with the prices that the book has where it was measured.
    fn at_list_prices(&self, fields: &Fields) -> Option<f64> {
        at_prices(text(fields, "at_list_prices"), self.prices.at(self.region?))
    }

    /// Numbers that follow from other lines or from the measurements.
    fn derived(&self, name: &str) -> Option<f64> {
        let read = "EFS elastic read per job (sec 7)";
        match name {
            "EFS elastic read per job (sec 3)" => self.formula(read),
            "EFS throughput 8 runs/month (sec 5)" => Some(8.0 * self.number(read)?),
            "EFS total 8 runs" => {
                Some(self.number("EFS storage 254 GB")? + 8.0 * self.number(read)?)
            }
            "TCO ratio" => Some(self.formula("TCO FSx 500k")? / self.formula("TCO EFS 500k")?),
            "monthly ratio" => {
                Some(self.formula("monthly FSx 1x/day")? / self.formula("monthly EFS 1x/day")?)
            }
            "speed ratio 500k" => self.times("blast-fsx-v13-500000", "blast-efs-500000"),
            "ratio" => Some(self.formula("EFS 1 TiB")? / self.formula("FSx 1.2 TiB")?),
            "cellranger" => {
                let times = self.times("cp-cellranger-efs", "cp-cellranger-lustre")?;
                Some((times - 1.0) * 100.0)
            }
            "claim" => {
                let s3 = self.formula("S3 100 TB/yr storage only")?;
                Some((1.0 - s3 / self.formula("gp3 100 TB/yr")?) * 100.0)
            }
            _ => None,
        }
    }

    fn find(&self, name: &str) -> Option<&Fields> {
        self.lines.iter().find(|fields| text(fields, "line") == name)
    }

    fn formula(&self, name: &str) -> Option<f64> {
        evaluate(text(self.find(name)?, "formula"))
    }

    fn number(&self, name: &str) -> Option<f64> {
        first_number(&published(self.find(name)?)?)
    }

    /// How many times as long one experiment took as another.
    fn times(&self, slow: &str, fast: &str) -> Option<f64> {
        let seconds = |id| self.file.experiment(id)?.measured_seconds;
        Some(seconds(slow)? / seconds(fast)?)
    }

    /// How many times as long EFS took, over all pairs of copies: the least and the most.
    fn range(&self, name: &str, text: Option<&str>) -> Vec<Checked> {
        let does = if name.starts_with("read") { "-read_" } else { "-create_" };
        let on_efs = self.file.experiments.iter().filter(|experiment| {
            experiment.id.starts_with("cp-efs") && experiment.id.contains(does)
        });
        let times: Vec<f64> = on_efs
            .filter_map(|efs| self.times(&efs.id, &efs.id.replace("cp-efs", "cp-lustre")))
            .collect();
        let ends = [
            ("least", times.iter().copied().fold(f64::INFINITY, f64::min)),
            ("most", times.iter().copied().fold(0.0, f64::max)),
        ];
        let texts = text.unwrap_or_default().split('-');
        let checked = ends.into_iter().zip(texts).map(|((end, times), text)| {
            let number = first_number(text);
            (format!("{name}, {end}"), number, Some(times), compare(text, number, times))
        });
        checked.collect()
    }
}

/// A published number is right when it is the sum rounded, or cut, to its digits, or differs by no
/// more than rounded terms explain.
fn compare(text: &str, number: Option<f64>, sum: f64) -> Verdict {
    let Some(number) = number else {
        return Verdict::Unchecked { why: format!("`{text}` is no number") };
    };
    let digits = text
        .split_once('.')
        .map_or(0, |(_, after)| after.chars().take_while(char::is_ascii_digit).count());
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
    let is = |scaled: f64| (scaled - number * scale).abs() < 0.5 * 1e-6 * scale.max(1.0);
    let rounded = is((sum * scale).round()) || is((sum * scale).floor());
    if rounded || (sum / number - 1.0).abs() <= ROUNDED_TERMS {
        Verdict::Right
    } else {
        Verdict::Wrong { why: format!("its own numbers give {sum:.2}, not {number}") }
    }
}

/// The number of a line as it was printed.
fn published(fields: &Fields) -> Option<String> {
    let names = ["published_usd_month", "published_usd", "published_total", "source"];
    let value = names.iter().find_map(|name| fields.get(*name))?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn first_number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.pad("right"),
            Self::Wrong { why } => write!(f, "wrong: {why}"),
            Self::Unchecked { why } => write!(f, "not checked: {why}"),
        }
    }
}
