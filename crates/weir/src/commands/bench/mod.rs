//! `weir bench`: the experiments people choose storage by, on any directories.

mod bucket;
mod describe;
mod requests;
mod shown;

use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::Path;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use weir_bench::announce::{Announcement, announce};
use weir_bench::report::{Report, Size};
use weir_bench::runner::{self, Options};
use weir_bench::suite::{BenchError, Stop, Suite};
use weir_bench::suites;
use weir_bench::{compare, html};
use weir_cost::PriceBook;
use weir_types::{ErrorKind, FsError, NanoUsd, Result};

use super::prices;
use crate::cli::{BenchArgs, BenchCommand, BenchCompareArgs, BenchRunArgs, BenchSize};
use crate::{ask, progress, render};
use bucket::Buckets;
pub(super) use describe::Listed;
use shown::Shown;

const MADE_BY: &str = concat!("weir ", env!("CARGO_PKG_VERSION"));
/// A run that costs more is asked for.
const MUCH: NanoUsd = NanoUsd(1_000_000_000);
/// So is one that takes longer.
const LONG_SECONDS: u64 = 600;

pub(crate) async fn run(args: BenchArgs) -> Result<ExitCode> {
    match args.instead {
        Some(BenchCommand::Suites(args)) => list(args.json),
        Some(BenchCommand::Compare(args)) => compare(&args),
        None => measure(args.run).await,
    }
}

