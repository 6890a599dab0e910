//! What a chart of lines shows.

/// A line, and what people call it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A place where something happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub at: (f64, f64),
    /// What is written there.
    pub text: String,
}

/// How values are laid out from the floor to the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// From 0.
    #[default]
    Linear,
    /// By powers of ten.
    Log,
}

/// A chart of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines<'a> {
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
    /// Places where something happens.
    pub marks: &'a [Mark],
    /// What happens there.
    pub marked: &'a str,
    /// Where to the right things are now.
    pub now: Option<f64>,
}
