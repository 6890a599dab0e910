//! What must hold once both sides are quiet.

use std::collections::{BTreeMap, BTreeSet};

use weir_engine::{ActionKind, Policy};
use weir_object::testing::Etags;
use weir_types::{FileKind, Ino};

use super::content::Content;
use super::ours::find;
use super::setting::Linked;
use super::{Run, is_key};

/// A file by one of its names: what it is, and what it holds, if all of it can be read.
type Files = BTreeMap<String, (Ino, Option<Content>)>;

/// What an object's file has behind its name where a directory has that.
const BESIDE: &str = ".weir-object";

impl Run {
    /// All files by path.
    fn files(&self) -> Files {
        let mut files = Files::new();
        let mut to_do = vec![(Ino::ROOT, String::new())];
        while let Some((dir, prefix)) = to_do.pop() {
            let engine = self.world.engine();
            let entries = self.world.run(async {
                for _ in 0..20 {
                    if let Ok(entries) = engine.readdir(dir, 0, 1_000).await {
                        return entries;
                    }
                }
                panic!("{prefix} cannot be listed");
            });
            for entry in entries {
                let path = format!("{prefix}{}", String::from_utf8_lossy(&entry.name));
                if entry.kind == FileKind::Directory {
                    to_do.push((entry.ino, path + "/"));
                    continue;
                }
                let content = self.world.run(self.read(entry.ino, &path));
                files.insert(path, (entry.ino, content));
            }
        }
        files
    }

    pub fn check(&mut self) {
        self.listings.go_on();
        self.after_crash();
        self.laid = None;
        // Lazy links know what somebody looked at.
        self.files();
        self.settled();
        self.refresh_all();
        self.untouched();
        for link in self.setting.links.clone() {
            if link.export != Policy::ALL && link.export != Policy::default() {
                self.action(ActionKind::Archive, link.name);
            }
        }
        for _ in 0..2 {
            self.settled();
            self.refresh_all();
        }
        self.settled();
        self.excuse_overtaken();
        let (objects, files) = (self.objects(), self.files());
        let shown = format!("{:#?}\nobjects {objects:#?}\nfiles {files:#?}", self.setting);
        self.nothing_lost(&objects, &files, &shown);
        self.odd_stays(&files, &shown);
        for link in self.setting.links.clone() {
            self.agree(&link, &objects, &files, &shown);
        }
    }

    /// A link that exports nothing, and of which nothing was archived, is as others left it.
    fn untouched(&self) {
        let objects = self.objects();
        let of = |key: &str, link: &Linked| key.split('/').next() == Some(link.name);
        for link in &self.setting.links {
            if link.export == Policy::default() && !self.archived.contains(link.name) {
                let all: BTreeMap<_, _> = objects.iter().filter(|(k, _)| of(k, link)).collect();
                let theirs: BTreeMap<_, _> =
                    self.theirs.iter().filter(|(k, _)| of(k, link)).collect();
                assert_eq!(all, theirs, "{} was written to", link.name);
            }
        }
    }

    /// What is the object of no file is as others left it, and seen as that.
    fn odd_stays(&self, files: &Files, shown: &str) {
        assert_eq!(self.odd_objects(), self.odd, "odd objects changed\n{shown}");
        for key in self.odd.keys() {
            assert!(!files.contains_key(key), "{key:?} is a file\n{shown}");
            if let Some(path) = key.strip_suffix('/').filter(|path| path.contains("/m")) {
                let found = self.world.run(find(&self.world.engine(), path));
                let is_there = found.is_some_and(|inode| inode.kind == FileKind::Directory);
                assert!(is_there, "{key:?} marks no directory\n{shown}");
            }
        }
        for view in self.views() {
            let of =
                |key: &&String| !key.ends_with('/') && format!("/{key}").starts_with(&view.path);
            let hidden = self.odd.keys().filter(of).count() as u64;
            assert!(view.hidden >= hidden.min(1), "{view:?} hides {hidden}\n{shown}");
        }
    }

    fn nothing_lost(&self, objects: &BTreeMap<String, Content>, files: &Files, shown: &str) {
        let here: BTreeSet<_> =
            files.values().filter_map(|(_, content)| content.as_ref()).collect();
        let there: BTreeSet<_> = objects.values().collect();
        for (content, fate) in &self.ledger.fates {
            let kept = fate.gone || here.contains(content) || there.contains(content);
            assert!(kept, "{content:?} is in neither: {fate:?}\n{shown}");
            if let Some(key) = fate.theirs.as_ref().filter(|_| !fate.may_go) {
                let stays = objects.get(key) == Some(content);
                assert!(stays, "{content:?} of others is not at {key}: {fate:?}\n{shown}");
            }
        }
    }

    /// Each file is its object, and each object its file. A file whose bytes went with the object
    /// that somebody replaced cannot be read and is no object.
    fn agree(
        &self,
        link: &Linked,
        objects: &BTreeMap<String, Content>,
        files: &Files,
        shown: &str,
    ) {
        let prefix = format!("{}/", link.name);
        for (path, (_, content)) in files.iter().filter(|(path, _)| path.starts_with(&prefix)) {
            let Some((name, _)) = path.split_once(".weir-conflict-") else { continue };
            let with_itself = content.as_ref().is_some_and(|c| objects.get(name) == Some(c));
            assert!(!with_itself || self.ledger.lost_tier, "{path} is its object\n{shown}");
        }
        let mut names: BTreeMap<Ino, Vec<(&str, &Content)>> = BTreeMap::new();
        for (path, (ino, content)) in files {
            let own = is_key(path) && !path.contains(".weir-conflict-");
            let own = own || !path.starts_with(&prefix);
            if let Some(content) = content.as_ref().filter(|_| own) {
                names.entry(*ino).or_default().push((path, content));
            }
        }
        let is_at = |path: &str, content: &Content| {
            // It may have been renamed since a directory pushed it aside.
            let keys = [path, path.strip_suffix(BESIDE).unwrap_or(path)];
            keys.iter().any(|key| objects.get(*key) == Some(content))
        };
        let exports = link.export != Policy::default();
        // A file with names in several links is an object of one of them at most.
        let is_here = |(path, _): &(&str, &Content)| path.starts_with(&prefix);
        let names = names.values().filter(|names| names.iter().all(is_here));
        for names in names.filter(|_| exports) {
            let count = names.iter().filter(|(path, content)| is_at(path, content)).count();
            let all_go = link.export.deleted && self.setting.habits.etags != Etags::None;
            assert!(count > 0, "{names:?} is no object\n{shown}");
            assert!(count == 1 || !all_go, "{names:?} is several objects\n{shown}");
        }
        for (key, content) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let is = |path: &str| files.get(path).is_some_and(|(_, c)| c.as_ref() == Some(content));
            let shows = is(key) || is(&format!("{key}{BESIDE}"));
            let fate = self.ledger.fates.get(content).cloned().unwrap_or_default();
            // Where not all is exported, an object outlives its file, and a changed one is older.
            let all = link.export == Policy::ALL && self.setting.habits.etags != Etags::None;
            let excused = match all {
                true => fate.removed && fate.parked,
                false => fate.removed || fate.gone,
            };
            assert!(shows || excused, "{key} {content:?} does not show: {fate:?}\n{shown}");
        }
    }
}
