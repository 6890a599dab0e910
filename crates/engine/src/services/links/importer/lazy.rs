//! Lazy links: the names of a directory are imported when somebody first looks into it.
//!
//! A directory whose names were not imported is *unlisted*: its inode says so, and where in the
//! bucket it is, so that it may be moved meanwhile. Each directory that a listing showed has a row
//! under its key (`d/`), as objects have, so that one that was removed or moved here is not made
//! again.
//!
//! What must always hold: nobody learns that a name is not there, or that a directory is empty,
//! before the directory was listed; and the inode says that it was listed only after all its names
//! are there.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, TryStreamExt};
use weir_meta::ObjectRow;
use weir_object::{Component, DirectoryPage, ListedObject};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Native, Result};

use super::apply::{BATCH, Import};
use super::brake::Missing;
use super::pass::{LISTS, ROWS};
use crate::names::tree::LinkedNames;
use crate::services::links::importer::Importer;
use crate::services::links::registry::Link;
use crate::services::links::rule::place;
use crate::services::links::views::Policy;
use crate::volume::locks::apart;

/// What a first listing does: files that are known already are for polls. The doors must be told of
/// changes of these, and might wait for the very request that looks into the directory.
const ADDS: Policy = Policy { new: true, changed: false, deleted: false };
/// Rows read at once behind a directory that is passed over: what follows may be one, too.
const ROWS_MIN: usize = 16;
/// No key is longer.
const KEY_BYTES_MAX: usize = 1_024;

#[async_trait]
impl LinkedNames for Arc<Importer> {
    fn exports(&self) -> bool {
        self.registry.exports()
    }

    fn any(&self) -> bool {
        !self.registry.is_empty()
    }

    fn is_link(&self, dir: Ino) -> bool {
        self.registry.at(dir).is_ok()
    }

    fn has_lazy(&self) -> bool {
        self.registry.has_lazy()
    }

    async fn look_into(&self, dir: Ino) -> Result<bool> {
        Importer::look_into(self, dir).await
    }

    async fn look_into_entry(&self, dir: Ino, name: &[u8]) -> Result<()> {
        Importer::look_into_entry(self, dir, name).await
    }
}

impl Importer {
    /// Imports the names of `dir`, if it is a directory of a lazy link into which nobody looked
    /// yet. Answers whether it is one of a lazy link: then a name that was missed before may be
    /// there now. One read where any link is lazy, or nothing; one LIST for each 1,000 names.
    pub(crate) async fn look_into(self: &Arc<Self>, dir: Ino) -> Result<bool> {
        if !self.registry.has_lazy() {
            return Ok(false);
        }
        let Some((link, native)) = self.resolver.lazy_directory(dir).await? else {
            return Ok(false);
        };
        if !native.unlisted {
            return Ok(true);
        }
        let node = self.nodes.get(dir);
        let _listing = node.listing.lock().await;
        // Somebody else may have listed it meanwhile.
        let Some((_, native)) = self.resolver.lazy_directory(dir).await? else { return Ok(true) };
        if native.unlisted {
            let Ok(_listing) = link.listings.try_read() else { return Err(ending()) };
            self.context.check_writable()?;
            self.list_names(&link, dir, &native.key).await?;
        }
        Ok(true)
    }

