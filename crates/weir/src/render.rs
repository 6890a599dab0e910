//! What people see: tables, sizes and errors.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;
use weir_types::{ErrorKind, FsError, Result};

/// Writes to standard output. Whoever stops reading (`| head`) is no error.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(FsError::local_io("write the answer", error))
        }
        _ => Ok(()),
    }
}

/// The version of all reports as JSON. It rises when a field goes, or means something else; new
/// fields may come without.
const SCHEMA_VERSION: u32 = 1;

/// A report as JSON, with the version of its fields.
#[derive(Serialize)]
struct Versioned<T> {
    schema_version: u32,
    #[serde(flatten)]
    report: T,
}

impl<T> Versioned<T> {
    fn new(report: T) -> Self {
        Self { schema_version: SCHEMA_VERSION, report }
    }
}

/// Writes a report as JSON.
pub(crate) fn say_json(report: &impl Serialize) -> Result<()> {
    say_document(&Versioned::new(report))
}

/// Writes a list of reports as JSON, each with its version.
pub(crate) fn say_json_rows<T: Serialize>(rows: impl IntoIterator<Item = T>) -> Result<()> {
    say_document(&rows.into_iter().map(Versioned::new).collect::<Vec<_>>())
}

/// A report as one line of JSON, for what has one after the other.
pub(crate) fn json_line(report: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(&Versioned::new(report)).map_err(not_encoded)?;
    Ok(format!("{text}\n"))
}

/// Writes what has a format of its own, and a version in it, as JSON.
pub(crate) fn say_document(document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document).map_err(not_encoded)?;
    say(&format!("{text}\n"))
}

fn not_encoded(error: serde_json::Error) -> FsError {
    FsError::new(ErrorKind::Bug, "encode the answer").with_source(error)
}

/// Writes to standard error. With that gone there is nobody left to tell.
pub(crate) fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Tells of an error on standard error, with what caused it if asked, and answers the exit code.
pub(crate) fn report(error: &FsError, with_causes: bool) -> ExitCode {
    let mut text = format!("weir: {error}\n");
    let mut cause = error.source().filter(|_| with_causes);
    while let Some(below) = cause {
        text.push_str(&format!("  because: {below}\n"));
        cause = below.source();
    }
    if let Some(code) = error.code() {
        text.push_str(&format!("  more of it: weir explain {code}\n"));
    }
    tell(&text);
    ExitCode::FAILURE
}

/// `text` in bold where standard output is a terminal that may show it.
pub(crate) fn heading(text: &str) -> String {
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[1m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Rows as aligned columns, indented by two: the first `left` columns to the left, the others to
/// the right.
pub(crate) fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let width = widths[at];
            match at < left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(&format!("  {}\n", line.trim_end()));
    }
    text
}

/// A number of files for people.
pub(crate) fn files(count: u64) -> String {
    format!("{count} file{}", if count == 1 { "" } else { "s" })
}

/// A number of objects for people.
pub(crate) fn objects(count: u64) -> String {
    format!("{count} object{}", if count == 1 { "" } else { "s" })
}

/// A span of time for people: `42 s`, `5 min 3 s`, `2 h 7 min`, `3 d 4 h`.
pub(crate) fn seconds(total: u64) -> String {
    match total {
        0..60 => format!("{total} s"),
        60..3_600 => format!("{} min {} s", total / 60, total % 60),
        3_600..86_400 => format!("{} h {} min", total / 3_600, total % 3_600 / 60),
        _ => format!("{} d {} h", total / 86_400, total % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["who", "what", "n"]), row(["meta", "put", "1,000"]), row(["ü", "", "7"])];
        let wanted = "  who   what      n\n  meta  put   1,000\n  ü               7\n";
        assert_eq!(table(&rows, 2), wanted);
        assert_eq!(table(&[], 1), "");
    }

    #[test]
    fn times_have_two_units_at_most() {
        for (total, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (303, "5 min 3 s"),
            (7_620, "2 h 7 min"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(seconds(total), text);
        }
    }
}
