//! Which tier and which journal belong to the volume: what is missing is asked for, what is stale is
//! never believed, and nothing is given up in silence.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{WRITE, World, create, noise, read_all};
use weir_engine::{AcceptLoss, Engine, LeftBehind};
use weir_types::{ErrorKind, Ino};

/// A world whose volume has ended cleanly, with a journal at hand.
fn journaled() -> World {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world
}

fn overwrite(world: &World, name: &str, bytes: &[u8]) {
    let engine: Arc<Engine> = world.engine();
    world.run(async {
        let ino = engine.lookup(Ino::ROOT, name.as_bytes()).await.expect("is there").ino;
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 0, bytes).await.expect("writes");
        engine.fsync(ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
    });
}

fn fsynced(world: &World, name: &str, bytes: &[u8]) {
    let engine = world.engine();
    let ino = world.run(create(&engine, name, bytes));
    world.run(engine.fsync(ino)).expect("syncs");
}

fn content(world: &World, name: &str) -> Option<Vec<u8>> {
    let engine = world.engine();
    match world.run(engine.lookup(Ino::ROOT, name.as_bytes())) {
        Ok(inode) => Some(world.run(read_all(&engine, inode.ino)).expect("reads")),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            None
        }
    }
}

/// A mount that must be refused, and what it says.
fn refused(world: &mut World) -> String {
    let accepted = world.options.accept_loss;
    let error = world.mount().expect_err("something is missing");
    world.options.accept_loss = accepted;
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    error.to_string()
}

fn accepting(world: &mut World, what: AcceptLoss) -> Option<LeftBehind> {
    world.options.accept_loss = what;
    world.mount().expect("mounts");
    world.run(world.engine().status()).expect("status").mount.left_behind
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg("--sparse=always").args([from, to]).status();
    assert!(done.expect("cp runs").success());
}

fn tier(world: &mut World, name: &str) {
    world.options.tier = world.path(name);
}

