//! Charts as inline SVG. Nothing is told by colour alone: a line has its dash and the shape of its
//! points, which stand beside its name; a bar has its number beside it.

mod area;
mod bars;
mod canvas;
mod lines;
mod look;
mod values;

pub use bars::{Bar, bars};
pub use values::{Line, Lines, Mark, Scale};
