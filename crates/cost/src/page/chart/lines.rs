//! Lines over numbers or over named places.

use maud::{Markup, html};

use super::area::{Area, FLOOR, HEIGHT, LEFT, RIGHT, TOP};
use super::canvas::{LETTER_HEIGHT, WIDTH, picture, tenth, ticks, width_of};
use super::look;
use super::values::{Line, Lines};

/// A line with fewer points shows each of them.
const FEW_POINTS: usize = 8;

impl Lines<'_> {
    /// It as a figure, with the names of its lines below, each beside a sample of its line;
    /// nothing when there is no point.
    pub fn figure(&self) -> Markup {
        let Some(area) = Area::of(self) else { return Markup::default() };
        let drawn = html! {
            (self.axes(&area))
            @for (at, line) in self.lines.iter().enumerate() { (draw(&area, at, line)) }
            (self.marks(&area))
        };
        html! {
            figure {
                figcaption { (self.title) }
                (picture(HEIGHT, self.title, self.about, drawn))
                ul class="names" {
                    @for (at, line) in self.lines.iter().enumerate() {
                        li { (look::sample(at)) span { (line.name) } }
                    }
                    @if !self.marks.is_empty() {
                        li { (look::sample_of_mark()) span { (self.marked) } }
                    }
                }
            }
        }
    }

    fn axes(&self, area: &Area) -> Markup {
        let middle = tenth((LEFT + WIDTH - RIGHT) / 2.0);
        html! {
            @for value in area.values() {
                @let y = area.y(value);
                line class="grid" x1=(LEFT) x2=(WIDTH - RIGHT) y1=(tenth(y)) y2=(tenth(y)) {}
                text x=(LEFT - 6.0) y=(tenth(y + 4.0)) text-anchor="end" { (value) }
            }
            @for (x, name) in self.places(area) {
                text x=(tenth(x)) y=(FLOOR + 18.0) text-anchor="middle" { (name) }
            }
            text x=(middle) y=(HEIGHT - 6.0) text-anchor="middle" { (self.x) }
            text x="0" y="12" { (self.y) }
            @if let Some(x) = self.now.map(|now| tenth(area.x(now))) {
                line class="now" x1=(x) x2=(x) y1=(TOP) y2=(FLOOR) {}
                text x=(x) y=(TOP - 4.0) text-anchor="middle" { "now" }
            }
        }
    }

    /// The names below the floor; of those that would touch, the first one.
    fn places(&self, area: &Area) -> Vec<(f64, String)> {
        let numbers = || ticks(area.right).into_iter().map(|at| (at, at.to_string())).collect();
        let places = if self.places.is_empty() { numbers() } else { self.places.to_vec() };
        let (mut shown, mut end) = (Vec::new(), f64::NEG_INFINITY);
        for (at, name) in places {
            let (x, half) = (area.x(at), width_of(&name) / 2.0);
            if x - half >= end {
                end = x + half;
                shown.push((x, name));
            }
        }
        shown
    }

    /// Marks with what is written there: above them, or where there is room.
    fn marks(&self, area: &Area) -> Markup {
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        let mut place = |(x, y): (f64, f64), text: &str| {
            let half = width_of(text) / 2.0;
            let x = x.clamp(LEFT + half, (WIDTH - half).max(LEFT + half));
            let free = |to: &f64| {
                let apart = |(at, other, of): &(f64, f64, f64)| {
                    (x - at).abs() >= half + of || (to - other).abs() >= LETTER_HEIGHT
                };
                (TOP..FLOOR).contains(to) && taken.iter().all(apart)
            };
            let rows = (0..8).map(|row| f64::from(row) * LETTER_HEIGHT);
            let to = rows.flat_map(|row| [y - 8.0 - row, y + 16.0 + row]).find(free);
            let to = to.unwrap_or(y - 8.0);
            taken.push((x, to, half));
            (x, to)
        };
        html! {
            @for mark in self.marks {
                @let at = area.at(mark.at);
                @let (x, y) = place(at, &mark.text);
                (look::mark(at, &format!("{}: {}", self.marked, mark.text)))
                text class="marked" x=(tenth(x)) y=(tenth(y)) text-anchor="middle" { (mark.text) }
            }
        }
    }
}

