//! What people read, as wide as their terminal: wrapped sentences, tables that lose what can be missed.

use std::io::{self, IsTerminal};

use crate::render;

/// A column of words is not cut shorter than this.
const COLUMN_MIN: usize = 12;
/// Tables begin each line with two spaces, and have as many between columns.
const GAP: usize = 2;

/// The columns of the terminal. `None`: what is written goes to a file or program, as wide as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Width(Option<usize>);

impl Width {
    /// That of standard output.
    pub(crate) fn of_output() -> Self {
        if !io::stdout().is_terminal() {
            return Self(None);
        }
        let columns = crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
        Self(columns.filter(|columns| *columns > 0))
    }

    #[cfg(test)]
    pub(crate) fn columns(columns: usize) -> Self {
        Self(Some(columns))
    }

    /// A sentence as lines, each after `indent` spaces.
    pub(crate) fn prose(self, indent: usize, text: &str) -> String {
        let spaces = " ".repeat(indent);
        let room = self.0.map_or(usize::MAX, |columns| columns.saturating_sub(indent).max(1));
        let mut lines = String::new();
        let (mut line, mut chars) = (String::new(), 0);
        for word in text.split(' ') {
            let long = word.chars().count();
            if chars > 0 && chars + 1 + long > room {
                lines.push_str(&format!("{spaces}{line}\n"));
                (line, chars) = (String::new(), 0);
            }
            if chars > 0 {
                line.push(' ');
                chars += 1;
            }
            line.push_str(word);
            chars += long;
        }
        lines.push_str(&format!("{spaces}{line}\n"));
        lines
    }

    /// [`render::table`], of which the columns `expendable` go, the first of them first, until it
    /// fits; if it still does not, words in the `left` ones are cut. Says what went.
    pub(crate) fn table(self, rows: &[Vec<String>], left: usize, expendable: &[usize]) -> String {
        let Some(columns) = self.0 else {
            return render::table(rows, left);
        };
        let mut shown: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).collect();
        let widths: Vec<usize> = shown.iter().map(|at| width_of(rows, *at)).collect();
        let needs = |shown: &[usize]| shown.iter().map(|at| widths[*at] + GAP).sum::<usize>();
        let mut gone = Vec::new();
        for column in expendable {
            if needs(&shown) > columns && shown.contains(column) {
                shown.retain(|at| at != column);
                gone.push(*column);
            }
        }
        let left = shown.iter().filter(|at| **at < left).count();
        let pick = |row: &Vec<String>| -> Vec<String> {
            shown.iter().filter_map(|at| row.get(*at).cloned()).collect()
        };
        let mut picked: Vec<Vec<String>> = rows.iter().map(pick).collect();
        let mut over = needs(&shown).saturating_sub(columns);
        while over > 0
            && let Some(widest) = (0..left).max_by_key(|at| width_of(&picked, *at))
            && width_of(&picked, widest) > COLUMN_MIN
        {
            let width = width_of(&picked, widest) - 1;
            picked
                .iter_mut()
                .filter_map(|row| row.get_mut(widest))
                .for_each(|cell| cut(cell, width));
            over -= 1;
        }
        let mut text = render::table(&picked, left);
        if !gone.is_empty() {
            gone.sort_unstable();
            let heads = gone.iter().filter_map(|at| rows.first()?.get(*at));
            let heads = heads.cloned().collect::<Vec<_>>().join(", ");
            text.push_str(&self.prose(GAP, &format!("(a wider terminal shows more: {heads})")));
        }
        text
    }
}

fn width_of(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Cuts a cell to `width` columns, the last of which says that it was cut.
fn cut(cell: &mut String, width: usize) {
    if cell.chars().count() > width {
        let kept: String = cell.chars().take(width - 1).collect();
        *cell = format!("{}…", kept.trim_end_matches([' ', ',', '…']));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["storage", "machines", "a run", "a month"]),
            row(["EBS gp3 237 GiB, 8000 IOPS", "1 x i4i.16xlarge", "2 min 1 s", "$713.20"]),
        ]
    }

    #[test]
    fn sentences_break_between_words() {
        let text = "a word and another, and averyveryverylongone";
        assert_eq!(Width::default().prose(2, text), format!("  {text}\n"));
        let wanted = "  a word and\n  another, and\n  averyveryverylongone\n";
        assert_eq!(Width::columns(14).prose(2, text), wanted);
        assert_eq!(Width::columns(1).prose(2, "a b"), "  a\n  b\n", "narrower than the indent");
    }

    #[test]
    fn a_table_fits_by_less_columns_and_then_by_shorter_words() {
        let rows = rows();
        assert_eq!(Width::default().table(&rows, 2, &[1]), render::table(&rows, 2));
        assert_eq!(Width::columns(120).table(&rows, 2, &[1]), render::table(&rows, 2));
        let fitted = Width::columns(60).table(&rows, 2, &[1]);
        assert!(fitted.contains("GiB, 8000 IOPS") && !fitted.contains("i4i"), "{fitted}");
        assert!(fitted.contains("(a wider terminal shows more: machines)"), "{fitted}");
        let cut = Width::columns(40).table(&rows, 2, &[1]);
        assert!(cut.contains("EBS gp3 237 Gi…") && cut.contains("$713.20"), "{cut}");
        for (columns, text) in [(60, fitted), (40, cut)] {
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
        assert_eq!(Width::columns(10).table(&[], 1, &[0]), "");
    }
}
