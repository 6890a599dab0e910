//! `weir prices`: the price book.

pub(super) mod update;

use std::path::Path;
use std::process::ExitCode;

use weir_cost::{Confidence, PriceBook, PriceRow, Prices};
use weir_types::{ErrorKind, FsError, Result};

use crate::cli::{PricesArgs, PricesCommand};
use crate::render::{self, heading, table};

pub(crate) async fn run(args: PricesArgs) -> Result<ExitCode> {
    if let Some(PricesCommand::Update(update)) = args.instead {
        return update::run(update).await;
    }
    let book = book(args.prices.as_deref())?;
    if args.book {
        render::say_document(&book)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = match &args.region {
        Some(region) => at(&book, region)?.rows(),
        None => book.rows(),
    };
    match args.json {
        true => render::say_json_rows(&rows)?,
        false => render::say(&describe(&rows))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The price book in `file`, else the built-in one.
pub(super) fn book(file: Option<&Path>) -> Result<PriceBook> {
    let Some(path) = file else { return Ok(PriceBook::built_in()) };
    let text = read(path)?;
    PriceBook::from_json(&text)
        .map_err(|error| FsError::new(ErrorKind::Invalid, format!("{}: {error}", path.display())))
}

/// The prices of a region that somebody named. One that the book does not list is more often a slip
/// than a place of which no price is known.
pub(super) fn at<'a>(book: &'a PriceBook, region: &'a str) -> Result<Prices<'a>> {
    book.listed(region).ok_or_else(|| {
        let known = book.regions().join(", ");
        let text = format!(
            "region {region} is not in the price book; known are {known}. `weir prices --book` \
             writes a book to which its prices can be added"
        );
        FsError::new(ErrorKind::Invalid, text)
    })
}

/// The text of a file that somebody named.
pub(super) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| FsError::local_io(format!("read {}", path.display()), error))
}

fn describe(rows: &[PriceRow]) -> String {
    let mut text = String::new();
    for of_region in rows.chunk_by(|a, b| a.region == b.region) {
        let lines: Vec<Vec<String>> = of_region.iter().map(line).collect();
        let region = of_region.first().map_or("", |row| row.region.as_str());
        text.push_str(&format!("{}\n{}", heading(region), table(&lines, 6)));
    }
    text
}

fn line(row: &PriceRow) -> Vec<String> {
    let PriceRow { item, unit, price, .. } = row;
    let Some(price) = price else {
        return vec![item.to_string(), "unknown".to_owned(), format!("a {unit}")];
    };
    let confidence = match price.confidence {
        Confidence::Vendor => "vendor",
        Confidence::Quoted => "quoted",
        Confidence::Unverified => "unverified",
        Confidence::Unsourced => "unsourced",
    };
    vec![
        item.to_string(),
        price.usd.to_string(),
        format!("a {unit}"),
        price.date.clone().unwrap_or_default(),
        confidence.to_owned(),
        price.source.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_no_book_lists_is_refused_with_those_that_are() {
        let book = PriceBook::built_in();
        let Err(error) = at(&book, "eu-mars-9") else { panic!("there is no such region") };
        let error = error.to_string();
        for wanted in ["eu-mars-9", "us-east-1", "ap-northeast-2"] {
            assert!(error.contains(wanted), "{wanted} is not in {error}");
        }
        assert_eq!(at(&book, "us-east-1").expect("listed").region(), "us-east-1");
    }

    #[test]
    fn each_price_says_where_it_is_from_and_unknown_ones_say_so() {
        let text = describe(&PriceBook::built_in().at("ap-northeast-2").rows());
        let line = |item: &str| {
            let found = text.lines().find(|line| line.split_whitespace().next() == Some(item));
            found.expect(item).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let efs = line("efs.standard");
        let says = "efs.standard $0.33 a GB-month 2025-09-25 quoted AWS pricing-page feed";
        assert!(efs.starts_with(says), "{efs}");
        assert_eq!(line("s3-files.read"), "s3-files.read unknown a GB");
    }
}