fn list(json: bool) -> Result<ExitCode> {
    let suites = suites::all();
    let listed = suites.iter().map(|suite| Listed {
        name: suite.name(),
        about: suite.about(),
        published: suite.published(),
        small: suite.demand(Size::Small, &[]),
        full: suite.demand(Size::Published, &[]),
    });
    let listed: Vec<_> = listed.collect();
    match json {
        true => render::say_json_rows(&listed)?,
        false => render::say(&describe::suites(&listed))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &BenchCompareArgs) -> Result<ExitCode> {
    let invalid = |error: compare::CompareError| {
        FsError::new(ErrorKind::Invalid, "compare the reports").with_source(error)
    };
    let read = |path: &Path| -> Result<Report> {
        compare::read(&prices::read(path)?).map_err(|error| {
            FsError::new(ErrorKind::Invalid, format!("{}: {error}", path.display()))
        })
    };
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let compared = compare::compare(&first, &second, args.threshold).map_err(invalid)?;
    match args.json {
        true => render::say_json(&compared)?,
        false => render::say(&describe::comparison(&compared))?,
    }
    let good = !compared.regressed() && !compared.says_too_little();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is to be measured.
enum What {
    Directories(Options, Vec<Box<dyn Suite>>),
    Buckets(Buckets),
}

impl What {
    fn of(args: &BenchRunArgs) -> Result<Self> {
        if let Some(buckets) = bucket::asked(args, size(args))? {
            return Ok(Self::Buckets(buckets));
        }
        Ok(Self::Directories(options(args)?, chosen(&args.suite)?))
    }

    fn announce(&self, book: &PriceBook) -> Result<Announcement> {
        match self {
            Self::Directories(options, suites) => {
                let borrowed: Vec<&dyn Suite> = suites.iter().map(AsRef::as_ref).collect();
                announce(options, &borrowed, book).map_err(failed)
            }
            Self::Buckets(buckets) => Ok(buckets.announce(book)),
        }
    }

    /// Begins it, beside whoever listens for its end.
    fn run(self, shown: Shown, stop: Stop) -> JoinHandle<Result<Report>> {
        match self {
            Self::Directories(options, suites) => tokio::task::spawn_blocking(move || {
                let borrowed: Vec<&dyn Suite> = suites.iter().map(AsRef::as_ref).collect();
                runner::run(&options, &borrowed, &shown, &stop).map_err(failed)
            }),
            Self::Buckets(buckets) => tokio::spawn(buckets.run(MADE_BY.to_owned(), shown, stop)),
        }
    }
}

async fn measure(args: BenchRunArgs) -> Result<ExitCode> {
    let book = PriceBook::built_in();
    prices::at(&book, &args.region)?;
    let what = What::of(&args)?;
    let told = what.announce(&book)?;
    render::tell(&describe::announcement(&told, &args.region));
    let terminal = stdin().is_terminal() && stderr().is_terminal();
    let agreed = match consent(&told, args.yes, terminal) {
        Consent::Given => true,
        Consent::ToAsk | Consent::Missing => ask::yes("Go on?", MUCH_IS)?,
    };
    if !agreed {
        return Ok(ExitCode::FAILURE);
    }
    // That it can be written is known before hours are spent on it.
    for path in args.json.iter().chain(&args.html) {
        beside(path)?;
    }
    let report = stoppable(what).await?;
    // Whatever becomes of the files, what was measured is on the screen.
    render::say(&describe::report(&report))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&report)
            .map_err(|error| FsError::new(ErrorKind::Bug, "write the report").with_source(error))?;
        write(path, &text)?;
    }
    if let Some(path) = &args.html {
        write(path, html::page(&report, book.at(&args.region)).as_bytes())?;
    }
    Ok(match (report.stopped, report.measurements.is_empty()) {
        (true, _) => progress::left("stopped; what was made is removed again"),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// A new file beside the one that is to be written, which stays as it is until all is there.
fn beside(path: &Path) -> Result<tempfile::NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::NamedTempFile::new_in(dir)
        .map_err(|error| FsError::local_io(format!("write {}", path.display()), error))
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    let failed = |error| FsError::local_io(format!("write {}", path.display()), error);
    let mut file = beside(path)?;
    file.write_all(text).map_err(failed)?;
    // Readable as files usually are.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Runs it beside the signals that end it: it cleans up first.
async fn stoppable(what: What) -> Result<Report> {
    let (stop, shown) = (Stop::default(), Shown::default());
    let listen = |kind| signal(kind).map_err(|e| FsError::local_io("listen for signals", e));
    let (mut interrupt, mut terminate, mut hang_up) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    );
    let mut work = what.run(shown.clone(), stop.clone());
    let showing = tokio::spawn(async move { shown.show().await });
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        stop.now();
    };
    showing.abort();
    // Its bar is cleared when it is gone.
    let _ = showing.await;
    ended.map_err(|error| {
        FsError::new(ErrorKind::Bug, "the benchmarks ended badly").with_source(error)
    })?
}

/// The suites of these names.
fn chosen(names: &[String]) -> Result<Vec<Box<dyn Suite>>> {
    let mut suites = suites::all();
    if names.iter().any(|name| name == "all") {
        // What others on a mount may notice is for those who name it.
        suites.retain(|suite| !suite.changes_mounts());
        return Ok(suites);
    }
    if let Some(unknown) = names.iter().find(|name| !suites.iter().any(|of| of.name() == *name)) {
        let known = suites.iter().map(|suite| suite.name());
        let known: Vec<_> = known.chain([requests::NAME]).collect();
        let text = format!("there is no suite `{unknown}`: choose {} or all", known.join(", "));
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    suites.retain(|suite| names.iter().any(|name| name == suite.name()));
    Ok(suites)
}

fn options(args: &BenchRunArgs) -> Result<Options> {
    let real: Vec<_> = args.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    if let Some(twice) = real.iter().enumerate().find(|(at, path)| real[..*at].contains(path)) {
        let text = format!("{} is named twice", twice.1.display());
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let mut copies = args.copies.clone();
    copies.sort_unstable();
    copies.dedup();
    let weir = std::env::current_exe()
        .map_err(|error| FsError::local_io("find the program itself", error))?;
    Ok(Options {
        paths: args.paths.clone(),
        size: size(args),
        repeats: args.repeats,
        copies,
        sync: !args.no_sync,
        seed: args.seed,
        weir,
        region: args.region.clone(),
        made_by: MADE_BY.to_owned(),
    })
}

fn size(args: &BenchRunArgs) -> Size {
    match args.size {
        BenchSize::Small => Size::Small,
        BenchSize::Published => Size::Published,
    }
}

/// Whether it costs or takes more than one would spend without having said so. A price that is not
/// known may be any.
fn is_much(told: &Announcement) -> bool {
    told.cost > MUCH || !told.cost_complete || told.seconds > LONG_SECONDS
}

/// What a run is that nobody consented to.
const MUCH_IS: &str = "this takes long or costs money";

/// Whether a run that was announced may begin.
#[derive(Debug, PartialEq, Eq)]
enum Consent {
    Given,
    ToAsk,
    Missing,
}

/// On a terminal people are asked, as all of it writes to their disks. A script, which nobody can
/// ask, has to say so only where it is much.
fn consent(told: &Announcement, yes: bool, terminal: bool) -> Consent {
    let nothing = told.written_bytes == 0 && told.read_bytes == 0 && told.files == 0;
    match (yes || nothing, terminal, is_much(told)) {
        (true, ..) | (false, false, false) => Consent::Given,
        (false, true, _) => Consent::ToAsk,
        (false, false, true) => Consent::Missing,
    }
}

fn failed(error: BenchError) -> FsError {
    match error {
        BenchError::Io { what, source } => FsError::local_io(what, source),
        BenchError::Stopped => FsError::new(ErrorKind::Interrupted, error.to_string()),
        BenchError::Missing { .. } => FsError::new(ErrorKind::Unsupported, error.to_string()),
        BenchError::Unsuitable(_) | BenchError::Program { .. } => {
            FsError::new(ErrorKind::Invalid, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name_in_their_own_order() {
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = chosen(&names(&["metadata", "dd-large"])).expect("known");
        let found: Vec<_> = found.iter().map(|suite| suite.name()).collect();
        assert_eq!(found, ["dd-large", "metadata"]);
        let all = chosen(&names(&["all"])).expect("all");
        assert_eq!(all.len(), suites::all().len() - 1);
        assert!(
            all.iter().all(|suite| suite.name() != "credit-drain"),
            "only who names it wants it"
        );
        assert_eq!(chosen(&names(&["credit-drain"])).expect("named").len(), 1);
        let error = chosen(&names(&["dd"])).err().expect("unknown").to_string();
        assert!(error.contains("`dd`") && error.contains("small-files"), "{error}");
    }

    fn told(cost: i64, cost_complete: bool, seconds: u64) -> Announcement {
        Announcement {
            targets: Vec::new(),
            written_bytes: 10 << 30,
            read_bytes: 0,
            files: 0,
            seconds,
            cost: NanoUsd(cost),
            cost_complete,
            problems: Vec::new(),
        }
    }

    #[test]
    fn what_is_long_dear_or_unknown_is_much() {
        assert!(!is_much(&told(1_000_000_000, true, 600)));
        assert!(is_much(&told(1_000_000_001, true, 0)));
        assert!(is_much(&told(0, true, 601)));
        assert!(is_much(&told(0, false, 0)));
    }

    #[test]
    fn people_are_asked_and_scripts_only_have_to_say_so_where_it_is_much() {
        let (little, much) = (told(0, true, 60), told(0, true, 601));
        let nothing = Announcement { written_bytes: 0, ..told(0, false, 0) };
        for (of, yes, terminal, wanted) in [
            (&little, false, true, Consent::ToAsk),
            (&much, false, true, Consent::ToAsk),
            (&little, false, false, Consent::Given),
            (&much, false, false, Consent::Missing),
            (&much, true, false, Consent::Given),
            (&much, true, true, Consent::Given),
            (&nothing, false, true, Consent::Given),
        ] {
            assert_eq!(consent(of, yes, terminal), wanted, "{of:?}, {yes}, {terminal}");
        }
    }
}
