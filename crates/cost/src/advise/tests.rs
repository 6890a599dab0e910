//! Advice under a model that is simple enough to compute by hand.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;
use crate::RunTime;

const GIB: u64 = 1 << 30;

/// A BLAST database of 254 GiB, read once in each of ten runs a day.
fn workload() -> Workload {
    Workload {
        name: "blast".to_owned(),
        data_set_bytes: 254 * GIB,
        cold_bytes: 0,
        archive_bytes: 0,
        files: 78,
        read_bytes_per_run: 254 * GIB,
        write_bytes_per_run: 0,
        io_bytes: 1 << 20,
        random: false,
        files_per_run: 78,
        runs_per_day: 10.0,
        concurrency: 1,
        threads: 64,
        cpu_seconds: 6400.0,
        region: "us-east-1".to_owned(),
    }
}

/// Storage at one rate for each kind, and CPU seconds over threads, one after the other.
fn model(storage: &Storage, workload: &Workload, machine: &Machine, machines: u64) -> RunTime {
    let mib_per_s = match storage {
        Storage::Efs { mode: weir_throughput::efs::Mode::Bursting } => 100.0,
        Storage::FsxLustre { capacity_gib, .. } => *capacity_gib as f64 / 6.0,
        Storage::Gp3 { mib_per_s, .. } => *mib_per_s as f64,
        Storage::InstanceStore | Storage::Weir { .. } => 4000.0,
        _ => 1000.0,
    };
    let read = workload.read_bytes_per_run as f64 / (mib_per_s * f64::from(1 << 20));
    let cpu = workload.cpu_seconds / workload.threads.min(machine.vcpu) as f64;
    let first = if matches!(storage, Storage::InstanceStore) { 254.0 } else { 0.0 };
    let bound_by = if read > cpu { "storage" } else { "CPU" }.to_owned();
    let read_bytes = workload.read_bytes_per_run as f64 * machines as f64;
    let first_seconds = first + read + cpu;
    RunTime { seconds: read + cpu, first_seconds, bound_by, read_bytes, write_bytes: 0.0 }
}

fn advice(workload: &Workload, options: &Options) -> Advice {
    advise(workload, &PriceBook::built_in(), options, &model)
}

fn of<'a>(advice: &'a Advice, name: &str) -> &'a Choice {
    advice.choices.iter().find(|choice| choice.name == name).expect(name)
}

fn only(instance: &str) -> Options {
    let machines = vec![crate::machine(instance).expect("known")];
    Options { machines, most_machines: 1, ..Options::default() }
}

#[test]
fn a_choice_by_hand() {
    let advice = advice(&workload(), &only("r6i.24xlarge"));
    let elastic = of(&advice, "EFS elastic");
    // 254 GiB at 1,000 MiB/s = 260.096 s, and 6,400 s of 64 threads = 100 s.
    assert!((elastic.run_seconds - 360.096).abs() < 1e-9);
    // A month of 730 hours has 730/24 x 10 = 304.17 runs.
    assert!((advice.runs_per_month - 304.1667).abs() < 1e-4);
    // 254 x $0.30 = $76.20 a month; a run: 254 x $0.03 and the metadata of 78 files (4 KiB each,
    // $0.0000089), and 360.096 s of $6.048 an hour = $0.60496.
    assert!((elastic.monthly.amount().dollars() - 76.20).abs() < 1e-6);
    assert!((elastic.per_run.amount().dollars() - 8.22497).abs() < 1e-4);
    assert!((elastic.month.dollars() - (76.20 + 304.1667 * 8.22497)).abs() < 0.01);
    // $50 an hour for 360.096 s = $5.00133.
    assert_eq!(elastic.waiting_per_run, NanoUsd(5_001_333_333));
    let waiting = elastic.month_with_waiting.dollars() - elastic.month.dollars();
    assert!((waiting - 304.1667 * 5.001333).abs() < 0.01, "{waiting}");
    // Spot: 80% and 60% off the machine, whose month is 304.17 x $0.60496 = $184.01.
    let (least, most) = elastic.spot_month;
    assert!((elastic.month.dollars() - least.dollars() - 0.8 * 184.01).abs() < 0.01);
    assert!((elastic.month.dollars() - most.dollars() - 0.6 * 184.01).abs() < 0.01);
    let spot = Options { spot: true, ..only("r6i.24xlarge") };
    assert_eq!(
        of(&super::advise(&workload(), &PriceBook::built_in(), &spot, &model), "EFS elastic").month,
        most
    );
}

