//! Plots of measurements: lines over time, over copies, or over percentiles.

use weir_cost::page::escape;
use weir_cost::page::svg::{DASHES, WIDTH, letter, open, push, ticks};

const HEIGHT: f64 = 240.0;
/// Where the plot begins and ends; labels are around it.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const FLOOR: f64 = HEIGHT - 40.0;
/// Height of a letter.
const LETTER: f64 = 12.0;

/// A line, and what people call it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How values are laid out from the floor to the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0.
    Linear,
    /// By powers of ten.
    Log,
}

/// A plot of lines.
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// What it shows.
    pub title: &'a str,
    /// The same in a sentence, for those who hear it.
    pub about: &'a str,
    /// What runs to the right, with its unit.
    pub x: &'a str,
    /// What runs up, with its unit.
    pub y: &'a str,
    /// Places to the right that have a name; without any, it is numbers from 0.
    pub places: &'a [(f64, String)],
    /// How values are laid out.
    pub scale: Scale,
    /// The lines.
    pub lines: &'a [Line],
}

impl Plot<'_> {
    /// It as inline SVG, with the names of its lines below; nothing when there is no point.
    pub fn svg(&self) -> String {
        let Some(area) = Area::of(self) else { return String::new() };
        let mut svg = open(HEIGHT, self.title, self.about);
        self.axes(&mut svg, &area);
        for (at, line) in self.lines.iter().enumerate() {
            draw(&mut svg, &area, at, line);
        }
        self.letters(&mut svg, &area);
        svg.push_str("</svg>\n");
        let name = |(at, line): (usize, &Line)| {
            format!("<li><strong>{}</strong> {}</li>\n", letter(at), escape(&line.name))
        };
        let names: String = self.lines.iter().enumerate().map(name).collect();
        format!(
            "<figure><figcaption>{}</figcaption>\n{svg}<ul class=\"names\">\n{names}</ul></figure>\n",
            escape(self.title)
        )
    }

    fn axes(&self, svg: &mut String, area: &Area) {
        for value in area.values() {
            let (y, end, label) = (area.y(value), WIDTH - RIGHT, LEFT - 4.0);
            push(
                svg,
                &format!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\" />\
                     <text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                    y + 4.0
                ),
            );
        }
        let numbers = || ticks(area.right).into_iter().map(|at| (at, at.to_string())).collect();
        let places = if self.places.is_empty() { numbers() } else { self.places.to_vec() };
        for (at, name) in places {
            let (x, y) = (area.x(at), FLOOR + 18.0);
            let text = escape(&name);
            push(
                svg,
                &format!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>"),
            );
        }
        let (middle, foot) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0);
        push(
            svg,
            &format!(
                "<text x=\"{middle}\" y=\"{foot}\" text-anchor=\"middle\">{}</text>\
                 <text x=\"0\" y=\"{LETTER}\">{}</text>",
                escape(self.x),
                escape(self.y)
            ),
        );
    }

    /// Letters at the ends of lines, from the top down, each below the one before.
    fn letters(&self, svg: &mut String, area: &Area) {
        let end = |line: &Line| line.points.last().map(|(x, y)| (area.x(*x), area.y(*y)));
        let mut ends: Vec<(usize, (f64, f64))> =
            self.lines.iter().enumerate().filter_map(|(at, line)| Some((at, end(line)?))).collect();
        ends.sort_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
        let mut above = f64::NEG_INFINITY;
        for (at, (x, y)) in ends {
            let y = (y + 4.0).max(above + LETTER);
            let (x, letter) = (x + 5.0, letter(at));
            push(svg, &format!("<text class=\"letter\" x=\"{x:.1}\" y=\"{y:.1}\">{letter}</text>"));
            above = y;
        }
    }
}

