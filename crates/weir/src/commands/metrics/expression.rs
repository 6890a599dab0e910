//! The expressions of alerts, as far as one look can tell: PromQL of numbers, series, arithmetic,
//! comparisons, `and`, `or`, `clamp_max`, and `max` and `sum` by labels. What looks back in time is
//! known and not evaluated.

use super::scrape::{Labels, Sample, Scrape};

/// Why an expression has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It asks what was before, which one look does not know.
    TakesTime,
    /// It is not of the kind that is understood here.
    NotUnderstood(String),
}

type Result<T> = std::result::Result<T, Unanswered>;

/// Functions over a span of time.
const OVER_TIME: [&str; 4] = ["rate(", "increase(", "resets(", "predict_linear("];

/// The series for which `expression` holds now, with what it is of each.
pub(super) fn holding(expression: &str, scrape: &Scrape) -> Result<Vec<Sample>> {
    if OVER_TIME.iter().any(|function| expression.contains(function)) {
        return Err(Unanswered::TakesTime);
    }
    let mut reader = Reader { rest: expression.trim(), scrape };
    let value = reader.any_of()?;
    match (value, reader.rest) {
        (Value::Series(series), "") => Ok(series),
        _ => Err(reader.not_understood()),
    }
}

enum Value {
    Number(f64),
    Series(Vec<Sample>),
}

struct Reader<'a> {
    rest: &'a str,
    scrape: &'a Scrape,
}

impl<'a> Reader<'a> {
    fn any_of(&mut self) -> Result<Value> {
        let mut left = self.all_of()?;
        while self.word("or") {
            let (mut one, more) = (self.series(left)?, self.all_of()?);
            for sample in self.series(more)? {
                if !one.iter().any(|have| have.labels == sample.labels) {
                    one.push(sample);
                }
            }
            left = Value::Series(one);
        }
        Ok(left)
    }