#[test]
fn the_best_is_first_and_each_family_has_one() {
    let advice = advice(&workload(), &Options::default());
    let families: Vec<String> = advice.choices.iter().map(|of| of.storage.family()).collect();
    for (at, family) in families.iter().enumerate() {
        assert!(!families[..at].contains(family), "{family}");
    }
    assert_eq!(families.len(), 3 + 10 + 2 + 3, "{families:?}");
    let best = &advice.choices[0];
    let recommended = advice.recommendation.as_ref().expect("prices are known");
    assert_eq!((&recommended.storage, recommended.machines), (&best.name, best.machines));
    let known = advice.choices.iter().filter(|choice| choice.month.complete && choice.keeps_up);
    for other in known {
        assert!(best.month_with_waiting.usd <= other.month_with_waiting.usd, "{}", other.name);
    }
    // Half of 254 GiB is more than the 96 and 16 GiB of the c5 machines.
    assert!(advice.choices.iter().all(|choice| choice.machine.memory_gib >= 127.0));
    let local = of(&advice, "instance store");
    assert!(local.machine.nvme_bytes >= 254 * GIB, "{}", local.machine.instance);
}

#[test]
fn machines_that_forget_begin_each_day_anew() {
    let advice = advice(&workload(), &only("i3.8xlarge"));
    let local = of(&advice, "instance store");
    // A warm run: 254 GiB at 4,000 MiB/s = 65.024 s and 6,400/32 = 200 s of CPU. The first of ten
    // takes 254 s more.
    assert!((local.run_seconds - (265.024 + 25.4)).abs() < 1e-6, "{}", local.run_seconds);
    assert!((local.first_run_seconds - (265.024 + 254.0)).abs() < 1e-6);
    // A tenth of 254 x 128 GETs for each run: 3.2512 thousand x $0.0004.
    let gets = &local.per_run.lines[0];
    assert_eq!((gets.what.as_str(), gets.amount), ("S3 GET requests", Some(NanoUsd(1_300_480))));
}

#[test]
fn break_even_points_are_where_both_cost_the_same() {
    let advice = advice(&workload(), &Options::default());
    assert!(!advice.break_even.is_empty());
    for point in &advice.break_even {
        let month = |name: &str| {
            let choice = of(&advice, name);
            let runs = choice.per_run.amount().dollars() * point.runs_per_month;
            choice.monthly.amount().dollars() + runs
        };
        let (below, above) = (month(&point.below), month(&point.above));
        assert!((below - above).abs() < 1e-6 * below.max(1.0), "{point:?}: {below}, {above}");
    }
    assert_eq!(advice.cheapest[0].from_runs_per_month, 0.0);
}

#[test]
fn where_prices_are_unknown_nothing_is_recommended() {
    let tokyo = Workload { region: "ap-northeast-1".to_owned(), ..workload() };
    let advice = advice(&tokyo, &Options::default());
    assert_eq!(advice.recommendation, None);
    assert!(advice.cheapest.is_empty() && advice.break_even.is_empty());
    assert!(advice.choices.iter().all(|choice| !choice.month.complete && choice.machines == 1));
    for item in ["efs.elastic-read", "fsx.scratch-2", "ec2."] {
        assert!(advice.unknown_prices.iter().any(|name| name.starts_with(item)), "{item}");
    }
    let months: Vec<_> = advice.choices.iter().map(|choice| choice.month.to_string()).collect();
    assert!(months.iter().any(|month| month.starts_with("at least $")), "{months:?}");
    assert!(months.iter().any(|month| month == "unknown"), "{months:?}");
    assert!(html(&advice).contains("No recommendation"));
}

#[test]
fn what_to_do_what_it_saves_and_why_are_a_sentence_each() {
    let advice = advice(&workload(), &Options::default());
    let best = advice.recommendation.as_ref().expect("prices are known");
    let (first, next) = (&advice.choices[0], &advice.choices[1]);
    let saved = next.month_with_waiting.usd.0 - first.month_with_waiting.usd.0;
    for wanted in [
        format!("Run it on {} with ", first.name),
        format!("{} a month", first.month),
        format!("saves {} beside the next best, {}", NanoUsd(saved), next.name),
    ] {
        assert!(best.summary.contains(&wanted), "{wanted} is not in {}", best.summary);
    }
    let why = best.why.as_ref().expect("there are others");
    assert!(why.starts_with("It wins by ") && why.contains(&next.name), "{why}");
    assert!(html(&advice).contains(why));
}

