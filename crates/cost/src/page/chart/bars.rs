//! Horizontal bars.

use maud::{Markup, html};

use super::canvas::{LETTER_WIDTH, WIDTH, picture, tenth};

/// Height of a bar with its name above.
const ROW: f64 = 36.0;
/// Beside the longest bar, for its number.
const BESIDE: f64 = 130.0;

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What people call it.
    pub name: String,
    /// How long it is; the shortest is the first.
    pub value: f64,
    /// What is written beside it: the value with its unit.
    pub text: String,
}

/// A figure of bars, the shortest first; `about` says the same as `title` in a sentence.
pub fn bars(title: &str, about: &str, bars: &[Bar]) -> Markup {
    let mut bars = bars.to_vec();
    bars.sort_by(|a, b| a.value.total_cmp(&b.value));
    let most = bars.iter().map(|bar| bar.value).filter(|value| value.is_finite());
    let most = most.fold(0.0, f64::max).max(1e-9);
    let drawn = html! {
        @for (at, bar) in bars.iter().enumerate() {
            @let top = ROW * at as f64;
            @let length = (bar.value.min(most) / most * (WIDTH - BESIDE)).max(1.0);
            text x="0" y=(tenth(top + 12.0)) { (shown(&bar.name)) title { (bar.name) } }
            rect class="bar" x="0" y=(tenth(top + 17.0)) width=(tenth(length)) height="12" {}
            text x=(tenth(length + 6.0)) y=(tenth(top + 27.5)) { (bar.text) }
        }
    };
    let height = ROW * bars.len() as f64;
    html! {
        figure {
            figcaption { (title) }
            (picture(height, title, about, drawn))
        }
    }
}

/// A name as far as it fits: its end tells more of a path than its beginning.
fn shown(name: &str) -> String {
    let (most, count) = ((WIDTH / LETTER_WIDTH) as usize, name.chars().count());
    match count > most {
        true => format!("…{}", name.chars().skip(count + 1 - most).collect::<String>()),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64) -> Bar {
        Bar { name: name.to_owned(), value, text: format!("${value}") }
    }

    #[test]
    fn the_shortest_is_first_and_what_has_no_end_last() {
        let all = [bar("b", 4.0), bar("never", f64::INFINITY), bar("a<", 1.0)];
        let drawn = bars("T", "about", &all).into_string();
        let places: Vec<_> = ["a&lt;", ">b<", "never"]
            .map(|name| drawn.find(name).unwrap_or_else(|| panic!("{name} is not in {drawn}")))
            .to_vec();
        assert!(places.is_sorted(), "{drawn}");
        for length in ["width=\"67.5\"", "width=\"270.0\""] {
            assert!(drawn.contains(length), "{length} is not in {drawn}");
        }
    }

    #[test]
    fn a_long_name_shows_its_end() {
        let path = format!("/mnt/{}/genomes", "x".repeat(80));
        let text = shown(&path);
        assert!(text.starts_with('…') && text.ends_with("x/genomes"), "{text}");
        assert_eq!(text.chars().count(), 57);
        assert_eq!(shown("ü"), "ü");
    }
}
