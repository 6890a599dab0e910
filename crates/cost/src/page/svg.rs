//! Plots as inline SVG. Nothing is told by colour alone: lines have letters and dashes, bars have
//! their numbers beside them.

use super::escape;

/// Units of a plot's width; on a phone about a pixel each.
pub const WIDTH: f64 = 400.0;
/// Dashes of lines, by their number.
pub const DASHES: [&str; 6] = ["none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"];
const ROW: f64 = 34.0;

/// The letter that stands for the line of this number.
pub fn letter(at: usize) -> char {
    char::from(b'A' + (at % 26) as u8)
}

/// Horizontal bars: a name, how long the bar is, and what is written beside it.
pub fn bars(title: &str, about: &str, rows: &[(String, f64, String)]) -> String {
    let most = rows.iter().map(|(_, value, _)| *value).filter(|value| value.is_finite());
    let most = most.fold(0.0, f64::max).max(1e-9);
    let mut svg = open(ROW * rows.len() as f64 + 4.0, title, about);
    for (at, (name, value, text)) in rows.iter().enumerate() {
        let top = ROW * at as f64;
        let length = (value.min(most) / most * (WIDTH - 130.0)).max(1.0);
        push(
            &mut svg,
            &format!(
                "<text x=\"0\" y=\"{:.1}\">{}</text>\
             <rect class=\"bar\" x=\"0\" y=\"{:.1}\" width=\"{length:.1}\" height=\"12\" />\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                top + 12.0,
                escape(name),
                top + 16.0,
                length + 6.0,
                top + 26.0,
                escape(text)
            ),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Begins a picture of this height, with what those hear who do not see it.
pub fn open(height: f64, title: &str, about: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\
         <title>{}</title><desc>{}</desc>\n",
        escape(title),
        escape(about)
    )
}

/// Adds a line of text.
pub fn push(svg: &mut String, text: &str) {
    svg.push_str(text);
    svg.push('\n');
}

/// Round numbers from 0 to `most`, five or so.
pub fn ticks(most: f64) -> Vec<f64> {
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
