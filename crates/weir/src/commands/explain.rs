//! `weir explain`: the pages of errors.

use std::process::ExitCode;

use weir_types::{ErrorCode, Result};

use crate::cli::ExplainArgs;
use crate::layout::Width;
use crate::render::{self, heading};

const PAGES: &str = include_str!("../../../../docs/errors.md");

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let width = Width::of_output();
    match args.code {
        Some(code) => render::say(&shown(page(code), width))?,
        None => {
            for code in ErrorCode::all() {
                let first = page(code).split_terminator("\n\n").nth(1).unwrap_or_default();
                let text = format!("{code}: {}", one_line(first));
                render::say(&width.prose(0, &text))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of the document that is this error's, with its heading.
fn page(code: ErrorCode) -> &'static str {
    let head = format!("\n## {code}\n");
    let rest = PAGES.find(&head).map_or("", |at| &PAGES[at + 1..]);
    let end = rest[1..].find("\n## ").map_or(rest.len(), |at| at + 1);
    rest[..end].trim_end()
}

/// A page as it is read: its lines as wide as the terminal.
fn shown(page: &str, width: Width) -> String {
    let mut text = String::new();
    for block in page.split("\n\n") {
        match block.strip_prefix("## ") {
            Some(name) => text.push_str(&format!("{}\n", heading(name))),
            None if block.starts_with("- ") => {
                for item in block[2..].split("\n- ") {
                    let lines = width.prose(4, &one_line(item));
                    text.push_str(&format!("  - {}", &lines[4..]));
                }
            }
            None => text.push_str(&width.prose(0, &one_line(block))),
        }
        text.push('\n');
    }
    text.pop();
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_page_and_each_page_its_code() {
        let heads: Vec<_> = PAGES.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let codes: Vec<_> = ErrorCode::all().map(ErrorCode::name).collect();
        assert_eq!(heads, codes, "docs/errors.md has the codes in their order");
        for code in ErrorCode::all() {
            let page = page(code);
            assert!(page.lines().count() > 4 && page.contains("\n- "), "what to do: {page}");
            let text = shown(page, Width::columns(80));
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}
