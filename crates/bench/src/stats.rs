//! What a few repeats say, and whether two sets of them differ.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Repeats below which nothing is called significant.
pub const REPEATS_MIN: usize = 3;

/// Chance of being wrong below which a difference is called significant.
pub(crate) const LEVEL: f64 = 0.05;

/// The middle and the spread of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Stats {
    /// How many.
    pub count: usize,
    /// The middle one; of an even count, the mean of the two in the middle.
    pub median: f64,
    /// The average.
    pub mean: f64,
    /// The standard deviation of a sample; a single number has none.
    pub sd: Option<f64>,
    /// Where the mean is with 95% confidence, if the numbers are normally distributed.
    pub interval: Option<(f64, f64)>,
}

/// Whether two sets of repeats differ by more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "significance")]
pub enum Significance {
    /// There are fewer than [`REPEATS_MIN`] of one of them.
    TooFew,
    /// Chance alone gives such a difference with this probability, and that is too often.
    Chance {
        /// The probability.
        p: f64,
    },
    /// They differ; by chance alone they would with this probability.
    Significant {
        /// The probability.
        p: f64,
    },
}

impl Stats {
    /// Those of `numbers`; `None` without any.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let count = numbers.len();
        if count == 0 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let sd = variance(numbers, mean).map(f64::sqrt);
        // Mean ± t(0.975; n - 1) · s / √n.
        let half = sd.map(|sd| t_quantile(0.975, count as f64 - 1.0) * sd / (count as f64).sqrt());
        let interval = half.map(|half| (mean - half, mean + half));
        Some(Self { count, median: median(numbers), mean, sd, interval })
    }

    /// The standard deviation as a share of the mean.
    pub fn relative_sd(&self) -> Option<f64> {
        self.sd.filter(|_| self.mean != 0.0).map(|sd| sd / self.mean.abs())
    }
}

/// The middle of some numbers; of an even count, the mean of the two in the middle, and NaN of
/// none.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// Whether the means of `a` and `b` differ, by Welch's t-test with two sides at 5%: it asks for no
/// equal variances, and can answer at three repeats, where a test of ranks cannot (with 3 and 3 its
/// least probability is 0.1). Source: B. L. Welch, Biometrika 34 (1947), 28-35.
pub fn significant(a: &[f64], b: &[f64]) -> Significance {
    if a.len().min(b.len()) < REPEATS_MIN {
        return Significance::TooFew;
    }
    let part = |numbers: &[f64]| {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let share = variance(numbers, mean).unwrap_or(0.0) / count;
        (mean, share, share * share / (count - 1.0))
    };
    let ((mean_a, share_a, square_a), (mean_b, share_b, square_b)) = (part(a), part(b));
    let (apart, share) = ((mean_a - mean_b).abs(), share_a + share_b);
    let p = if share == 0.0 {
        // All of each are the same number.
        if apart == 0.0 { 1.0 } else { 0.0 }
    } else {
        // Welch-Satterthwaite.
        let freedom = share * share / (square_a + square_b);
        beyond(apart / share.sqrt(), freedom)
    };
    if p < LEVEL { Significance::Significant { p } } else { Significance::Chance { p } }
}

/// The variance of a sample.
fn variance(numbers: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (numbers.len() > 1).then(|| squares / (numbers.len() as f64 - 1.0))
}

/// Student's distribution with so many degrees of freedom, of which there are some.
fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are above 0")
}

/// The probability that a Student t of so many degrees of freedom is at least `t` away from 0.
fn beyond(t: f64, freedom: f64) -> f64 {
    2.0 * student(freedom).sf(t.abs())
}

