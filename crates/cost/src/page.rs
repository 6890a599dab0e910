//! A page of HTML that needs nothing else: no script, no font, no picture from outside. It is
//! light or dark as its reader likes, fits a phone, and can be printed.

pub mod chart;

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

/// A table with its first row as the head; columns from `numbers` on are set to the right, and
/// the row `best` stands out.
pub fn grid(rows: &[Vec<String>], numbers: usize, best: Option<usize>) -> Markup {
    let class = |column| (column >= numbers).then_some("n");
    let Some((head, rows)) = rows.split_first() else { return Markup::default() };
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead {
                    tr {
                        @for (column, cell) in head.iter().enumerate() {
                            th scope="col" class=[class(column)] { (cell) }
                        }
                    }
                }
                tbody {
                    @for (at, row) in rows.iter().enumerate() {
                        tr class=[(best == Some(at)).then_some("best")] {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}
