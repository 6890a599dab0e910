//! Where values are on a chart of lines.

use super::canvas::{LETTER_HEIGHT, WIDTH, ticks};
use super::values::{Line, Lines, Scale};

/// Where the plot begins and ends; labels are around it. At the top are two lines of text: what
/// runs up, and `now`.
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 24.0;
pub(super) const TOP: f64 = 2.0 * LETTER_HEIGHT + 4.0;
pub(super) const FLOOR: f64 = 210.0;
pub(super) const HEIGHT: f64 = FLOOR + 40.0;

pub(super) struct Area {
    left: f64,
    pub(super) right: f64,
    least: f64,
    most: f64,
    scale: Scale,
}

impl Area {
    /// That of all points that can be drawn; `None` without any.
    pub(super) fn of(chart: &Lines<'_>) -> Option<Self> {
        let points = || chart.lines.iter().flat_map(|line: &Line| &line.points);
        let most = points().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
        let least = points().map(|(_, y)| *y).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        let places = chart.places.iter().map(|(at, _)| *at);
        let marks = chart.marks.iter().map(|mark| mark.at.0);
        let all = points().map(|(x, _)| *x).chain(places.clone()).chain(marks).chain(chart.now);
        let right = all.fold(0.0, f64::max);
        let left = places.fold(f64::INFINITY, f64::min);
        let sound = most > 0.0 && most.is_finite() && right.is_finite();
        let (least, most) = match chart.scale {
            Scale::Linear => (0.0, most * 1.05),
            Scale::Log => (
                power(least.log10().floor()),
                power(most.log10().ceil().max(least.log10().floor() + 1.0)),
            ),
        };
        let left = if left.is_finite() { left } else { 0.0 };
        let right = if right > left { right } else { left + 1.0 };
        sound.then_some(Self { left, right, least, most, scale: chart.scale })
    }

    /// The place of a point.
    pub(super) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x(x), self.y(y))
    }

    pub(super) fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.most,
            Scale::Log => {
                (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
            }
        };
        FLOOR - share.clamp(0.0, 1.0) * (FLOOR - TOP)
    }

    /// Values that have a line across.
    pub(super) fn values(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => ticks(self.most),
            Scale::Log => {
                let first = self.least.log10().round() as i32;
                let last = self.most.log10().round() as i32;
                (first..=last).map(|ten| power(f64::from(ten))).collect()
            }
        }
    }
}

fn power(ten: f64) -> f64 {
    10.0_f64.powf(ten)
}