#[test]
fn a_journal_that_is_not_there_is_asked_for() {
    let mut world = journaled();
    world.mount().expect("mounts");
    fsynced(&world, "old", b"old");
    world.unmount().expect("unmounts");
    copy(&world.path("journal"), &world.path("older"));
    world.mount().expect("mounts");
    fsynced(&world, "a", &noise(1, 300_000));
    world.kill();
    let journal = world.path("journal");
    std::fs::rename(&journal, world.path("elsewhere")).expect("its disk is not mounted");
    let another = World::new();
    let of_another = another.path("tier");
    for given in [None, Some(journal.clone()), Some(world.path("older")), Some(of_another)] {
        world.options.journal = given.clone();
        let text = refused(&mut world);
        let wanted = format!("--journal {}", journal.display());
        assert!(text.contains(&wanted) && text.contains("--accept-loss all"), "{given:?}: {text}");
        assert!(text.contains(&format!("process {} on ", std::process::id())), "{text}");
        world.options.accept_loss = AcceptLoss::Tier;
        refused(&mut world);
        world.options.accept_loss = AcceptLoss::Nothing;
    }
    assert!(!journal.join("log").exists(), "nothing is begun where the disk is missing");
    // The same disk, mounted elsewhere: it is known by what is on it.
    world.options.journal = Some(world.path("elsewhere"));
    world.mount().expect("mounts");
    assert!(content(&world, "a").as_deref() == Some(&noise(1, 300_000)));
    assert_eq!(content(&world, "old").as_deref(), Some(&b"old"[..]));
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.left_behind.is_none() && report.set_aside.is_none(), "{report:?}");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_journal_that_is_lost_is_given_up_when_that_is_said() {
    let mut world = journaled();
    world.mount().expect("mounts");
    fsynced(&world, "kept", b"kept");
    world.run(world.engine().flush_all()).expect("flushes");
    fsynced(&world, "a", b"only in the journal");
    world.kill();
    std::fs::remove_dir_all(world.path("journal")).expect("removes");
    refused(&mut world);
    let left = accepting(&mut world, AcceptLoss::All).expect("it says what is missing");
    assert_eq!(left.journal, Some(world.path("journal").display().to_string()));
    assert_eq!(left.tier, Some(world.path("tier").display().to_string()), "useless without it");
    assert_eq!(content(&world, "kept").as_deref(), Some(&b"kept"[..]));
    assert_ne!(content(&world, "a").as_deref(), Some(&b"only in the journal"[..]));
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.set_aside.is_some_and(|aside| aside.files == 1), "kept for people");
    world.unmount().expect("unmounts");
    world.mount().expect("all is well again");
    assert_eq!(content(&world, "kept").as_deref(), Some(&b"kept"[..]));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_tier_that_is_lost_is_given_up_when_that_is_said() {
    let mut world = World::new();
    fsynced(&world, "a", b"fsynced");
    world.run(create(&world.engine(), "b", b"not fsynced"));
    world.kill();
    std::fs::rename(world.path("tier"), world.path("put away")).expect("moves");
    let text = refused(&mut world);
    let wanted = format!("--tier {}", world.path("tier").display());
    assert!(text.contains(&wanted) && text.contains("--accept-loss tier"), "{text}");
    // It is that tier that counts, not its place.
    std::fs::remove_dir_all(world.path("tier")).expect("removes");
    tier(&mut world, "put away");
    world.mount().expect("mounts");
    assert_eq!(content(&world, "b").as_deref(), Some(&b"not fsynced"[..]));
    world.run(create(&world.engine(), "c", b"not fsynced"));
    world.kill();
    tier(&mut world, "tier");
    let left = accepting(&mut world, AcceptLoss::Tier).expect("it says what is missing");
    assert_eq!(left.tier, Some(world.path("put away").display().to_string()));
    assert_eq!(left.journal, None);
    assert_eq!(content(&world, "a").as_deref(), Some(&b"fsynced"[..]));
    assert_ne!(content(&world, "c").as_deref(), Some(&b"not fsynced"[..]));
    world.unmount().expect("unmounts");
    // After a clean end any tier will do, and what comes back late is set aside.
    tier(&mut world, "third");
    world.mount().expect("mounts");
    world.unmount().expect("unmounts");
    tier(&mut world, "put away");
    world.mount().expect("mounts");
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.set_aside.is_some(), "{report:?}");
    assert_eq!(content(&world, "a").as_deref(), Some(&b"fsynced"[..]));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_new_tier_with_the_right_journal_has_all_that_was_fsynced() {
    let mut world = journaled();
    world.mount().expect("mounts");
    let bytes = noise(2, 400_000);
    fsynced(&world, "a", &bytes);
    world.kill();
    tier(&mut world, "tier2");
    let journal = world.options.journal.take();
    let text = refused(&mut world);
    assert!(text.contains("--tier") && text.contains("--journal"), "{text}");
    world.options.accept_loss = AcceptLoss::Tier;
    refused(&mut world);
    world.options.accept_loss = AcceptLoss::Nothing;
    world.options.journal = journal;
    let text = refused(&mut world);
    assert!(text.contains("--accept-loss tier"), "{text}");
    let left = accepting(&mut world, AcceptLoss::Tier).expect("the tier is missing");
    assert_eq!(left.journal, None);
    assert!(content(&world, "a") == Some(bytes.clone()));
    world.kill();
    world.mount().expect("its own tier and journal");
    assert!(content(&world, "a") == Some(bytes));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn of_two_tiers_with_one_journal_only_the_last_is_believed() {
    let mut world = journaled();
    let rounds = [noise(3, 200_000), noise(4, 200_000), noise(5, 200_000)];
    tier(&mut world, "B");
    world.mount().expect("mounts");
    fsynced(&world, "a", &rounds[0]);
    world.unmount().expect("unmounts");
    tier(&mut world, "A");
    world.mount().expect("mounts");
    overwrite(&world, "a", &rounds[1]);
    world.unmount().expect("unmounts");
    tier(&mut world, "B");
    world.mount().expect("mounts");
    assert!(content(&world, "a").as_ref() == Some(&rounds[1]), "B's bytes are old");
    // Now with a B that is killed while it has something of its own.
    world.run(create(&world.engine(), "b", b"not fsynced"));
    overwrite(&world, "a", &rounds[2]);
    world.kill();
    tier(&mut world, "A");
    refused(&mut world);
    let left = accepting(&mut world, AcceptLoss::Tier).expect("B is missing");
    assert_eq!(left.tier, Some(world.path("B").display().to_string()));
    assert!(content(&world, "a").as_ref() == Some(&rounds[2]), "fsynced, so in the journal");
    overwrite(&world, "a", &rounds[0]);
    world.unmount().expect("unmounts");
    tier(&mut world, "B");
    world.mount().expect("mounts");
    assert!(content(&world, "a").as_ref() == Some(&rounds[0]), "B's dirty bytes are not flushed");
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.set_aside.is_some(), "{report:?}");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_clean_tier_does_not_hide_what_an_unclean_one_fsynced() {
    let mut world = journaled();
    tier(&mut world, "B");
    world.mount().expect("mounts");
    fsynced(&world, "a", &noise(6, 200_000));
    world.unmount().expect("unmounts");
    tier(&mut world, "A");
    world.mount().expect("mounts");
    let bytes = noise(7, 200_000);
    overwrite(&world, "a", &bytes);
    world.kill();
    tier(&mut world, "B");
    refused(&mut world);
    world.options.accept_loss = AcceptLoss::Tier;
    world.mount().expect("mounts");
    assert!(content(&world, "a").as_ref() == Some(&bytes));
    // A kill before the next flush must not make it forget that.
    world.kill();
    world.mount().expect("mounts");
    assert!(content(&world, "a").as_ref() == Some(&bytes));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_stale_page_is_not_believed_after_a_kill_either() {
    let mut world = World::new();
    fsynced(&world, "a", &noise(8, 200_000));
    world.unmount().expect("unmounts");
    tier(&mut world, "B");
    world.mount().expect("mounts");
    let bytes = noise(9, 200_000);
    overwrite(&world, "a", &bytes);
    world.unmount().expect("unmounts");
    // The first tier has pages that are one change behind, and nobody looks at them.
    tier(&mut world, "tier");
    world.mount().expect("mounts");
    world.kill();
    world.mount().expect("mounts");
    assert!(content(&world, "a") == Some(bytes), "the change was another tier's");
}

#[test]
fn a_copied_tier_that_was_used_makes_the_original_stale() {
    let mut world = World::new();
    fsynced(&world, "a", b"one");
    overwrite(&world, "a", b"two");
    world.run(create(&world.engine(), "b", b"in both tiers"));
    world.kill();
    copy(&world.path("tier"), &world.path("copy"));
    tier(&mut world, "copy");
    world.mount().expect("mounts");
    assert_eq!(content(&world, "b").as_deref(), Some(&b"in both tiers"[..]));
    overwrite(&world, "b", b"by the copy!!");
    world.kill();
    tier(&mut world, "tier");
    let text = refused(&mut world);
    assert!(text.contains("as it was before"), "{text}");
    tier(&mut world, "copy");
    world.mount().expect("mounts");
    world.unmount().expect("unmounts");
    tier(&mut world, "tier");
    world.mount().expect("mounts");
    assert_eq!(content(&world, "b").as_deref(), Some(&b"by the copy!!"[..]));
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.set_aside.is_some(), "{report:?}");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_takeover_gives_up_the_tier_but_not_the_journal() {
    let mut world = journaled();
    world.mount().expect("mounts");
    fsynced(&world, "a", b"in the journal");
    world.kill();
    let journal = world.options.journal.take();
    tier(&mut world, "tier2");
    world.options.host.hardware_id = "other hardware".into();
    world.options.host.boot_id = "another-boot".into();
    let text = refused(&mut world);
    assert!(text.contains("--take-over"), "a copy of the machine's disk is not it: {text}");
    world.options.take_over = true;
    let text = refused(&mut world);
    assert!(text.contains("--accept-loss all"), "{text}");
    world.options.journal = journal;
    world.mount().expect("its disk came along");
    let report = world.run(world.engine().status()).expect("status").mount;
    assert!(report.left_behind.is_some_and(|left| left.tier.is_some() && left.journal.is_none()));
    assert_eq!(content(&world, "a").as_deref(), Some(&b"in the journal"[..]));
}

/// Only root may read the hardware's name: a user's mount after a boot, or a copy of the machine.
#[test]
fn a_takeover_on_the_same_system_still_wants_its_tier() {
    let mut world = World::new();
    world.run(create(&world.engine(), "a", b"not fsynced"));
    world.reboot();
    world.options.host.hardware_id.clear();
    let text = refused(&mut world);
    assert!(text.contains("before it was booted") && text.contains("--take-over"), "{text}");
    world.options.take_over = true;
    tier(&mut world, "tier2");
    let text = refused(&mut world);
    assert!(text.contains("--accept-loss tier"), "{text}");
    tier(&mut world, "tier");
    world.mount().expect("mounts");
}

#[test]
fn nothing_is_made_in_a_journal_that_another_user_owns() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut world = journaled();
    world.mount().expect("mounts");
    world.unmount().expect("unmounts");
    let journal = std::fs::read_dir(world.path("journal")).expect("lists").next().expect("one");
    let journal = journal.expect("lists").path();
    std::fs::remove_file(journal.join("lock")).expect("removes");
    std::os::unix::fs::chown(&journal, Some(1_000), None).expect("chown");
    let error = world.mount().expect_err("somebody else's");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(!journal.join("lock").exists());
}

#[test]
fn a_machine_that_is_refused_leaves_the_tier_as_it_is() {
    let mut world = World::new();
    world.run(create(&world.engine(), "a", b"not fsynced"));
    world.kill();
    let here = world.options.host.clone();
    // To it the tier is one of a machine that went down.
    world.options.host.hardware_id = "other hardware".into();
    world.options.host.boot_id = "another-boot".into();
    let text = refused(&mut world);
    assert!(text.contains("--take-over"), "{text}");
    world.options.host = here;
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a").as_deref(), Some(&b"not fsynced"[..]));
}

#[test]
fn a_refused_takeover_does_not_fence_who_is_alive() {
    let mut world = journaled();
    world.mount().expect("mounts");
    let mut second = world.options.clone();
    (second.tier, second.journal) = (world.path("tier2"), None);
    (second.take_over, second.host.boot_id) = (true, "another-boot".into());
    second.host.hardware_id = "other hardware".into();
    let refused = world.run(Engine::mount(second)).err().expect("the journal is missing");
    assert!(refused.to_string().contains("--accept-loss all"), "{refused}");
    fsynced(&world, "a", b"still the writer");
    world.unmount().expect("unmounts");
}

#[test]
fn a_journal_is_taken_up_after_a_clean_end_only() {
    let mut world = World::new();
    world.run(create(&world.engine(), "a", b"in the tier"));
    world.kill();
    world.options.journal = Some(world.path("journal"));
    let text = refused(&mut world);
    assert!(text.contains("once without --journal"), "{text}");
    world.options.journal = None;
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a").as_deref(), Some(&b"in the tier"[..]));
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a").as_deref(), Some(&b"in the tier"[..]));
}

/// Makes the volume look as an older build leaves it, which keeps no record of its last mount.
fn by_an_older_build(world: &World, log: &Path) {
    let made = async {
        let options = weir_meta::kv::slate::SlateOptions::default();
        let bucket = world.options.connector.connect(&world.options.url).expect("connects");
        let store = bucket.store(weir_object::Component::Meta);
        let kv = weir_meta::kv::SlateKv::open(store, "meta", options, None).await.expect("opens");
        // Version, epoch, node, time.
        let row = bytes::Bytes::from_static(&[1, 99, 3, b'o', b'l', b'd', 0]);
        let puts = vec![(b"Mwriter".to_vec(), row)];
        let commit = weir_meta::kv::Commit { puts, ..weir_meta::kv::Commit::default() };
        weir_meta::kv::Kv::commit(&kv, commit).await.expect("commits");
        weir_meta::kv::Kv::close(&kv).await.expect("closes");
    };
    tokio::runtime::Runtime::new().expect("a runtime").block_on(made);
    let volume = std::fs::read_dir(&world.options.tier).expect("lists").next().expect("one");
    let volume = volume.expect("an entry").path();
    std::fs::remove_file(volume.join("writers.json")).expect("removes");
    let log = log.join(volume.file_name().expect("a name"));
    let log = if log.exists() { log } else { volume.join("redo") };
    std::fs::write(log.join("writers.json"), r#"["older","old"]"#).expect("writes");
}

#[test]
fn volumes_of_older_builds_go_on_and_their_tiers_are_asked_for() {
    for journal in [false, true] {
        let mut world = journaled();
        if world.over_postgres() {
            // Those builds know of no database.
            return;
        }
        world.options.journal = world.options.journal.take().filter(|_| journal);
        world.mount().expect("mounts");
        fsynced(&world, "a", b"a");
        world.run(world.engine().flush_all()).expect("flushes");
        world.kill();
        by_an_older_build(&world, &world.path("journal"));
        let given = world.options.journal.clone();
        tier(&mut world, "new");
        let text = refused(&mut world);
        assert!(text.contains("an older weir"), "{text}");
        tier(&mut world, "tier");
        if journal {
            world.options.journal = None;
            let text = refused(&mut world);
            assert!(text.contains("/journal"), "{text}");
            world.options.journal = given;
        }
        world.mount().expect("mounts");
        let report = world.run(world.engine().status()).expect("status").mount;
        assert!(report.left_behind.is_none() && report.set_aside.is_none(), "{report:?}");
        assert_eq!(content(&world, "a").as_deref(), Some(&b"a"[..]));
        world.unmount().expect("unmounts");
        by_an_older_build(&world, &world.path("journal"));
        tier(&mut world, "any");
        world.mount().expect("after a clean end any tier will do");
        assert_eq!(content(&world, "a").as_deref(), Some(&b"a"[..]));
        world.unmount().expect("unmounts");
        world.fsck();
    }
}
