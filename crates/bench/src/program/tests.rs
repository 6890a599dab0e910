use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn shell(script: &str) -> Program<'static> {
    Program::new("sh", "dash").args(["-c", script])
}

#[test]
fn what_it_said_and_used_is_told() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; echo aside >&2";
    let finished = shell(script).run(&Stop::default()).unwrap();
    assert_eq!(finished.stdout, b"done\n");
    assert!(finished.cpu_seconds > 0.0 && finished.seconds > 0.0);
    assert!(finished.memory_bytes > 100_000, "{}", finished.memory_bytes);
}

#[test]
fn input_and_output_may_be_more_than_a_pipe_holds() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let block = vec![b'x'; 1 << 20];
    let feed = |to: &mut dyn Write| (0..3).try_for_each(|_| to.write_all(&block));
    Program::new("cat", "coreutils")
        .stdout_to(&out)
        .unwrap()
        .feed(feed)
        .run(&Stop::default())
        .unwrap();
    assert_eq!(fs::metadata(&out).unwrap().len(), 3 << 20);
    let finished = Program::new("cat", "coreutils").feed(feed).run(&Stop::default()).unwrap();
    assert_eq!(finished.stdout.len(), 3 << 20);
}

#[test]
fn a_program_that_is_not_there_names_its_package() {
    let error = Program::new("weir-no-such", "no-such").run(&Stop::default()).unwrap_err();
    let text = "weir-no-such is not installed: on Debian, apt-get install no-such";
    assert_eq!(error.to_string(), text);
    assert_eq!(require("weir-no-such", "no-such").unwrap_err().to_string(), text);
    require("sh", "dash").unwrap();
}

#[test]
fn a_failure_has_its_last_words() {
    let error = shell("for i in 1 2 3 4; do echo line $i >&2; done; exit 3").run(&Stop::default());
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "sh failed: line 2; line 3; line 4 (exit status: 3)");
    let silent = shell("exit 1").run(&Stop::default()).unwrap_err().to_string();
    assert_eq!(silent, "sh failed: exit status: 1");
    // It ends before it has read its input: its own failure counts, not the broken pipe.
    let block = vec![0; 1 << 20];
    let fed = shell("exit 7").feed(|to| to.write_all(&block)).run(&Stop::default()).unwrap_err();
    assert!(fed.to_string().contains("exit status: 7"), "{fed}");
}

#[test]
fn whom_a_stop_ends_is_gone_with_all_of_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    // One that ends when asked to, one that does not listen, and one of a child.
    let script = format!(
        "trap '' TERM; sleep 600 & echo $$ $! >{0}.new; mv {0}.new {0}; while :; do sleep 1; done",
        pids.display()
    );
    let stop = Stop::default();
    let ticks = AtomicU32::new(0);
    let ended = thread::scope(|scope| {
        let run = scope.spawn(|| {
            shell(&script).run_ticking(&stop, &mut || {
                ticks.fetch_add(1, Ordering::Relaxed);
                if pids.exists() {
                    stop.now();
                }
            })
        });
        run.join().unwrap()
    });
    assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
    assert!(ticks.into_inner() > 0);
    for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
        // A grandchild that nobody has reaped yet is a zombie: dead as well.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        assert!(stat.is_empty() || state.starts_with(['Z', 'X']), "{pid}: {stat}");
    }
}

#[test]
fn nothing_starts_once_the_run_is_stopped() {
    let stop = Stop::default();
    stop.now();
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let error = Program::new("touch", "coreutils").arg(&made).run(&stop);
    assert!(matches!(error, Err(BenchError::Stopped)));
    assert!(!made.exists());
}
