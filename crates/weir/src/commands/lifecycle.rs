//! `weir lifecycle`: what moves into cheaper storage classes.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_cost::{MovesPrice, price_moves};
use weir_engine::{LifecyclePlan, LifecycleRule, LifecycleView};
use weir_types::{Bytes, ClassMove, ErrorKind, FsError, Result, UnixTime};

use super::{prices, quota};
use crate::api::{GetLifecycle, PlanLifecycle, RunLifecycle, SetLifecycle};
use crate::cli::{LifecycleCommand, LifecycleOfArgs, LifecycleSetArgs};
use crate::client::Client;
use crate::progress::{self, Progress, Unit, Waited};
use crate::{ask, clock, render};

/// A rule, and what it would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LifecyclePrice")]
pub(crate) struct Told<'a> {
    /// The directory, from the volume's root.
    path: &'a str,
    /// The rule in words.
    rule: String,
    /// What it moves at once.
    plan: &'a LifecyclePlan,
    /// What that costs, and saves.
    price: &'a MovesPrice,
    /// Whether it is the rule now.
    set: bool,
}

pub(crate) async fn run(command: LifecycleCommand) -> Result<ExitCode> {
    match command {
        LifecycleCommand::Set(args) => return set(args).await,
        LifecycleCommand::Show { place, json } => {
            say(&Client::at(&place)?.call(&GetLifecycle {}).await?, json)?;
        }
        LifecycleCommand::Remove { of, json } => {
            let (client, path) = whose(&of)?;
            say(&client.call(&SetLifecycle { path, rule: None }).await?, json)?;
        }
        LifecycleCommand::Run { place, wait, json } => {
            let client = Client::at(&place)?;
            let mut view = client.call(&RunLifecycle {}).await?;
            if view.rules.is_empty() {
                let text = "there is no rule: `weir lifecycle set` makes one";
                return Err(FsError::new(ErrorKind::NotFound, text));
            }
            if wait {
                match progress::or_ctrl_c(ended(&client, view.passes)).await? {
                    Waited::Ended(now) => view = now,
                    Waited::Left => {
                        let text = "the pass goes on: `weir lifecycle show` tells how far it is";
                        return Ok(progress::left(text));
                    }
                }
            }
            say(&view, json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(args: LifecycleSetArgs) -> Result<ExitCode> {
    let bad = |why| FsError::new(ErrorKind::Invalid, why);
    let rule: LifecycleRule = args.rule.parse().map_err(bad)?;
    let book = prices::book(args.prices.as_deref())?;
    let prices = prices::at(&book, &args.region)?;
    let (client, path) = whose(&args.of)?;
    let call = PlanLifecycle { path: path.clone(), rule: Some(rule.clone()) };
    let plan = planned(&client, &call).await?;
    let price = price_moves(prices, &plan.moves);
    let shown =
        Told { path: &path, rule: rule.to_string(), plan: &plan, price: &price, set: false };
    if !args.json {
        render::say(&describe_plan(&shown, &args.region))?;
    }
    let may_set = !args.dry_run
        && (args.yes || plan.moves.is_empty() || ask::yes("Set this rule?", "this costs money")?);
    if may_set {
        client.call(&SetLifecycle { path: path.clone(), rule: Some(rule) }).await?;
    }
    match (args.json, may_set) {
        (true, _) => render::say_json(&Told { set: may_set, ..shown })?,
        (false, true) => {
            render::say("The rule is set: `weir lifecycle show` tells how far it is.\n")?;
        }
        (false, false) => render::say("Nothing was changed.\n")?,
    }
    Ok(if may_set || args.dry_run { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plan, for which all objects are looked at.
async fn planned(client: &Client, call: &PlanLifecycle) -> Result<LifecyclePlan> {
    let mut progress = Progress::new(Unit::Objects);
    let mut planning = std::pin::pin!(client.call(call));
    loop {
        tokio::select! {
            plan = &mut planning => return plan,
            () = tokio::time::sleep(progress.interval()) => {
                progress.show(0, None, "looking at all objects of the volume");
            }
        }
    }
}

fn whose(of: &LifecycleOfArgs) -> Result<(Client, String)> {
    match &of.path {
        Some(path) => Ok((Client::at(&of.place)?, path.clone())),
        None => quota::located(&of.place),
    }
}

/// Once a pass has ended that began after this one.
async fn ended(client: &Client, before: u64) -> Result<LifecycleView> {
    let mut progress = Progress::new(Unit::Objects);
    loop {
        let view = client.call(&GetLifecycle {}).await?;
        let is_new = view.passes > before;
        if is_new && !view.running {
            return Ok(view);
        }
        if let Some(trouble) = &view.trouble {
            let text =
                format!("the pass stands still, and is tried again in ten minutes: {trouble}");
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        let (looked, all) = if is_new { (view.looked, view.segments) } else { (0, view.segments) };
        let moved = Bytes(view.moved_bytes + view.objects.moved_bytes);
        let mut beside = format!("{looked} of {all} segments, {moved} moved");
        if is_new && view.objects.looked > 0 {
            beside.push_str(&format!(", {} objects of links looked at", view.objects.looked));
        }
        progress.show(looked, Some(all), &beside);
        tokio::time::sleep(progress.interval()).await;
    }
}

fn say(view: &LifecycleView, json: bool) -> Result<()> {
    match json {
        true => render::say_json(view),
        false => render::say(&describe(view, (clock::real().now)())),
    }
}

fn describe_plan(told: &Told<'_>, region: &str) -> String {
    let place = if told.path.is_empty() { "/" } else { told.path };
    let mut text = format!("{place}: {}\n", told.rule);
    if told.plan.moves.is_empty() {
        text.push_str("Nothing is old enough to move yet.\n");
    }
    for ClassMove { from, to, objects, bytes, .. } in &told.plan.moves {
        text.push_str(&format!("  {from} -> {to}: {} in {objects} objects\n", Bytes(*bytes)));
    }
    if told.plan.mixed > 0 {
        let mixed = told.plan.mixed;
        text.push_str(&format!(
            "  {mixed} objects have files of several rules: what is to be cold of them is written anew, apart\n"
        ));
    }
    if told.plan.asked < told.plan.old {
        let (asked, old) = (told.plan.asked, told.plan.old);
        text.push_str(&format!("  told from {asked} of {old} objects that are old enough\n"));
    }
    let MovesPrice { once, month_before, month_after, even_gb_a_month } = told.price;
    if !told.plan.moves.is_empty() {
        text.push_str(&format!(
            "  once {once}; then {month_after} a month for what was {month_before} (list prices of {region})\n"
        ));
    }
    if let Some(gb) = even_gb_a_month {
        text.push_str(&format!("  reading back {gb:.0} GB of it a month costs what that saves\n"));
    }
    text
}

fn describe(view: &LifecycleView, now: UnixTime) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for rule in &view.rules {
        let path = rule.path.clone().unwrap_or_else(|| "(a directory that is removed)".to_owned());
        let of_link = rule.link.map(|link| format!(" (objects of link {link})"));
        rows.push(vec![path, rule.text.clone() + &of_link.unwrap_or_default()]);
    }
    let mut text = match rows.is_empty() {
        true => "There is no rule: nothing moves.\n".to_owned(),
        false => render::table(&rows, 2),
    };
    let classes =
        view.classes.iter().map(|of| vec![of.class.to_string(), Bytes(of.bytes).to_string()]);
    text.push_str(&render::table(&classes.collect::<Vec<_>>(), 1));
    let ago = |at: UnixTime| {
        let seconds = (now.0 - at.0).max(0).cast_unsigned() / 1_000_000_000;
        format!("{} ago", render::seconds(seconds))
    };
    let done = format!(
        "{} of {} segments looked at, {} moved ({})",
        view.looked,
        view.segments,
        view.moved,
        Bytes(view.moved_bytes)
    );
    if let Some(started) = view.started {
        let when = match (view.running, view.ended) {
            (false, Some(ended)) => format!("the last pass ended {}", ago(ended)),
            _ => format!("a pass began {}", ago(started)),
        };
        text.push_str(&format!("{when}: {done}\n"));
    }
    text.push_str(&describe_objects(view));
    if view.separated > 0 {
        text.push_str(&format!("{} segments were written anew, apart\n", view.separated));
    }
    if let Some(trouble) = &view.trouble {
        text.push_str(&format!("STANDS STILL: {trouble}\n"));
    }
    text
}

/// What became of objects of links.
fn describe_objects(view: &LifecycleView) -> String {
    let mut text = String::new();
    let of = &view.objects;
    if of.looked > 0 || of.why.is_some() {
        let moved = Bytes(of.moved_bytes);
        text.push_str(&format!(
            "objects of links: {} looked at, {} moved ({moved})\n",
            of.looked, of.moved
        ));
    }
    for known in &view.object_classes {
        text.push_str(&format!("  {} in {}\n", Bytes(known.bytes), known.class));
    }
    if let Some(why) = &of.why {
        text.push_str(&format!("  {} stay where they are: {why}\n", of.refused));
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_cost::PriceBook;
    use weir_types::StorageClass;

    use super::*;

    #[test]
    fn a_rule_says_its_price() {
        let moved = ClassMove {
            from: StorageClass::Standard,
            to: StorageClass::GlacierIr,
            objects: 65_536,
            bytes: 1 << 40,
            early_byte_days: 0,
        };
        let plan = LifecyclePlan { moves: vec![moved], mixed: 3, old: 70_000, asked: 1_000 };
        let book = PriceBook::built_in();
        let price = price_moves(book.at("us-east-1"), &[moved]);
        let rule = "cold after 30d: GLACIER_IR".to_owned();
        let told = Told { path: "raw", rule, plan: &plan, price: &price, set: false };
        let text = describe_plan(&told, "us-east-1");
        for says in [
            "STANDARD -> GLACIER_IR: 1 TiB in 65536 objects",
            "3 objects have files of several rules",
            "told from 1000 of 70000",
            "once $1.31; then $4.10 a month for what was $23.55",
            "reading back 649 GB",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
