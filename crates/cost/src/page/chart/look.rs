//! How lines are told apart: by colour, by dash, and by the shape of their points.

use maud::{Markup, html};

use super::canvas::tenth;

/// Dashes of lines, by their number.
const DASHES: [&str; 6] = ["none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"];
/// Width and height of a sample.
const SAMPLE: (f64, f64) = (36.0, 12.0);

/// Its class, which has its colour.
pub(super) fn class(at: usize) -> String {
    format!("c{}", at % DASHES.len())
}

pub(super) fn dash(at: usize) -> &'static str {
    DASHES[at % DASHES.len()]
}

/// The shape of its points: another one for each round of dashes.
pub(super) fn point(at: usize, (x, y): (f64, f64)) -> Markup {
    let class = class(at);
    let path = |corners: &[(f64, f64)]| {
        let to = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx, y + dy);
        corners.iter().map(to).collect::<Vec<_>>().join(" ")
    };
    match at / DASHES.len() % 3 {
        0 => html! { circle class=(class) cx=(tenth(x)) cy=(tenth(y)) r="2.5" {} },
        1 => {
            let square = path(&[(-2.5, -2.5), (2.5, -2.5), (2.5, 2.5), (-2.5, 2.5)]);
            html! { polygon class=(class) points=(square) {} }
        }
        _ => {
            let triangle = path(&[(0.0, -3.5), (3.0, 2.5), (-3.0, 2.5)]);
            html! { polygon class=(class) points=(triangle) {} }
        }
    }
}

/// A sample of the line, to stand beside its name.
pub(super) fn sample(at: usize) -> Markup {
    let (width, height) = SAMPLE;
    sampled(html! {
        line class={ "series " (class(at)) } stroke-dasharray=(dash(at))
            x1="0" x2=(width) y1=(height / 2.0) y2=(height / 2.0) {}
        (point(at, (width / 2.0, height / 2.0)))
    })
}

/// What stands where something happens, to stand beside what that is.
pub(super) fn sample_of_mark() -> Markup {
    sampled(mark((SAMPLE.0 / 2.0, SAMPLE.1 / 2.0), ""))
}

fn sampled(inside: Markup) -> Markup {
    let (width, height) = SAMPLE;
    html! {
        svg class="sample" viewBox={ "0 0 " (width) " " (height) } aria-hidden="true" { (inside) }
    }
}

/// Stands where something happens.
pub(super) fn mark((x, y): (f64, f64), about: &str) -> Markup {
    html! {
        circle class="mark" cx=(tenth(x)) cy=(tenth(y)) r="4" {
            @if !about.is_empty() { title { (about) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_differ_by_colour_alone() {
        let shape = |at| point(at, (0.0, 0.0)).into_string().replace(&class(at), "");
        let looks: Vec<_> = (0..18).map(|at| (dash(at), shape(at))).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "line {at} looks like another");
        }
    }
}