#[test]
fn efs_stands_beside_fsx_whatever_is_best() {
    let here = advice(&workload(), &Options::default());
    let sentences = efs_beside_fsx(&here);
    assert_eq!(sentences.len(), 3, "a mode each: {sentences:?}");
    let fsx = here.choices.iter().filter(|of| of.name.starts_with("FSx") && of.month.complete);
    let fsx = fsx.min_by_key(|of| of.month.usd).expect("known");
    let point = here
        .break_even
        .iter()
        .find(|of| of.below == "EFS elastic" && of.above == fsx.name)
        .expect("they meet");
    let wanted = format!(
        "EFS elastic costs less below {} runs a month, {} above.",
        table::runs(point.runs_per_month),
        fsx.name
    );
    assert!(sentences.contains(&wanted), "{wanted} is not among {sentences:?}");
    let tokyo = Workload { region: "ap-northeast-1".to_owned(), ..workload() };
    let unknown = efs_beside_fsx(&advice(&tokyo, &Options::default()));
    assert!(unknown[0].contains("in ap-northeast-1 is not known"), "{unknown:?}");
}

#[test]
fn where_the_published_experiments_ran_there_is_a_recommendation() {
    let seoul = Workload { region: "ap-northeast-2".to_owned(), ..workload() };
    let advice = advice(&seoul, &Options::default());
    assert!(advice.recommendation.is_some() && !advice.break_even.is_empty());
    let unknown = advice.unknown_prices.iter();
    assert_eq!(
        unknown.filter(|name| !name.starts_with("s3-")).count(),
        0,
        "{:?}",
        advice.unknown_prices
    );
}

#[test]
fn what_is_not_sold_is_refused_with_what_is() {
    let asked = ["fsx:SCRATCH_2:3600", "fsx:SCRATCH_2:4800"].map(|text| text.parse().expect(text));
    let options = Options { asked: asked.to_vec(), ..Options::default() };
    let advice = advice(&workload(), &options);
    let refusal = &advice.refused[0];
    assert_eq!((advice.refused.len(), refusal.name.contains("3600 GiB")), (1, true));
    for size in ["2400", "4800"] {
        assert!(refusal.why.contains(size), "{}", refusal.why);
    }
    assert!(advice.choices.iter().any(|choice| choice.name.contains("SCRATCH_2 4800 GiB")));
}

#[test]
fn without_runs_only_keeping_costs() {
    let idle = Workload { runs_per_day: 0.0, ..workload() };
    let advice = advice(&idle, &only("r6i.24xlarge"));
    let elastic = of(&advice, "EFS elastic");
    // 254 GB x $0.30.
    assert_eq!(elastic.month, Amount { usd: NanoUsd(76_200_000_000), complete: true });
    assert_eq!(elastic.cost_per_run, elastic.per_run.amount());
    assert_eq!(elastic.month_with_waiting, elastic.month);
    assert!(html(&advice).contains("$76.20"));
}

#[test]
fn what_does_not_keep_up_is_not_recommended() {
    let busy = Workload { runs_per_day: 200.0, ..workload() };
    let advice = advice(&busy, &only("r6i.24xlarge"));
    // 254 GiB at 100 MiB/s take 2,601 s, 200 times a day.
    let bursting = of(&advice, "EFS bursting");
    assert!(!bursting.keeps_up);
    assert!(advice.choices[0].keeps_up);
    assert!(advice.cheapest.iter().all(|stretch| stretch.name != bursting.name));
    let rows = table(&advice);
    assert_eq!(rows.len(), advice.choices.len() + 1);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert!(rows.iter().any(|row| row[3].ends_with("(a day is too short)")));
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let named = Workload { name: "<script>&\"'".to_owned(), ..workload() };
    let asked = vec!["fsx:SCRATCH_2:3600".parse().expect("a storage")];
    let page = html(&advice(&named, &Options { asked, ..Options::default() }));
    assert!(page.contains("Where to run &lt;script&gt;&amp;&quot;'"));
    for outside in ["<script", "http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for wanted in ["prefers-color-scheme: dark", "@media print", "width=device-width", "Refused"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // The head has elements that XML would want closed.
    let body = page.split("</head>").nth(1).and_then(|body| body.strip_suffix("</html>"));
    let mut reader = Reader::from_str(body.expect("a body"));
    let (mut pictures, mut titled) = (0, 0);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Eof => break,
            Event::Start(tag) | Event::Empty(tag) => {
                titled += usize::from(tag.name().as_ref() == b"desc");
                for attribute in tag.attributes() {
                    let attribute = attribute.expect("sound");
                    pictures += usize::from(attribute.key.as_ref() == b"role");
                }
            }
            _ => {}
        }
    }
    assert_eq!((pictures, titled), (3, 3));
    assert!(!page.contains("NaN") && !page.contains("inf"), "each number is one");
}
