//! What is asked of the links themselves, and waiting for them.

use std::time::{Duration, Instant};

use rand::RngExt;
use weir_engine::{ActionKind, ActionRequest, ActionState, LinkView, Root};
use weir_types::Result;

use super::ours::{find, split};
use super::{Run, common::new_dir};

const PATIENCE: Duration = Duration::from_secs(60);

impl Run {
    pub fn views(&self) -> Vec<LinkView> {
        self.world.run(async { self.world.engine().links().await.expect("links") })
    }

    fn view(&self, name: &str) -> Option<LinkView> {
        self.views().into_iter().find(|view| view.path == format!("/{name}"))
    }

    /// Conflicts so far, and whether an import is under way.
    pub fn import_marks(&self) -> (u64, bool) {
        let views = self.views();
        let conflicts = views.iter().map(|view| view.conflicts).sum();
        (conflicts, views.iter().any(|view| view.importing.is_some()))
    }

    /// In a task of its own, which a crash may end. `None`: it did.
    fn call<T: Send + 'static>(
        &self,
        what: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Option<Result<T>> {
        self.world.run(async { tokio::spawn(what).await.ok() })
    }

    pub fn rest(&self, ms: u64) {
        self.world.run(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    pub fn ask(&mut self) {
        for view in self.views() {
            let engine = self.world.engine();
            self.call(async move { engine.refresh_link(view.id, None).await });
        }
    }

    /// Imports all, whatever fails on the way.
    pub fn refresh_all(&mut self) {
        let before = self.views();
        self.ask();
        let began = Instant::now();
        for was in before {
            loop {
                let now = self.view(was.path.trim_start_matches('/')).expect("it is there");
                let ended = now.importing.is_none() && now.imported_unix_ms > was.imported_unix_ms;
                if ended || self.has_crashed() {
                    break;
                }
                if now.import_error.is_some() {
                    self.rest(100);
                    self.ask();
                }
                assert!(began.elapsed() < PATIENCE, "the import does not end: {now:?}");
                self.rest(10);
            }
        }
    }

    pub fn refresh_key(&mut self, key: &'static str) {
        let (link, key) = key.split_once('/').expect("a link's");
        let Some(view) = self.view(link) else { return };
        self.trace.push(format!("refresh {link} {key}"));
        let (engine, keys) = (self.world.engine(), vec![key.to_owned()]);
        self.call(async move { engine.refresh_link(view.id, Some(keys)).await });
    }

    /// Waits until nothing is to be exported any more, whatever failed on the way.
    pub fn settled(&self) {
        let began = Instant::now();
        let waits = |view: &LinkView| view.export_waiting > 0 || view.export_error.is_some();
        while let Some(view) = self.views().into_iter().find(waits) {
            assert!(began.elapsed() < PATIENCE, "the export does not end: {view:?}");
            self.rest(10);
        }
    }

    pub fn act(&mut self, path: &str) {
        let what = self.rng.random_range(0..5);
        let kind = match what {
            0 => ActionKind::Hydrate,
            1 => ActionKind::Release,
            2 => ActionKind::Archive,
            _ => return self.pin(path, what == 3),
        };
        self.action(kind, path);
    }

    fn pin(&mut self, path: &str, pinned: bool) {
        let engine = self.world.engine();
        let Some(inode) = self.world.run(find(&engine, path)) else { return };
        let roots = vec![Root { ino: inode.ino, path: format!("/{path}") }];
        self.trace.push(format!("pin {path} {pinned}"));
        self.call(async move { engine.pin(&roots, true, pinned).await });
    }

    /// Does it to a file, or all in a directory, and waits for the end.
    pub fn action(&mut self, kind: ActionKind, path: &str) {
        let engine = self.world.engine();
        let Some(inode) = self.world.run(find(&engine, path)) else { return };
        self.trace.push(format!("{kind:?} {path}"));
        let roots = vec![Root { ino: inode.ino, path: format!("/{path}") }];
        let recursive = inode.kind == weir_types::FileKind::Directory;
        let request =
            ActionRequest { kind, roots, recursive, max_bytes_per_s: None, restore: None };
        if kind == ActionKind::Release {
            self.ledger.release();
        }
        if kind == ActionKind::Archive {
            // It may take the place of what was removed or overwritten here.
            let link = path.split('/').next().unwrap_or_default().to_owned();
            self.archived.insert(link.clone());
            let is_below = |key: &String| key.split('/').next() == Some(link.as_str());
            for fate in self.ledger.fates.values_mut() {
                let known = fate.gone || fate.removed;
                fate.may_go |= known && fate.theirs.as_ref().is_some_and(is_below);
            }
        }
        let Some(Ok(view)) = self.call(async move { engine.start_action(request).await }) else {
            return;
        };
        let began = Instant::now();
        while !self.has_crashed() && began.elapsed() < PATIENCE {
            let (engine, id) = (self.world.engine(), view.id);
            let now = self.call(async move { engine.wait_for_action(id, 200).await });
            match now {
                Some(Ok(now)) if now.state != ActionState::Done => {}
                _ => return,
            }
        }
    }

    /// Ends a link, and makes it anew where it was; what it leaves is moved out of the way.
    pub fn link_again(&mut self) {
        let nth = self.rng.random_range(0..self.setting.links.len());
        let link = self.setting.links[nth].clone();
        self.trace.push(format!("unlink and link {}", link.name));
        let began = Instant::now();
        while let Some(view) = self.view(link.name) {
            let engine = self.world.engine();
            self.call(async move { engine.unlink_bucket(view.ino).await });
            self.after_crash();
            assert!(began.elapsed() < PATIENCE, "the link does not end");
        }
        self.move_away(link.name);
        for fate in self.ledger.fates.values_mut() {
            let of = |key: &String| key.split('/').next() == Some(link.name);
            fate.removed &= !fate.theirs.as_ref().is_some_and(of);
        }
        while self.view(link.name).is_none() {
            self.bind(&link);
            self.after_crash();
            assert!(began.elapsed() < PATIENCE, "the link does not begin");
        }
    }

    /// Links a directory, which is made if it is not there.
    pub fn bind(&mut self, link: &super::setting::Linked) {
        let (engine, options) = (self.world.engine(), link.options(&self.url));
        let name = link.name;
        self.call(async move {
            let dir = match find(&engine, name).await {
                Some(dir) => dir.ino,
                None => engine.create(weir_types::Ino::ROOT, &split(name).1, new_dir()).await?.ino,
            };
            engine.link_bucket(dir, &format!("/{name}"), options).await
        });
    }

    fn move_away(&mut self, name: &str) {
        let engine = self.world.engine();
        self.moved_away += 1;
        let nth = self.moved_away;
        self.world.run(async {
            let root = weir_types::Ino::ROOT;
            let dir = find(&engine, name).await.expect("it is there").ino;
            for (at, entry) in
                engine.readdir(dir, 0, 1_000).await.expect("lists").iter().enumerate()
            {
                let kept = format!("kept-{nth}-{at}");
                let mode = weir_engine::RenameMode::NoReplace;
                let (from, to) = ((dir, &*entry.name), (root, kept.as_bytes()));
                engine.rename(from, to, mode).await.expect("renames");
            }
        });
    }
}