fn draw(area: &Area, at: usize, line: &Line) -> Markup {
    let places: Vec<_> = line.points.iter().map(|point| area.at(*point)).collect();
    let points = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
    let few = places.len() < FEW_POINTS;
    let shown = if few { &places[..] } else { &places[places.len() - 1..] };
    html! {
        polyline class={ "series " (look::class(at)) } stroke-dasharray=(look::dash(at))
            points=(points) { title { (line.name) } }
        @for place in shown { (look::point(at, *place)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::{Mark, Scale};
    use super::*;

    fn chart<'a>(lines: &'a [Line], scale: Scale, places: &'a [(f64, String)]) -> Lines<'a> {
        let (title, about, x, y) = ("T", "about", "seconds", "MB/s");
        Lines { title, about, x, y, places, scale, lines, ..Lines::default() }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec() }
    }

    fn svg(chart: Lines<'_>) -> String {
        chart.figure().into_string()
    }

    #[test]
    fn a_line_runs_from_the_left_to_its_end() {
        let lines = [line("<a>", &[(0.0, 0.0), (10.0, 100.0)])];
        let svg = svg(chart(&lines, Scale::Linear, &[]));
        // 100 of 105 is at 210 - 100/105 x 178 = 40.5.
        assert!(svg.contains("points=\"64.0,210.0 376.0,40.5\""), "{svg}");
        assert!(svg.contains(">MB/s</text>") && svg.contains(">seconds</text>"), "{svg}");
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let lines = [line("a", &[(0.0, 10.0), (1.0, 100.0), (2.0, 1000.0)])];
        let places = [(0.0, "p50".to_owned()), (1.0, "p99".to_owned()), (2.0, "max".to_owned())];
        let svg = svg(chart(&lines, Scale::Log, &places));
        assert!(svg.contains("points=\"64.0,210.0 220.0,121.0 376.0,32.0\""), "{svg}");
        assert!(svg.contains(">p99</text>"), "{svg}");
    }

    #[test]
    fn each_name_stands_beside_a_sample_of_its_line() {
        let lines = [line("<a>", &[(1.0, 50.0)]), line("b", &[(1.0, 50.0)])];
        let svg = svg(chart(&lines, Scale::Linear, &[]));
        for (name, dash) in [("&lt;a&gt;", "none"), ("b", "7 3")] {
            let item = svg.split("<li>").find(|item| item.contains(&format!("<span>{name}<")));
            let item = item.unwrap_or_else(|| panic!("{name} is not in {svg}"));
            assert!(item.contains(&format!("stroke-dasharray=\"{dash}\"")), "{item}");
            assert_eq!(svg.matches(&format!("stroke-dasharray=\"{dash}\"")).count(), 2, "{svg}");
        }
    }

    /// Middle, baseline and half the width of each text of this class.
    fn texts(svg: &str, class: &str) -> Vec<(f64, f64, f64)> {
        let number = |text: &str, name: &str| {
            text.split(name).nth(1).and_then(|rest| rest.split('"').next()?.parse().ok())
        };
        let of = |text: &str| {
            let words = text.split('>').nth(1)?.split('<').next()?;
            Some((number(text, " x=\"")?, number(text, " y=\"")?, width_of(words) / 2.0))
        };
        svg.split("<text").filter(|text| text.starts_with(class)).filter_map(of).collect()
    }

    #[test]
    fn what_is_written_at_marks_covers_nothing_that_is_written_at_others() {
        let lines = [line("a", &[(0.0, 0.0), (100.0, 100.0)])];
        let mark = |x: f64| Mark { at: (x, x), text: format!("{x} runs") };
        let marks = [40.0, 41.0, 42.0, 42.5, 99.0, 100.0, 0.0].map(mark);
        let chart = Lines { marks: &marks, ..chart(&lines, Scale::Linear, &[]) };
        let placed = texts(&svg(chart), " class=\"marked\"");
        assert_eq!(placed.len(), marks.len());
        for (at, (x, y, half)) in placed.iter().enumerate() {
            assert!(x - half >= 0.0 && x + half <= WIDTH, "{placed:?}");
            for (other_x, other_y, other_half) in &placed[..at] {
                let beside = (x - other_x).abs() >= half + other_half - 0.11;
                let below = (y - other_y).abs() >= LETTER_HEIGHT - 0.11;
                assert!(beside || below, "{placed:?}");
            }
        }
    }

    #[test]
    fn names_below_the_floor_do_not_touch() {
        let lines = [line("a", &[(1.0, 50.0), (1000.0, 60.0)])];
        let places = [1.0, 2.0, 4.0, 8.0, 500.0, 1000.0].map(|at: f64| (at, at.to_string()));
        let svg = svg(chart(&lines, Scale::Linear, &places));
        for (name, there) in [("1", true), ("2", false), ("500", true), ("1000", true)] {
            assert_eq!(svg.contains(&format!("middle\">{name}</text>")), there, "{name}: {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert_eq!(svg(chart(&[], Scale::Linear, &[])), "");
        assert_eq!(svg(chart(&[line("a", &[])], Scale::Linear, &[])), "");
        for bad in [0.0, f64::INFINITY, f64::NAN] {
            for scale in [Scale::Linear, Scale::Log] {
                assert_eq!(svg(chart(&[line("a", &[(1.0, bad)])], scale, &[])), "", "{bad}");
            }
        }
    }
}
