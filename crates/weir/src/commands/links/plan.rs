//! What a link would do and cost, before it does it: `weir link --plan` and `weir links --pending`.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use weir_cost::{Amount, PriceBook, Requests, Usage, lists_of, polls_per_month, so_far};
use weir_engine::{
    BucketUrl, LinkOptions, LinkPlan, LinkView, PlannedChange, PlannedExport, PlannedExports,
    Policy,
};
use weir_types::{Bytes, NanoUsd};

use crate::render::{files, heading, objects, seconds, table};

/// The region whose prices are taken where the link names none.
const USUAL_REGION: &str = "us-east-1";
/// Polls that cost more a month are warned of.
const WARN: NanoUsd = NanoUsd(10_000_000_000);

/// A plan with what it costs at Amazon's list prices; null elsewhere.
#[derive(Serialize)]
pub(super) struct PricedPlan {
    url: String,
    #[serde(flatten)]
    plan: LinkPlan,
    poll_s: Option<u64>,
    first_import: Option<Amount>,
    polls_a_month: Option<Amount>,
}

/// Exports that wait, with what they cost.
#[derive(Serialize)]
pub(super) struct PricedExports {
    url: String,
    #[serde(flatten)]
    planned: PlannedExports,
    bytes_put: u64,
    cost: Option<Amount>,
}

/// What so many requests cost, if it is Amazon that bills them.
fn cost(options: &LinkOptions, put: u64, get: u64) -> Option<Amount> {
    let region = region(options)?;
    let requests = Requests { put, get, delete: 0 };
    let book = PriceBook::built_in();
    let bill = so_far(book.at(&region), &Usage { requests, ..Usage::default() });
    Some(Amount { usd: bill.total, complete: bill.complete })
}

fn region(options: &LinkOptions) -> Option<String> {
    let url: BucketUrl = options.url.parse().ok()?;
    let amazon = options.endpoint.is_none() && url.to_string().starts_with("s3://");
    amazon.then(|| options.region.clone().unwrap_or_else(|| USUAL_REGION.to_owned()))
}

fn money(amount: Option<Amount>) -> String {
    match amount {
        None => "no price is known".to_owned(),
        Some(Amount { usd, complete: true }) => usd.to_string(),
        Some(Amount { .. }) => "the region's price is not known".to_owned(),
    }
}

/// What polls of so many objects cost a month, if there are any.
fn polls(options: &LinkOptions, lists: u64) -> Option<Amount> {
    let polled = options.import != Policy::default();
    let region = region(options).filter(|_| polled)?;
    let every = Duration::from_secs(options.poll_s);
    Some(polls_per_month(PriceBook::built_in().at(&region), lists, every))
}

/// What polls of a link cost, for its row in `weir links`.
pub(super) fn polls_text(view: &LinkView) -> String {
    let lists = lists_of(view.files + view.hidden);
    match polls(&view.options, lists).filter(|_| !view.options.lazy_dirs) {
        Some(amount) if amount.complete => format!(", about {} a month", amount.usd),
        _ => String::new(),
    }
}

/// A warning, if polls of a link cost much.
pub(super) fn polls_warning(view: &LinkView) -> Option<String> {
    let lists = lists_of(view.files + view.hidden);
    let amount = polls(&view.options, lists).filter(|_| !view.options.lazy_dirs)?;
    (amount.usd > WARN).then(|| {
        format!(
            "WARNING: {lists} LISTs each {} cost about {} a month: link again with a longer \
             --poll, or use `weir refresh --events`\n",
            seconds(view.options.poll_s),
            amount.usd
        )
    })
}

impl PricedPlan {
    pub(super) fn new(options: &LinkOptions, plan: LinkPlan) -> Self {
        let polled = options.import != Policy::default();
        Self {
            url: options.url.clone(),
            poll_s: polled.then_some(options.poll_s),
            first_import: cost(options, plan.lists, plan.heads_most),
            polls_a_month: polls(options, plan.lists),
            plan,
        }
    }

    pub(super) fn describe(&self, options: &LinkOptions, path: &Path) -> String {
        let plan = &self.plan;
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        let below = if options.lazy_dirs { " directly in it" } else { "" };
        row("shows", format!("{}{below}, {}", objects(plan.objects), Bytes(plan.bytes)));
        if plan.hidden > 0 {
            row("hidden", format!("{} cannot show as files", objects(plan.hidden)));
        }
        let (lists, heads) = (plan.lists, plan.heads_most);
        let first = money(self.first_import);
        row("first import", format!("{lists} LISTs, at most {heads} HEADs: {first}"));
        match self.poll_s {
            None => row("polls", "none".to_owned()),
            Some(poll_s) => {
                let (every, month) = (seconds(poll_s), money(self.polls_a_month));
                let each = match options.lazy_dirs {
                    true => "1 LIST or more for each directory that was looked into".to_owned(),
                    false => format!("{lists} LISTs, up to as many again where keys are uneven"),
                };
                row("polls", format!("{each}, each {every}: {month} a month or more"));
            }
        }
        if options.export != Policy::default() {
            let text = "nothing now: the directory is empty. Before the first write the server is \
                        asked what conditions it holds: 4 PUTs and 1 DELETE of an object of ours. \
                        `weir links --pending` shows what waits";
            row("export", text.to_owned());
        }
        let title = format!("{} at {}: nothing was made", self.url, path.display());
        format!("{}\n{}", heading(&title), table(&rows, 2))
    }
}

