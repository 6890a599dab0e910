//! Objects of links: those that are old enough move by the rules of the directories that their files are in.
//!
//! What must always hold: nothing is moved but the version of an object that the metadata knows, and nothing whose file
//! was changed here. An object that is in an archive, or in a class that Weir does not know, stays there.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use weir_meta::{LinkObject, ObjectAge, ObjectRow, SegmentAge};
use weir_object::{ClassChange, Component};
use weir_types::{ErrorKind, Ino, Result, StorageClass};

use super::Lifecycle;
use super::judge::{Judge, MOVES_AT_ONCE, PAGE};
use super::plan::{ASKED_MAX, Planned, add};
use super::row::{PassRow, RulesRow};
use crate::data::ages::{day_of, early_byte_days};
use crate::services::links::Link;
use crate::volume::context::Counts;

/// An object that is old enough for some rule.
struct Old {
    ino: Ino,
    row: ObjectRow,
    age: SegmentAge,
}

impl Lifecycle {
    /// The pass over the objects of links. `false`: it was broken off.
    pub(super) async fn objects_pass(
        &self,
        links: Vec<(Arc<Link>, RulesRow)>,
        today: u32,
        row: &mut PassRow,
    ) -> Result<bool> {
        for (link, rules) in links {
            // It was told to write nothing there after the rule was set.
            if !link.exports() {
                row.objects.why.get_or_insert(format!("link {} does not export", link.id));
                continue;
            }
            let mut judge = Judge::new(self.meta.clone(), self.collector.clone(), rules, today);
            let mut after: Option<Vec<u8>> = None;
            loop {
                self.progress.lock().row = Some(row.clone());
                if link.is_ending() {
                    break;
                }
                if !self.may_go_on()? {
                    return Ok(false);
                }
                let page = self.meta.objects(link.id, after.as_deref(), None, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.key.clone());
                row.objects.looked += page.len() as u64;
                self.objects_page(&link, page, &mut judge, row).await?;
                fail::fail_point!("engine::lifecycle-objects");
            }
        }
        self.forget_ages().await?;
        Ok(true)
    }

    async fn objects_page(
        &self,
        link: &Arc<Link>,
        page: Vec<ObjectRow>,
        judge: &mut Judge,
        row: &mut PassRow,
    ) -> Result<()> {
        let stays = Some((judge.rules.number, judge.today));
        let (mut due, mut noted) = (Vec::new(), Vec::new());
        for old in self.old_objects(page, judge).await? {
            match judge.class_of(old.ino, &old.age).await? {
                None => {}
                Some(to) if to != old.age.class => due.push((old, to)),
                Some(_) => noted.push(old.noted(SegmentAge { stays, ..old.age })),
            }
        }
        let moved = self.move_objects(link, due, judge, row, &mut noted).await;
        self.meta.set_object_ages(&noted).await?;
        moved
    }

