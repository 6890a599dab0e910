use super::*;
use crate::suites::testing::Bench;

fn tiny() -> Plan {
    Plan { database_bytes: 200_000, queries: vec![20, 200], jobs: vec![1, 2] }
}

#[test]
fn a_database_is_made_and_searched() {
    let bench = Bench::new();
    let measured = measure(&bench.run(&[]), &tiny()).unwrap();
    let told: Vec<_> = measured.iter().map(|m| (m.phase.as_str(), m.copies)).collect();
    let mut want = vec![("makedb", 1)];
    for phases in [["search-cold-20", "search-warm-20"], ["search-cold-200", "search-warm-200"]] {
        want.extend([1, 2].iter().flat_map(|jobs| phases.map(|phase| (phase, *jobs))));
    }
    assert_eq!(told, want);
    let database_bytes = measured[0].bytes;
    assert!(database_bytes > 200_000, "{database_bytes} bytes");
    let last = &measured[8];
    assert_eq!((last.operations, last.unit.as_str()), (400, "queries"));
    assert_eq!(last.bytes, 2 * database_bytes);
    assert!(measured.iter().all(|measured| measured.seconds > 0.0));
}

#[test]
fn a_seed_gives_one_set_of_queries() {
    let bench = Bench::new();
    let run = bench.run(&[]);
    let genome = tiny().genome(run.seed);
    let [one, two] = ["1.fa", "2.fa"].map(|name| {
        let path = bench.scratch().join(name);
        write_queries(&path, &genome, 5, &run).unwrap();
        fs::read_to_string(&path).unwrap()
    });
    assert_eq!(one, two);
    assert_eq!(one.lines().filter(|line| line.len() == QUERY_BASES).count(), 5);
}

#[test]
fn answers_that_differ_are_an_error() {
    let mut answers = Answers { queries: 2, first: None };
    answers.check("q1\ta\nq0\tb\n".into()).unwrap();
    answers.check("q0\tb\nq1\ta\n".into()).unwrap();
    let error = answers.check("q0\tb\nq1\tc\n".into()).unwrap_err();
    assert!(error.to_string().contains("or other ones"), "{error}");
    let mut answers = Answers { queries: 2, first: None };
    let error = answers.check("q1\ta\nq1\tb\n".into()).unwrap_err();
    assert_eq!(error.to_string(), "blastn failed: found 1 of 2 sequences");
}

#[test]
fn a_stop_while_the_database_is_made_ends_it() {
    let mut bench = Bench::new();
    bench.stop_in = Some("makedb");
    // It would take hours.
    let plan = Plan { database_bytes: 1 << 40, ..tiny() };
    let ended = measure(&bench.run(&[]), &plan);
    assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
}

#[test]
fn the_published_size_is_that_of_core_nt() {
    let demand = Blast.demand(Size::Published, &[]);
    assert_eq!(demand.written_bytes, 254_000_000_000);
    assert_eq!(demand.read_bytes, 254_000_000_000 * 5 * 2 * 4);
    assert_eq!(254_000_000_000_u64.div_ceil(VOLUME_BYTES), 78);
}