    fn all_of(&mut self) -> Result<Value> {
        let mut left = self.comparison()?;
        while self.word("and") {
            let (mut one, other) = (self.series(left)?, self.comparison()?);
            let other = self.series(other)?;
            one.retain(|sample| other.iter().any(|with| with.labels == sample.labels));
            left = Value::Series(one);
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Value> {
        let left = self.sum()?;
        let holds: fn(f64, f64) -> bool = match () {
            () if self.sign("==") => |a, b| a == b,
            () if self.sign("<") => |a, b| a < b,
            () if self.sign(">") => |a, b| a > b,
            () => return Ok(left),
        };
        let right = self.sum()?;
        let kept = pairs(self.series(left)?, &right);
        let kept = kept.filter(|(sample, with)| holds(sample.value, *with));
        Ok(Value::Series(kept.map(|(sample, _)| sample).collect()))
    }

    fn sum(&mut self) -> Result<Value> {
        let mut left = self.product()?;
        while self.sign("+") {
            left = combined(left, self.product()?, |a, b| a + b);
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Value> {
        let mut left = self.single()?;
        loop {
            let combine: fn(f64, f64) -> f64 = match () {
                () if self.sign("*") => |a, b| a * b,
                () if self.sign("/") => |a, b| a / b,
                () => return Ok(left),
            };
            left = combined(left, self.single()?, combine);
        }
    }

    fn single(&mut self) -> Result<Value> {
        if self.sign("(") {
            let inner = self.any_of()?;
            return self.expect(")").map(|()| inner);
        }
        let name = self.name();
        if let Ok(number) = name.parse() {
            return Ok(Value::Number(number));
        }
        match name {
            "" => Err(self.not_understood()),
            "clamp_max" => {
                self.expect("(")?;
                let value = self.any_of()?;
                self.expect(",")?;
                let most = self.any_of()?;
                self.expect(")")?;
                Ok(combined(value, most, f64::min))
            }
            "max" => self.grouped(f64::max),
            "sum" => self.grouped(|a, b| a + b),
            // Whoever was scraped is up.
            "up" if self.sign("{job=\"weir\"}") => {
                Ok(Value::Series(vec![Sample { labels: Labels::new(), value: 1.0 }]))
            }
            name => Ok(Value::Series(self.scrape.samples(name).to_vec())),
        }
    }

    /// ` by (LABEL, …) (EXPRESSION)`.
    fn grouped(&mut self, combine: fn(f64, f64) -> f64) -> Result<Value> {
        if !self.word("by") {
            return Err(self.not_understood());
        }
        self.expect("(")?;
        let mut by = vec![self.name()];
        while self.sign(",") {
            by.push(self.name());
        }
        self.expect(")")?;
        self.expect("(")?;
        let inner = self.any_of()?;
        let series = self.series(inner)?;
        self.expect(")")?;
        let mut groups: Vec<Sample> = Vec::new();
        for mut sample in series {
            sample.labels.retain(|name, _| by.contains(&name.as_str()));
            match groups.iter_mut().find(|group| group.labels == sample.labels) {
                Some(group) => group.value = combine(group.value, sample.value),
                None => groups.push(sample),
            }
        }
        Ok(Value::Series(groups))
    }

    /// A name or number; empty where there is none.
    fn name(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = rest.trim_start();
        name
    }

    fn sign(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let is = self.name() == word;
        if !is {
            self.rest = before;
        }
        is
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.not_understood()) }
    }

    fn series(&self, value: Value) -> Result<Vec<Sample>> {
        match value {
            Value::Series(series) => Ok(series),
            Value::Number(_) => Err(self.not_understood()),
        }
    }

    fn not_understood(&self) -> Unanswered {
        Unanswered::NotUnderstood(self.rest.to_owned())
    }
}

/// Each of `left` with the number that stands beside it: of the series with its labels.
fn pairs(left: Vec<Sample>, right: &Value) -> impl Iterator<Item = (Sample, f64)> {
    left.into_iter().filter_map(move |sample| match right {
        Value::Number(number) => Some((sample, *number)),
        Value::Series(series) => {
            let with = series.iter().find(|with| with.labels == sample.labels)?.value;
            Some((sample, with))
        }
    })
}

fn combined(left: Value, right: Value, combine: fn(f64, f64) -> f64) -> Value {
    let both = match (left, right) {
        (Value::Number(a), Value::Number(b)) => return Value::Number(combine(a, b)),
        (Value::Number(number), Value::Series(series)) => {
            return Value::Series(changed(series.into_iter().map(|s| (s, number)), |s, n| {
                combine(n, s)
            }));
        }
        (Value::Series(series), right) => changed(pairs(series, &right), combine),
    };
    Value::Series(both)
}

fn changed(
    pairs: impl Iterator<Item = (Sample, f64)>,
    to: impl Fn(f64, f64) -> f64,
) -> Vec<Sample> {
    let changed = pairs.map(|(sample, with)| Sample { value: to(sample.value, with), ..sample });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(expression: &str) -> Vec<f64> {
        let scrape = Scrape::read(
            "# TYPE a gauge\na 10\n# TYPE b gauge\nb 4\n\
             # TYPE c gauge\nc{k=\"x\",n=\"1\"} 1\nc{k=\"x\",n=\"2\"} 7\nc{k=\"y\",n=\"1\"} 2\n# EOF\n",
        );
        let holding = holding(expression, &scrape).expect("is understood");
        holding.iter().map(|sample| sample.value).collect()
    }

    #[test]
    fn expressions_hold_as_they_do_in_prometheus() {
        for (expression, want) in [
            ("a > 9", vec![10.0]),
            ("a > 10", vec![]),
            ("a < 0.5 * b", vec![]),
            ("b < 0.5 * a", vec![4.0]),
            ("a == 10 and b > 5", vec![]),
            ("a == 10 and b + a > 5", vec![10.0]),
            ("a > 100 or b > 1", vec![4.0]),
            // What has the same labels is there once.
            ("a > 1 or b > 1", vec![10.0]),
            ("a < 0.5 * clamp_max((a + b) / 2, 30)", vec![]),
            ("b < 0.5 * clamp_max((a + b) * 20, 30)", vec![4.0]),
            ("c > 1", vec![7.0, 2.0]),
            ("max by (k) (c) > 1", vec![7.0, 2.0]),
            ("sum by (job, k) (c) > 7", vec![8.0]),
            ("missing > 0", vec![]),
            ("a > missing", vec![]),
            ("up{job=\"weir\"} == 0", vec![]),
        ] {
            assert_eq!(values(expression), want, "{expression}");
        }
    }

    #[test]
    fn what_one_look_cannot_tell_is_told_apart() {
        let of = |expression| holding(expression, &Scrape::default()).expect_err("no answer");
        assert_eq!(of("rate(a_total[5m]) > 1"), Unanswered::TakesTime);
        for expression in ["a >", "a ~ 3", "(a > 1", "max(a) > 1", "3", "a > 1 )"] {
            assert!(matches!(of(expression), Unanswered::NotUnderstood(_)), "{expression}");
        }
    }
}
