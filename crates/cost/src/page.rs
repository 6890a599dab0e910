//! A page of HTML that needs nothing else: no script, no font, no picture from outside. It is
//! light or dark as its reader likes, fits a phone, and can be printed.

pub mod chart;

use std::ops::Range;

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page/style.css");

/// A whole page.
pub fn document(title: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (body) } }
        }
    }
    .into_string()
}

/// More columns than these do not fit a phone.
const FEW_COLUMNS: usize = 3;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table<'a> {
    /// Its rows, the head first.
    pub rows: &'a [Vec<String>],
    /// The columns that are numbers, which are set to the right.
    pub numbers: Range<usize>,
    /// The row that stands out, counted without the head.
    pub best: Option<usize>,
    /// The column by which the rows are sorted, from the lowest up.
    pub sorted: Option<usize>,
}

impl Table<'_> {
    /// It as HTML: as wide as its reader's screen, where a row of many columns becomes a card if
    /// that is narrow.
    pub fn markup(&self) -> Markup {
        let Some((head, rows)) = self.rows.split_first() else { return Markup::default() };
        let class = |column| self.numbers.contains(&column).then_some("n");
        let sorted = |column| (self.sorted == Some(column)).then_some("ascending");
        html! {
            div class="scroll" tabindex="0" {
                table class=[(head.len() > FEW_COLUMNS).then_some("wide")] {
                    thead {
                        tr {
                            @for (column, cell) in head.iter().enumerate() {
                                th scope="col" class=[class(column)] aria-sort=[sorted(column)] {
                                    (cell)
                                }
                            }
                        }
                    }
                    tbody {
                        @for (at, row) in rows.iter().enumerate() {
                            tr class=[(self.best == Some(at)).then_some("best")] {
                                @for (column, (cell, head)) in row.iter().zip(head).enumerate() {
                                    td class=[class(column)] data-head=(head) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_by_what_it_is_sorted_and_each_cell_what_it_is() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "b", "c", "<d>"]), row(["x", "1", "2", "&"])];
        let table = Table { rows: &rows, numbers: 1..3, best: Some(0), sorted: Some(1) };
        let html = table.markup().into_string();
        for wanted in [
            "<table class=\"wide\">",
            "<th scope=\"col\" class=\"n\" aria-sort=\"ascending\">b</th>",
            "<th scope=\"col\">&lt;d&gt;</th>",
            "<tr class=\"best\"><td data-head=\"a\">x</td>",
            "<td class=\"n\" data-head=\"c\">2</td><td data-head=\"&lt;d&gt;\">&amp;</td>",
        ] {
            assert!(html.contains(wanted), "{wanted} is not in {html}");
        }
        let narrow = [rows[0][..3].to_vec()];
        let html = Table { rows: &narrow, ..Table::default() }.markup().into_string();
        assert!(!html.contains("wide") && !html.contains("aria-sort"), "{html}");
        assert_eq!(Table::default().markup().into_string(), "");
    }
}
