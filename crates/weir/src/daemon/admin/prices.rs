//! List prices over the admin door.

use std::sync::Arc;

use weir_cost::{Item, PriceBook, Prices};
use weir_types::{ErrorKind, FsError, Result};

use super::routes::Routes;
use crate::api::{GetPrices, ListPrices};
use crate::daemon::shared::DaemonState;

const USUAL_REGION: &str = "us-east-1";

pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(list)
}

async fn list(shared: Arc<DaemonState>, GetPrices { region }: GetPrices) -> Result<ListPrices> {
    of_region(&PriceBook::built_in(), &region_of(&shared, region).await?)
}

/// The region that is asked for, else the budget's, else the usual one.
pub(super) async fn region_of(shared: &DaemonState, asked: Option<String>) -> Result<String> {
    if let Some(region) = asked {
        return Ok(region);
    }
    let budget = shared.engine.throughput().await?.budget;
    Ok(budget.map_or(USUAL_REGION.to_owned(), |budget| budget.region))
}

/// The prices of a region, if the book lists it.
pub(super) fn listed<'a>(book: &'a PriceBook, region: &'a str) -> Result<Prices<'a>> {
    book.listed(region).ok_or_else(|| {
        let known = book.regions().join(", ");
        let text = format!("region {region} is not in the price book; known are {known}");
        FsError::new(ErrorKind::NotFound, text)
    })
}

fn of_region(book: &PriceBook, region: &str) -> Result<ListPrices> {
    let prices = listed(book, region)?;
    let of = |item| prices.of(&item).map(|price| price.usd);
    Ok(ListPrices {
        put_nano_usd_per_1000: of(Item::S3Put),
        get_nano_usd_per_1000: of(Item::S3Get),
        delete_nano_usd_per_1000: of(Item::S3Delete),
        storage_nano_usd_per_gib_month: of(Item::S3Storage),
        region: region.to_owned(),
        regions: book.regions().into_iter().map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_book_lists_is_refused_or_unknown_but_not_free() {
        let book = PriceBook::built_in();
        let here = of_region(&book, USUAL_REGION).expect("listed");
        assert_eq!(here.put_nano_usd_per_1000.map(|usd| usd.0), Some(5_000_000));
        let tokyo = of_region(&book, "ap-northeast-1").expect("listed");
        assert_eq!(tokyo.put_nano_usd_per_1000, None);
        let error = of_region(&book, "eu-mars-9").expect_err("no such place");
        assert!(error.to_string().contains("us-east-1, ap-northeast-2"), "{error}");
    }
}
