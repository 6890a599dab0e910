//! `weir prices update`: prices from the lists that AWS publishes.

use std::fs::File;
use std::io::{BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_cost::{Change, ChangeKind, Entry, Found, Offer, PriceBook, Take, read_offer};
use weir_types::{Bytes, ErrorKind, FsError, Result};

use crate::cli::PricesUpdateArgs;
use crate::progress::{Progress, Unit};
use crate::render::{self, table};

/// Where AWS publishes its lists.
const AWS: &str = "https://pricing.us-east-1.amazonaws.com";
/// A server that says nothing for so long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What the lists say, and what became of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PricesUpdate")]
pub(in crate::commands) struct Report<'a> {
    /// The lists that were read.
    lists: &'a [Found],
    /// What they say that the book did not.
    changes: &'a [Change],
    /// The file of the new book; `None` where none was written.
    written: Option<&'a Path>,
}

pub(super) async fn run(args: PricesUpdateArgs) -> Result<ExitCode> {
    let begin_with = args.prices.as_deref().or(args.to.as_deref().filter(|path| path.exists()));
    let book = read_book(begin_with)?;
    let mut instances = book.instance_types();
    instances.extend(args.instance.iter().cloned());
    let lists = match &args.lists {
        Some(directory) => read_directory(directory, &args.region, &instances)?,
        None => download(&args, &instances).await?,
    };
    let found: Vec<Entry> = lists.iter().flat_map(|list| list.entries.iter().cloned()).collect();
    let take = if args.suspicious { Take::All } else { Take::Plausible };
    let (updated, changes) = book.updated(&found, take);
    let written = args.to.as_deref().filter(|_| !args.dry_run);
    if let Some(path) = written {
        write(path, &updated)?;
    }
    match args.json {
        true => {
            let (lists, changes) = (&lists[..], &changes[..]);
            render::say_json(&Report { lists, changes, written })?;
        }
        false => render::say(&describe(&lists, &changes, written))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read_book(path: Option<&Path>) -> Result<PriceBook> {
    let Some(path) = path else { return Ok(PriceBook::built_in()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| FsError::local_io(format!("read {}", path.display()), error))?;
    PriceBook::from_json(&text)
        .map_err(|error| FsError::new(ErrorKind::Invalid, format!("{}: {error}", path.display())))
}

fn read_list(file: File, region: &str, source: &str, instances: &[String]) -> Result<Found> {
    read_offer(BufReader::with_capacity(1 << 20, file), region, source, instances)
        .map_err(|error| FsError::new(ErrorKind::Invalid, format!("{source}: {error}")))
}

fn read_directory(directory: &Path, region: &str, instances: &[String]) -> Result<Vec<Found>> {
    let at = |error| FsError::local_io(directory.display(), error);
    let entries = std::fs::read_dir(directory).map_err(at)?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>();
    let mut paths = paths.map_err(at)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    paths.sort();
    if paths.is_empty() {
        let text = format!("{}: no list (*.csv) is in it", directory.display());
        return Err(FsError::new(ErrorKind::NotFound, text));
    }
    let read = paths.iter().map(|path| {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|error| FsError::local_io(&shown, error))?;
        read_list(file, region, &shown, instances)
    });
    read.collect()
}

async fn download(args: &PricesUpdateArgs, instances: &[String]) -> Result<Vec<Found>> {
    let client = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(20))
        .read_timeout(SILENCE_MAX)
        .build()
        .map_err(|error| FsError::new(ErrorKind::Unsupported, error.to_string()))?;
    let mut lists = Vec::new();
    for offer in Offer::ALL {
        let mut url = offer.url(&args.region);
        if let Some(mirror) = &args.mirror {
            url = url.replacen(AWS, mirror.trim_end_matches('/'), 1);
        }
        let file = fetch(&client, offer, &url).await?;
        lists.push(read_list(file, &args.region, &url, instances)?);
    }
    Ok(lists)
}

/// A list in a file without a name, from its beginning.
async fn fetch(client: &reqwest::Client, offer: Offer, url: &str) -> Result<File> {
    let failed = |error: reqwest::Error| {
        let text = format!("{url}: {}", error.without_url());
        FsError::new(ErrorKind::Retry, text)
    };
    let local = |error| FsError::local_io("keep the list in a temporary file", error);
    let mut file = tempfile::tempfile().map_err(local)?;
    let answer = client.get(url).send().await.map_err(failed)?;
    let mut answer = answer.error_for_status().map_err(failed)?;
    let (all, mut got) = (answer.content_length(), 0);
    let mut progress = Progress::new(Unit::Bytes);
    while let Some(bytes) = answer.chunk().await.map_err(failed)? {
        file.write_all(&bytes).map_err(local)?;
        got += bytes.len() as u64;
        progress.show(got, all, &format!("{}: {}", offer.code(), Bytes(got)));
    }
    // A list that ends with a line looks whole.
    if all.is_some_and(|all| all != got) {
        let text = format!("{url}: ends after {} of {}", Bytes(got), Bytes(all.unwrap_or(got)));
        return Err(FsError::new(ErrorKind::Retry, text));
    }
    file.rewind().map_err(local)?;
    Ok(file)
}

/// Replaces the book at once, or not at all.
fn write(path: &Path, book: &PriceBook) -> Result<()> {
    let at = |error| FsError::local_io(format!("write {}", path.display()), error);
    let text = serde_json::to_string_pretty(book)
        .map_err(|error| FsError::new(ErrorKind::Bug, "encode the book").with_source(error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file =
        tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(at)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(at)?;
    file.as_file().sync_all().map_err(at)?;
    file.persist(path).map_err(|error| at(error.error))?;
    Ok(())
}

fn describe(lists: &[Found], changes: &[Change], written: Option<&Path>) -> String {
    let mut rows = Vec::new();
    for change in changes.iter().filter(|change| change.kind != ChangeKind::Confirmed) {
        let kind = match (change.kind, change.taken) {
            (ChangeKind::New, true) => "new",
            (ChangeKind::Changed, _) => "changed",
            (ChangeKind::Older, false) => "older than what the book has: not taken",
            (_, true) => "SUSPICIOUS, taken",
            (_, false) => "SUSPICIOUS: not taken (--suspicious)",
        };
        let before =
            change.before.as_ref().map_or("unknown".to_owned(), |price| price.usd.to_string());
        rows.push(vec![
            change.region.clone(),
            change.item.to_string(),
            before,
            change.after.usd.to_string(),
            kind.to_owned(),
        ]);
    }
    let confirmed = changes.iter().filter(|of| of.kind == ChangeKind::Confirmed).count();
    let mut text = table(&rows, 2);
    text.push_str(&format!("{} prices read, {confirmed} of them as before\n", changes.len()));
    for list in lists {
        let missing: Vec<String> = list.missing.iter().map(ToString::to_string).collect();
        let also = match missing.is_empty() {
            true => String::new(),
            false => format!("; not in it: {}", missing.join(", ")),
        };
        text.push_str(&format!("{} of {}{also}\n", list.offer.code(), list.published));
        for refused in &list.refused {
            text.push_str(&format!("  {} is not understood: {}\n", refused.item, refused.why));
        }
    }
    let unlisted: Vec<String> = Offer::unlisted().iter().map(ToString::to_string).collect();
    text.push_str(&format!("in no list: {}\n", unlisted.join(", ")));
    match written {
        Some(path) => text.push_str(&format!("written to {}\n", path.display())),
        None => text.push_str("nothing was written\n"),
    }
    text
}