/// The t below which a share `p` of Student's distribution lies.
fn t_quantile(p: f64, freedom: f64) -> f64 {
    student(freedom).inverse_cdf(p)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(have: f64, want: f64, within: f64) {
        assert!((have - want).abs() <= within, "have {have}, want {want}");
    }

    #[test]
    fn three_numbers_by_hand() {
        let of = Stats::of(&[12.0, 10.0, 14.0]).expect("some");
        assert_eq!((of.count, of.median, of.mean, of.sd), (3, 12.0, 12.0, Some(2.0)));
        // t(0.975; 2) = 4.3027 of every table; x 2 / √3 = 4.968.
        let (low, high) = of.interval.expect("known");
        near(low, 7.032, 1e-3);
        near(high, 16.968, 1e-3);
        near(of.relative_sd().expect("known"), 1.0 / 6.0, 1e-12);
    }

    #[test]
    fn one_number_has_no_spread_and_none_have_nothing() {
        let of = Stats::of(&[5.0]).expect("some");
        assert_eq!((of.median, of.mean, of.sd, of.interval), (5.0, 5.0, None, None));
        assert_eq!(Stats::of(&[]), None);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, t) in [(1.0, 12.7062), (2.0, 4.3027), (4.0, 2.7764), (30.0, 2.0423)] {
            near(t_quantile(0.975, freedom), t, 1e-4);
        }
        near(t_quantile(0.975, 1e4), 1.96020, 1e-4);
        // With one degree of freedom it is Cauchy's: P(|t| > 1) = 1/2. With two it is
        // 1 - t / √(2 + t²): at t = 2, 1 - 2/√6.
        near(beyond(1.0, 1.0), 0.5, 1e-12);
        near(beyond(2.0, 2.0), 1.0 - 2.0 / 6.0_f64.sqrt(), 1e-12);
    }

    #[test]
    fn welch_by_hand() {
        // Means 2 and 12, variances 1 and 4, three each: t = 10 / √(5/3) = 7.746 with
        // (5/3)² / ((1/9 + 16/9) / 2) = 2.941 degrees of freedom.
        let (a, b) = ([1.0, 2.0, 3.0], [10.0, 12.0, 14.0]);
        let Significance::Significant { p } = significant(&a, &b) else { panic!("they differ") };
        near(p, beyond(60.0_f64.sqrt(), 50.0 / 17.0), 1e-12);
        assert!(beyond(7.746, 3.0) < p && p < beyond(7.746, 2.0), "{p}");
        // The same means with ten times the spread are chance.
        let Significance::Chance { p } = significant(&[-8.0, 2.0, 12.0], &[-8.0, 12.0, 32.0])
        else {
            panic!("this is noise")
        };
        assert!(p > 0.3, "{p}");
    }

    #[test]
    fn equal_numbers_and_too_few() {
        let of = |a: &[f64], b: &[f64]| significant(a, b);
        assert_eq!(of(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), Significance::Chance { p: 1.0 });
        assert_eq!(of(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]), Significance::Significant { p: 0.0 });
        assert_eq!(of(&[1.0, 1.0], &[9.0, 9.0, 9.0]), Significance::TooFew);
        assert_eq!(of(&[], &[]), Significance::TooFew);
    }

    proptest! {
        #[test]
        fn a_probability_is_one_and_the_same_both_ways(
            a in prop::collection::vec(0.1..1e6_f64, 3..9),
            b in prop::collection::vec(0.1..1e6_f64, 3..9),
            times in 0.01..100.0_f64,
        ) {
            let p = |a: &[f64], b: &[f64]| match significant(a, b) {
                Significance::Chance { p } | Significance::Significant { p } => p,
                Significance::TooFew => -1.0,
            };
            let there = p(&a, &b);
            prop_assert!((0.0..=1.0).contains(&there), "{there}");
            prop_assert!((there - p(&b, &a)).abs() < 1e-9);
            let larger = |numbers: &[f64]| numbers.iter().map(|of| of * times).collect::<Vec<_>>();
            prop_assert!((there - p(&larger(&a), &larger(&b))).abs() < 1e-6, "units do not matter");
        }
    }
}
