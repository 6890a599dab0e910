//! What happens while small segments are merged. Fail points hold the collector.

mod common;

use std::sync::mpsc;

use common::noise;
use common::still::{Still, objects_in};
use fail::FailScenario;
use parking_lot::Mutex;

/// The new object is in the bucket, and nothing names it yet.
const POINT: &str = "engine::records-moved";

#[test]
fn what_is_written_while_records_move_is_kept() {
    let scenario = FailScenario::setup();
    let mut still = Still::new();
    let (ino, mut content) = still.pages("f", 40);
    let (reached, wait) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let (reached, held) = (Mutex::new(reached), Mutex::new(held));
    let bucket = still.world.path("bucket");
    let hold = move || {
        // The collector comes by with nothing, too.
        if objects_in(&bucket).len() < 41 {
            return;
        }
        let _ = reached.lock().send(());
        let _ = held.lock().recv();
    };
    fail::cfg_callback(POINT, hold).expect("a fail point");
    still.later();
    wait.recv().expect("records move");
    let new = noise(99, 3 * 4096);
    content[5 * 4096..8 * 4096].copy_from_slice(&new);
    still.overwrite(ino, 5 * 4096, &new);
    still.world.run(still.engine().truncate(ino, 30 * 4096)).expect("cuts");
    content.truncate(30 * 4096);
    drop(release);
    still.wait_until("old ones stay", || still.objects().len() == 2);
    still.cold_read(&[(ino, content)]);
    scenario.teardown();
    still.sound();
}

#[test]
fn a_kill_before_the_commit_loses_nothing_and_leaves_nothing() {
    let scenario = FailScenario::setup();
    let mut still = Still::new();
    let files = [still.pages("f", 40)];
    let bucket = still.world.path("bucket");
    let die = move || assert!(objects_in(&bucket).len() < 41, "it is killed here");
    fail::cfg_callback(POINT, die).expect("a fail point");
    still.later();
    still.wait_until("no record moves", || still.objects().len() == 41);
    still.world.kill();
    fail::remove(POINT);
    still.world.fsck();
    still.later();
    still.world.mount().expect("mounts");
    still.wait_until("what was left stays", || still.objects().len() == 1);
    assert_eq!(still.merged(), 40);
    still.cold_read(&files);
    scenario.teardown();
    still.sound();
}