    /// Moves objects, and tells in `noted` what became of them.
    async fn move_objects(
        &self,
        link: &Arc<Link>,
        due: Vec<(Old, StorageClass)>,
        judge: &Judge,
        row: &mut PassRow,
        noted: &mut Vec<(Ino, ObjectAge)>,
    ) -> Result<()> {
        if due.is_empty() {
            return Ok(());
        }
        let (today, stays) = (judge.today, Some((judge.rules.number, judge.today)));
        let _import = link.import.lock().await;
        let moving = due.into_iter().map(|(old, to)| async move {
            let classes = (old.age.class, to);
            let changed = self.links.exporter.change_class(link, &old.row, classes).await;
            (old, to, changed)
        });
        let mut moving = stream::iter(moving).buffer_unordered(MOVES_AT_ONCE);
        let mut first_error = None;
        while let Some((old, to, changed)) = moving.next().await {
            let (age, bytes) = (&old.age, old.row.object.object_bytes);
            match changed {
                Ok(ClassChange::Moved(info)) => {
                    let age = SegmentAge { class: to, since_day: today, stays: None, ..*age };
                    noted.push((old.ino, ObjectAge { etag: info.etag, age }));
                    row.objects.moved += 1;
                    row.objects.moved_bytes += bytes;
                    self.context.counts.left_class(&old.age, bytes, today);
                    if let Some(at) = to.cold_index() {
                        Counts::add(&self.context.counts.cold[at].moved, 1);
                    }
                }
                Ok(ClassChange::Stays(name)) => {
                    let found = StorageClass::ALL.into_iter().find(|class| class.name() == name);
                    let class = found.unwrap_or(age.class);
                    noted.push(old.noted(SegmentAge { class, stays, ..*age }));
                }
                Ok(ClassChange::Another) => {}
                Err(error) if is_of_object(error.kind()) => {
                    tracing::debug!(link = %link.id, %error, "an object stays in its class");
                    row.objects.refused += 1;
                    row.objects.why.get_or_insert(error.to_string());
                    noted.push(old.noted(SegmentAge { stays, ..*age }));
                }
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Those of these objects that are files, and old enough for some rule. A read round.
    async fn old_objects(&self, page: Vec<ObjectRow>, judge: &Judge) -> Result<Vec<Old>> {
        let file = |row: ObjectRow| {
            let is_whole = !row.object.removed && row.object.etag.is_some();
            row.object.ino.filter(|_| is_whole).map(|ino| (ino, row))
        };
        let files: Vec<_> = page.into_iter().filter_map(file).collect();
        let inos: Vec<_> = files.iter().map(|(ino, _)| *ino).collect();
        let ages = self.meta.object_ages(&inos).await?;
        let all = files.into_iter().zip(ages).map(|((ino, row), noted)| {
            let age = object_age(&row.object, noted);
            Old { ino, row, age }
        });
        Ok(all.filter(|old| judge.may_move(old.row.object.object_bytes, &old.age)).collect())
    }

    /// What would move of the objects of a link.
    pub(super) async fn plan_objects(
        &self,
        link: &Arc<Link>,
        rules: RulesRow,
        today: u32,
        planned: &mut Planned,
    ) -> Result<()> {
        let mut judge = Judge::new(self.meta.clone(), self.collector.clone(), rules, today);
        let bucket = self.links.registry.bucket(link.id)?;
        // Where it is not known which class an object is in, the store is asked; of many, of some.
        let step = self.count_old_objects(link, &judge).await?.div_ceil(ASKED_MAX).max(1);
        let (mut old, mut after) = (0_u64, None::<Vec<u8>>);
        loop {
            let page = self.meta.objects(link.id, after.as_deref(), None, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            let mut some = self.old_objects(page, &judge).await?;
            some.retain(|_| {
                old += 1;
                old.is_multiple_of(step)
            });
            planned.plan.asked += some.len() as u64;
            let asked = some.into_iter().map(|old| async {
                let key = String::from_utf8_lossy(&old.row.key).into_owned();
                let class = bucket.class_of(Component::Link, &key).await;
                (old, class)
            });
            let mut asked = stream::iter(asked).buffered(MOVES_AT_ONCE);
            while let Some((Old { ino, row, mut age }, class)) = asked.next().await {
                let class = match class {
                    Ok(class) => StorageClass::ALL.into_iter().find(|known| known.name() == class),
                    Err(error) if is_of_object(error.kind()) => None,
                    Err(error) => return Err(error),
                };
                let Some(class) = class else { continue };
                age.class = class;
                let bytes = row.object.object_bytes;
                if let Some(to) = judge.class_of(ino, &age).await?.filter(|to| *to != class) {
                    let early = early_byte_days(&age, bytes, today) * step;
                    add(&mut planned.moves, (class, to), (step, bytes * step, early));
                }
            }
        }
        planned.plan.old += old;
        Ok(())
    }

    async fn count_old_objects(&self, link: &Link, judge: &Judge) -> Result<u64> {
        let (mut old, mut after) = (0, None::<Vec<u8>>);
        loop {
            let page = self.meta.objects(link.id, after.as_deref(), None, PAGE).await?;
            let Some(last) = page.last() else { return Ok(old) };
            after = Some(last.key.clone());
            old += self.old_objects(page, judge).await?.len() as u64;
        }
    }

    /// Forgets the ages of objects whose files are gone, or have others now. A read for each 1,000.
    async fn forget_ages(&self) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.meta.aged_objects(after).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            let inos: Vec<_> = page.iter().map(|(ino, _)| *ino).collect();
            let inodes = self.meta.inodes(&inos).await?;
            let all = page.iter().zip(&inodes);
            let gone = all.filter(|((_, age), inode)| {
                let native = inode.as_ref().and_then(|inode| inode.native.as_ref());
                native.is_none_or(|native| native.etag != age.etag)
            });
            let gone: Vec<_> = gone.map(|((ino, _), _)| *ino).collect();
            if !gone.is_empty() {
                self.meta.forget_object_ages(&gone).await?;
            }
        }
    }
}

impl Old {
    fn noted(&self, age: SegmentAge) -> (Ino, ObjectAge) {
        (self.ino, ObjectAge { etag: self.row.object.etag.clone(), age })
    }
}

/// What is noted of an object's age; where nothing is, it was used when it was written.
pub(super) fn object_age(object: &LinkObject, noted: Option<ObjectAge>) -> SegmentAge {
    let written = day_of(object.modified_ms.max(0).cast_unsigned());
    match noted.filter(|noted| noted.etag == object.etag) {
        Some(noted) => noted.age,
        None => SegmentAge {
            used_day: written,
            since_day: written,
            object_bytes: object.object_bytes,
            ..SegmentAge::default()
        },
    }
}

/// Whether an error is about one object: it keeps no other from moving.
fn is_of_object(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Corrupt, Invalid, NotFound, Permission, Unsupported};
    matches!(kind, Conflict | Corrupt | Invalid | NotFound | Permission | Unsupported)
}
