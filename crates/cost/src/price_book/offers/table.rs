//! Offer files as tables: a few lines about the file, a line of column names, then rows.
//!
//! EC2's file has hundreds of megabytes, so one line is kept at a time, and a line has a limit.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use super::error::OfferError;

/// AWS's longest lines have some 2,000 bytes.
const LINE_BYTES: u64 = 64 << 10;

/// The lines about the file that stand before its columns: five, as AWS writes them.
const LINES_BEFORE_COLUMNS: usize = 16;

/// Columns that each offer file has.
const COLUMNS: [&str; 9] = [
    "SKU",
    "TermType",
    "StartingRange",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Product Family",
    "usageType",
    "operation",
];

/// An offer file that is read row by row.
pub(super) struct Table<R> {
    from: R,
    line: u64,
    bytes: Vec<u8>,
    about: BTreeMap<String, String>,
    columns: BTreeMap<String, usize>,
    width: usize,
}

/// One row, by the names of its columns.
pub(super) struct Row<'a> {
    columns: &'a BTreeMap<String, usize>,
    fields: Vec<String>,
    /// Where it stands in the file.
    pub(super) line: u64,
}

impl<R: BufRead> Table<R> {
    /// Reads up to the line of column names.
    pub(super) fn open(from: R) -> Result<Self, OfferError> {
        let mut table = Self {
            from,
            line: 0,
            bytes: Vec::new(),
            about: BTreeMap::new(),
            columns: BTreeMap::new(),
            width: 0,
        };
        while let Some(fields) = table.fields()? {
            if fields.first().is_some_and(|first| name(first) == "sku") {
                table.width = fields.len();
                let named = fields.iter().enumerate();
                table.columns = named.map(|(at, field)| (name(field), at)).collect();
                for column in COLUMNS {
                    table.need(column)?;
                }
                return Ok(table);
            }
            if let [key, value] = &fields[..] {
                table.about.insert(name(key), value.clone());
            }
            if table.line >= LINES_BEFORE_COLUMNS as u64 {
                break;
            }
        }
        Err(table.no_columns())
    }

    fn no_columns(&self) -> OfferError {
        if self.line == 0 {
            return OfferError::NotAnOffer("it is empty".to_owned());
        }
        OfferError::NotAnOffer(format!("its first {} lines name no column `SKU`", self.line))
    }

    /// What the file says about itself, such as `Publication Date`.
    pub(super) fn about(&self, key: &'static str) -> Result<&str, OfferError> {
        let value = self.about.get(&name(key)).map(String::as_str);
        value.ok_or_else(|| OfferError::NotAnOffer(format!("it does not say its `{key}`")))
    }

    /// Refuses a file without this column.
    pub(super) fn need(&self, column: &'static str) -> Result<(), OfferError> {
        self.columns.contains_key(&name(column)).then_some(()).ok_or(OfferError::Column(column))
    }

    /// The next row, unless that was the last.
    pub(super) fn row(&mut self) -> Result<Option<Row<'_>>, OfferError> {
        let Some(fields) = self.fields()? else { return Ok(None) };
        if fields.len() != self.width {
            let why = format!("it has {} fields of {}", fields.len(), self.width);
            return Err(OfferError::Row { line: self.line, why });
        }
        Ok(Some(Row { columns: &self.columns, fields, line: self.line }))
    }

    /// The fields of the next line.
    fn fields(&mut self) -> Result<Option<Vec<String>>, OfferError> {
        self.bytes.clear();
        let read = (&mut self.from).take(LINE_BYTES).read_until(b'\n', &mut self.bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        let row = |why: &str| OfferError::Row { line: self.line, why: why.to_owned() };
        if read as u64 == LINE_BYTES && self.bytes.last() != Some(&b'\n') {
            return Err(row("it is longer than any line of AWS's lists"));
        }
        let text = std::str::from_utf8(&self.bytes).map_err(|_| row("it is no text"))?;
        let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if self.line == 1 {
            recognise(text)?;
        }
        split(text).map(Some).ok_or_else(|| row("a quoted field does not end"))
    }
}

impl Row<'_> {
    /// What stands in this column; nothing where the file does not have it.
    pub(super) fn get(&self, column: &str) -> &str {
        self.columns.get(&name(column)).map_or("", |at| self.fields[*at].as_str())
    }
}

/// The same column is `Volume API Name` in one file and `volumeApiName` in another.
fn name(column: &str) -> String {
    let letters = column.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// What is often taken for a list is called by its name.
fn recognise(first: &str) -> Result<(), OfferError> {
    let why = match first.trim_start().chars().next() {
        Some('<') => "it is a web page; fetch the list again",
        Some('{' | '[') => "it is the JSON form; take index.csv beside it",
        Some('\u{1f}') => "it is compressed; unpack it first",
        _ => return Ok(()),
    };
    Err(OfferError::NotAnOffer(why.to_owned()))
}

/// The fields of a line of CSV; `None` when a quote is open at its end.
fn split(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                fields.last_mut()?.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_commas_outside_quotes() {
        let fields = |line: &str| split(line).map(|fields| fields.join("|"));
        assert_eq!(fields(r#""a, b",c,,"d ""e""""#).as_deref(), Some(r#"a, b|c||d "e""#));
        assert_eq!(fields("").as_deref(), Some(""));
        assert_eq!(fields(r#""a","b"#), None);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = Table::open(endless).err().expect("refused").to_string();
        assert!(error.contains("longer than any line"), "{error}");
    }
}