    /// The same for the directory of this name, if there is one.
    pub(crate) async fn look_into_entry(self: &Arc<Self>, dir: Ino, name: &[u8]) -> Result<()> {
        if !self.look_into(dir).await? {
            return Ok(());
        }
        match self.resolver.entry(dir, name).await? {
            Some(inode) if inode.kind == FileKind::Directory => {
                self.look_into(inode.ino).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Imports the names of directory `dir`, whose place in the bucket is `key`.
    pub(crate) async fn list_names(
        self: &Arc<Self>,
        link: &Arc<Link>,
        dir: Ino,
        key: &str,
    ) -> Result<()> {
        let before = self.meta.newest().await?;
        let level = async {
            let import = Import::new(self.clone(), link.clone(), ADDS, before)?;
            import.of_directory(key, dir).level(key).await
        };
        match level.await {
            Ok(_) => {}
            // The bucket, or an object, is not there. The directory is.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.meta.inode(dir).await?;
                let text = format!("the names below `{key}` of link {} cannot be listed", link.id);
                return Err(FsError::new(ErrorKind::Retry, text).with_source(error));
            }
            Err(error) => return Err(error),
        }
        fail::fail_point!("engine::names-listed");
        let listed = self.meta.change_native(dir, |inode| {
            let native = inode.native.clone().filter(|native| native.unlisted)?;
            Some(Some(Native { unlisted: false, ..native }))
        });
        listed.await.map(drop)
    }
}

impl Import {
    /// Compares all directories that somebody looked into with what the bucket has in them.
    pub(super) async fn levels(&self) -> Result<()> {
        let root = self.importer.meta.inode(self.link.ino()).await?;
        if root.native.is_some_and(|native| native.unlisted) {
            return Ok(());
        }
        let mut to_do = VecDeque::from([String::new()]);
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < LISTS
                && let Some(key) = to_do.pop_front()
            {
                under_way.push(apart(async move { self.level(&key).await }).boxed());
            }
            let Some(below) = under_way.next().await else { return Ok(()) };
            to_do.extend(below?);
            self.importer.registry.notify_doors().await;
        }
    }

    /// Compares what the bucket has in directory `key` with the rows of its entries. Answers the
    /// directories in it that are listed already. Holds a page of each; one LIST for each 1,000
    /// entries.
    async fn level(&self, key: &str) -> Result<Vec<String>> {
        let mut level = Level {
            rows: Rows::new(self, key),
            below: Vec::new(),
            added: Vec::new(),
            new_directories: Vec::new(),
        };
        let mut own = self.row(key).await?;
        let mut pages = self.bucket.list_directory(Component::Link, key.as_bytes(), None);
        let mut empty = true;
        while let Some(page) = pages.try_next().await? {
            if self.link.is_ending() && !self.is_of_directory() {
                return Err(ending());
            }
            let listed = page.objects.len() as u64;
            empty = false;
            let (marker, page) = without_marker(page, key);
            if let Some(marker) = marker {
                match own.take() {
                    Some(row) if !self.is_of_directory() => self.compare(&marker, &row).await?,
                    _ if self.policy.new => self.create(&[marker]).await?,
                    _ => {}
                }
            }
            self.page_of_level(&mut level, page).await?;
            self.link.count(|view| view.listed += listed);
        }
        while let Some(known) = level.rows.next(None).await? {
            empty = false;
            self.gone_from_level(&mut level, known).await?;
        }
        // Nothing is left of a directory that is not in the bucket any more.
        if let Some(own) = own.filter(|_| empty && !key.is_empty() && self.policy.deleted)
            && own.version <= self.before
        {
            self.importer.meta.set_object(self.link.id, &own.key, None, None).await?;
        }
        Ok(level.below)
    }

    async fn page_of_level(&self, level: &mut Level<'_>, page: DirectoryPage) -> Result<()> {
        let mut objects = page.objects.into_iter().peekable();
        let mut directories = page.directories.into_iter().peekable();
        loop {
            let is_object = match (objects.peek(), directories.peek()) {
                (Some(object), Some(directory)) => object.key < *directory,
                (object, _) => object.is_some(),
            };
            let object = objects.next_if(|_| is_object);
            let directory = directories.next_if(|_| !is_object);
            let Some(key) = object.as_ref().map(|object| &object.key).or(directory.as_ref()) else {
                break;
            };
            while let Some(known) = level.rows.next(Some(key)).await? {
                self.gone_from_level(level, known).await?;
            }
            let known = level.rows.take(key).await?;
            match (object, directory) {
                (Some(object), _) => match known.and_then(|known| known.row) {
                    Some(row) => self.compare(&object, &row).await?,
                    None if self.policy.new => level.added.push(object),
                    None => {}
                },
                (_, Some(directory)) => self.directory_in_level(level, directory, known).await?,
                _ => {}
            }
        }
        for batch in level.added.chunks(BATCH) {
            self.create(batch).await?;
        }
        level.added.clear();
        for batch in level.new_directories.chunks(BATCH) {
            level.below.extend(self.create_directories(batch).await?);
        }
        level.new_directories.clear();
        Ok(())
    }

    async fn directory_in_level(
        &self,
        level: &mut Level<'_>,
        key: Vec<u8>,
        known: Option<Known>,
    ) -> Result<()> {
        let text = match (place(&key), String::from_utf8(key.clone())) {
            (Ok(_), Ok(text)) => text,
            (Err(why), _) if known.is_none() && self.policy.new => {
                return self.hide_directory(&key, why).await;
            }
            _ => return Ok(()),
        };
        let Some(known) = known else {
            level.new_directories.extend(Some(text).filter(|_| self.policy.new));
            return Ok(());
        };
        if !self.is_unlisted(known.row.as_ref()).await? {
            level.below.push(text);
        }
        Ok(())
    }

    /// What is known to be in the level, and is not in the bucket any more.
    async fn gone_from_level(&self, level: &mut Level<'_>, known: Known) -> Result<()> {
        let Known { key, row, is_directory } = known;
        if !is_directory {
            return match row {
                Some(row) => self.missing(row).await.map(drop),
                None => Ok(()),
            };
        }
        if !self.policy.deleted || row.as_ref().is_some_and(|row| row.version > self.before) {
            return Ok(());
        }
        if let Some(row) = &row
            && (place(&key).is_err() || self.is_unlisted(Some(row)).await?)
        {
            self.brake.note(Missing::Directory(row.clone()));
            return Ok(());
        }
        // What was in it goes first.
        level.below.extend(String::from_utf8(key));
        Ok(())
    }

    /// A directory into which nobody looked is gone from the bucket.
    pub(super) async fn unseen_directory_gone(&self, row: &ObjectRow) -> Result<()> {
        let importer = &self.importer;
        if let Some(ino) = row.object.ino
            && let Some((dir, name)) = self.directory_of(&row.key, ino).await?
        {
            self.remove_directory(dir, &name).await?;
        }
        importer.meta.set_object(self.link.id, &row.key, None, None).await
    }

    /// Whether the directory of this row is there and nobody looked into it.
    async fn is_unlisted(&self, row: Option<&ObjectRow>) -> Result<bool> {
        let Some(ino) = row.and_then(|row| row.object.ino) else { return Ok(false) };
        match self.importer.meta.inode(ino).await {
            Ok(inode) => Ok(inode.nlink > 0 && inode.native.is_some_and(|n| n.unlisted)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the directory that an object is to be made in was listed, or is not there at all.
    pub(super) async fn is_in_sight(&self, key: &str) -> Result<bool> {
        if place(key.as_bytes()).is_err() {
            return Ok(true);
        }
        let mut dir = self.link.ino();
        let mut parts = key.split('/').peekable();
        loop {
            let inode = self.importer.meta.inode(dir).await?;
            if inode.native.is_some_and(|native| native.unlisted) {
                return Ok(false);
            }
            let part = parts.next().unwrap_or_default();
            if parts.peek().is_none() {
                return Ok(true);
            }
            match self.importer.resolver.entry(dir, part.as_bytes()).await? {
                Some(inode) if inode.kind == FileKind::Directory => dir = inode.ino,
                _ => return Ok(true),
            }
        }
    }

    async fn row(&self, key: &str) -> Result<Option<ObjectRow>> {
        self.importer.meta.object(self.link.id, key.as_bytes()).await
    }
}

/// One directory being compared.
struct Level<'a> {
    rows: Rows<'a>,
    /// Directories in it that are to be compared, too.
    below: Vec<String>,
    added: Vec<ListedObject>,
    new_directories: Vec<String>,
}

/// What is known of an entry of a level.
struct Known {
    key: Vec<u8>,
    /// A directory may have rows below it only.
    row: Option<ObjectRow>,
    is_directory: bool,
}

/// The rows of a directory's entries, by key: those that lie deeper are passed over.
struct Rows<'a> {
    import: &'a Import,
    below: usize,
    read: VecDeque<ObjectRow>,
    /// Read up to here.
    after: Vec<u8>,
    until: Vec<u8>,
    at_once: usize,
    ended: bool,
    next: Option<Known>,
}

impl<'a> Rows<'a> {
    fn new(import: &'a Import, key: &str) -> Self {
        let after = key.as_bytes().to_vec();
        let until = behind(&after);
        let (read, next) = Default::default();
        Self { import, below: after.len(), read, after, until, at_once: ROWS, ended: false, next }
    }

    /// The next one with a key below `until`, or of all.
    async fn next(&mut self, until: Option<&[u8]>) -> Result<Option<Known>> {
        if self.next.is_none() {
            self.next = self.step().await?;
        }
        Ok(self.next.take_if(|known| until.is_none_or(|until| known.key.as_slice() < until)))
    }

    /// The one of this key, if it is the next.
    async fn take(&mut self, key: &[u8]) -> Result<Option<Known>> {
        if self.next.is_none() {
            self.next = self.step().await?;
        }
        Ok(self.next.take_if(|known| known.key == key))
    }

    async fn step(&mut self) -> Result<Option<Known>> {
        if self.read.is_empty() && !self.ended {
            let (importer, link) = (&self.import.importer, self.import.link.id);
            let (after, until) = (Some(&*self.after), Some(&*self.until));
            let rows = importer.meta.objects(link, after, until, self.at_once).await?;
            self.ended = rows.len() < self.at_once;
            self.at_once = (self.at_once * 2).min(ROWS);
            self.read = rows.into();
        }
        let Some(row) = self.read.pop_front() else { return Ok(None) };
        self.after.clone_from(&row.key);
        let slash = row.key[self.below..].iter().position(|byte| *byte == b'/');
        let Some(slash) = slash else {
            return Ok(Some(Known { key: row.key.clone(), row: Some(row), is_directory: false }));
        };
        let key = row.key[..=self.below + slash].to_vec();
        let row = Some(row).filter(|row| row.key == key);
        // What lies deeper is passed over, with one more read if it is more than was read.
        while self.read.pop_front_if(|row| row.key.starts_with(&key)).is_some() {}
        if self.read.is_empty() && !self.ended {
            self.after = behind(&key);
            self.at_once = ROWS_MIN;
        }
        Ok(Some(Known { key, row, is_directory: true }))
    }
}

/// Greater than all keys that begin with `key`, and less than all greater others.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0xff; KEY_BYTES_MAX]].concat()
}

/// Takes out the object that marks the directory itself.
fn without_marker(mut page: DirectoryPage, key: &str) -> (Option<ListedObject>, DirectoryPage) {
    let is_marker = page.objects.first().is_some_and(|first| first.key == key.as_bytes());
    let marker = is_marker.then(|| page.objects.remove(0));
    (marker, page)
}

fn ending() -> FsError {
    FsError::new(ErrorKind::Retry, "the import was stopped: the link is being removed")
}
