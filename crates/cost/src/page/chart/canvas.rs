//! What all charts are drawn upon.

use maud::{Markup, html};

/// Units of a chart's width; on a phone about a pixel each.
pub(super) const WIDTH: f64 = 400.0;
/// What a letter takes at most of that, on average.
pub(super) const LETTER_WIDTH: f64 = 7.0;
/// What a line of text takes of the height.
pub(super) const LETTER_HEIGHT: f64 = 14.0;

/// A picture of this height, with what those hear who do not see it.
pub(super) fn picture(height: f64, title: &str, about: &str, inside: Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            title { (title) }
            desc { (about) }
            (inside)
        }
    }
}

/// A place or a length, to a tenth.
pub(super) fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// About how wide a text is.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// Round numbers from 0 to `most`, five or so.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    let rough = most / 4.0;
    let ten = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|of| of * ten).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(ten * 10.0);
    let tidy = |at: f64| (at * step * 1e6).round() / 1e6;
    (0..=10).map(|at| tidy(f64::from(at))).filter(|tick| *tick <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(100.0), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(ticks(7.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(0.45), [0.0, 0.2, 0.4]);
    }
}