impl PricedExports {
    pub(super) fn new(options: &LinkOptions, planned: PlannedExports) -> Self {
        let sum = |count: fn(&PlannedExport) -> u64| planned.exports.iter().map(count).sum();
        let uploaded = |export: &PlannedExport| match export.change {
            PlannedChange::Put => export.bytes,
            _ => 0,
        };
        Self {
            url: options.url.clone(),
            bytes_put: sum(uploaded),
            cost: cost(options, sum(|export| export.puts), sum(|export| export.heads)),
            planned,
        }
    }

    pub(super) fn describe(&self, path: &Path) -> String {
        let exports = &self.planned.exports;
        let mut rows: Vec<Vec<String>> = exports.iter().map(row).collect();
        let count = |change| exports.iter().filter(|export| export.change == change).count() as u64;
        let more = if self.planned.more { "; there are more" } else { "" };
        let text = format!(
            "{} put ({}), {} copied, {} deleted, {} directories moved: {}{more}",
            count(PlannedChange::Put),
            Bytes(self.bytes_put),
            count(PlannedChange::Copy),
            count(PlannedChange::Delete),
            count(PlannedChange::MoveDirectory),
            money(self.cost)
        );
        rows.push(vec!["in all".to_owned(), text, String::new()]);
        let waits = files(exports.len() as u64);
        let title = format!("{} on {}: {waits} to export", self.url, path.display());
        format!("{}\n{}", heading(&title), table(&rows, 3))
    }
}

fn row(export: &PlannedExport) -> Vec<String> {
    let (what, key) = match (export.change, &export.from) {
        (PlannedChange::Copy, Some(from)) => ("copy", format!("{from} -> {}", export.key)),
        (PlannedChange::MoveDirectory, Some(from)) => {
            ("move", format!("{from} -> {}: each file in it is copied", export.key))
        }
        (PlannedChange::Delete, _) => ("delete", export.key.clone()),
        _ if export.open => ("put", format!("{}, when its last writer has closed it", export.key)),
        _ => ("put", export.key.clone()),
    };
    vec![what.to_owned(), key, Bytes(export.bytes).to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::links::describe::tests::view;

    #[test]
    fn a_plan_tells_what_polls_cost_a_month() {
        let options = view("s3://b/db").options;
        let plan = LinkPlan {
            objects: 1_000_000,
            bytes: 1 << 40,
            hidden: 2,
            lists: 1_000,
            heads_most: 1_000_000,
        };
        let priced = PricedPlan::new(&options, plan.clone());
        let text = priced.describe(&options, Path::new("/mnt/db"));
        for wanted in ["$219.00 a month", "1000 LISTs, at most 1000000 HEADs: $0.405", "1 TiB"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let elsewhere = LinkOptions { endpoint: Some("http://h".to_owned()), ..options };
        let text = PricedPlan::new(&elsewhere, plan).describe(&elsewhere, Path::new("/mnt/db"));
        assert!(text.contains("no price is known"), "{text}");
    }

    #[test]
    fn dear_polls_are_warned_of() {
        let mut view = view("s3://b/db");
        assert_eq!(
            (polls_text(&view).as_str(), polls_warning(&view)),
            (", about $0.219 a month", None)
        );
        view.files = 100_000;
        let warning = polls_warning(&view).expect("dear");
        assert!(
            warning.contains("100 LISTs each 1 min 0 s cost about $21.90 a month"),
            "{warning}"
        );
        view.options.import = Policy::default();
        assert_eq!((polls_text(&view).as_str(), polls_warning(&view)), ("", None));
    }

    #[test]
    fn what_waits_is_told_with_its_cost() {
        let put = PlannedExport {
            change: PlannedChange::Put,
            key: "a".to_owned(),
            from: None,
            bytes: 1 << 20,
            puts: 1,
            heads: 0,
            open: false,
        };
        let from = Some("x".to_owned());
        let copy = PlannedExport { change: PlannedChange::Copy, from, heads: 5, ..put.clone() };
        let delete =
            PlannedExport { change: PlannedChange::Delete, puts: 0, heads: 1, ..put.clone() };
        let planned = PlannedExports { exports: vec![put, copy, delete], more: false };
        let options = view("s3://b/db").options;
        let text = PricedExports::new(&options, planned).describe(Path::new("/mnt/db"));
        for wanted in ["x -> a", "1 put (1 MiB), 1 copied, 1 deleted", "$0.0000124"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
}