fn draw(svg: &mut String, area: &Area, at: usize, line: &Line) {
    let look = at % DASHES.len();
    let points = line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", area.x(*x), area.y(*y)));
    let points = points.collect::<Vec<_>>().join(" ");
    push(
        svg,
        &format!(
            "<polyline class=\"series c{look}\" stroke-dasharray=\"{}\" points=\"{points}\">\
             <title>{}</title></polyline>",
            DASHES[look],
            escape(&line.name)
        ),
    );
    // A dot shows what has one point only.
    for (x, y) in line.points.iter().filter(|_| line.points.len() < 8) {
        let (x, y) = (area.x(*x), area.y(*y));
        push(svg, &format!("<circle class=\"c{look}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" />"));
    }
}

/// Where values are on the plot.
struct Area {
    left: f64,
    right: f64,
    least: f64,
    most: f64,
    scale: Scale,
}

impl Area {
    /// That of all points that can be drawn; `None` without any.
    fn of(plot: &Plot<'_>) -> Option<Self> {
        let points = || plot.lines.iter().flat_map(|line| &line.points);
        let most = points().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
        let least = points().map(|(_, y)| *y).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        let places = plot.places.iter().map(|(at, _)| *at);
        let right = points().map(|(x, _)| *x).chain(places.clone()).fold(0.0, f64::max);
        let left = places.fold(f64::INFINITY, f64::min);
        let sound = most > 0.0 && most.is_finite() && right.is_finite();
        let (least, most) = match plot.scale {
            Scale::Linear => (0.0, most * 1.05),
            Scale::Log => (
                power(least.log10().floor()),
                power(most.log10().ceil().max(least.log10().floor() + 1.0)),
            ),
        };
        let left = if left.is_finite() { left } else { 0.0 };
        let right = if right > left { right } else { left + 1.0 };
        sound.then_some(Self { left, right, least, most, scale: plot.scale })
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.most,
            Scale::Log => {
                (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
            }
        };
        FLOOR - share.clamp(0.0, 1.0) * (FLOOR - TOP)
    }

    /// Values that have a line across.
    fn values(&self) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plot<'a>(lines: &'a [Line], scale: Scale, places: &'a [(f64, String)]) -> Plot<'a> {
        Plot { title: "T", about: "about", x: "seconds", y: "MB/s", places, scale, lines }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec() }
    }

    #[test]
    fn a_line_runs_from_the_left_to_its_end() {
        let lines = [line("<a>", &[(0.0, 0.0), (10.0, 100.0)])];
        let svg = plot(&lines, Scale::Linear, &[]).svg();
        // 100 of 105 is at 200 - 100/105 x 174 = 34.3.
        assert!(svg.contains("points=\"64.0,200.0 376.0,34.3\""), "{svg}");
        assert!(svg.contains("<strong>A</strong> &lt;a&gt;"), "{svg}");
        assert!(svg.contains(">MB/s</text>") && svg.contains(">seconds</text>"), "{svg}");
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let lines = [line("a", &[(0.0, 10.0), (1.0, 100.0), (2.0, 1000.0)])];
        let places = [(0.0, "p50".to_owned()), (1.0, "p99".to_owned()), (2.0, "max".to_owned())];
        let svg = plot(&lines, Scale::Log, &places).svg();
        assert!(svg.contains("points=\"64.0,200.0 220.0,113.0 376.0,26.0\""), "{svg}");
        assert!(svg.contains(">p99</text>"), "{svg}");
    }

    #[test]
    fn letters_do_not_cover_one_another() {
        let lines = [line("a", &[(1.0, 50.0)]), line("b", &[(1.0, 50.0)])];
        let svg = plot(&lines, Scale::Linear, &[]).svg();
        let heights: Vec<f64> = svg
            .split("class=\"letter\"")
            .skip(1)
            .filter_map(|text| text.split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[1] - heights[0] - LETTER).abs() < 0.11, "{heights:?}");
    }

    #[test]
    fn nothing_to_draw_is_no_plot() {
        assert_eq!(plot(&[], Scale::Linear, &[]).svg(), "");
        assert_eq!(plot(&[line("a", &[])], Scale::Linear, &[]).svg(), "");
        for bad in [0.0, f64::INFINITY, f64::NAN] {
            for scale in [Scale::Linear, Scale::Log] {
                assert_eq!(plot(&[line("a", &[(1.0, bad)])], scale, &[]).svg(), "", "{bad}");
            }
        }
    }
}
