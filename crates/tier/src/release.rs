//! Letting clean pages go when the tier is full, or when asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_types::{ByteRange, Result};

use crate::disk;
use crate::log::Entry;
use crate::mirror::{Mirror, Residency};
use crate::ranges::PageState;
use crate::space::Amount;
use crate::tier::Tier;

/// Mirrors released under one `fdatasync` of the residency log.
const BATCH: usize = 256;
/// Files up to this size go first where inodes or memory are short.
const SMALL_BYTES: u64 = 1 << 20;

impl Tier {
    /// Whether more is taken than the high-water mark allows, of what runs out first.
    pub fn above_high_water(&self) -> Result<bool> {
        Ok(!self.limit()?.percent(self.options.high_water_percent).covers(&self.taken()))
    }

    /// Releases clean pages of the mirrors used longest ago, down to the low-water mark and at least
    /// until there is room for `wanted`, but not of those that `keep` names. Answers bytes released.
    pub fn release_to_low_water(
        &self,
        wanted: Amount,
        keep: impl Fn(&Mirror) -> bool,
    ) -> Result<u64> {
        let low = self.limit()?.percent(self.options.low_water_percent);
        let wanted = self.taken().less(&low).most(&wanted.less(&self.room()?));
        self.release_amount(wanted, keep)
    }

    /// Releases clean pages only as far as `wanted` has no room yet. Answers bytes released.
    pub fn release_for(&self, wanted: Amount, keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        self.release_amount(wanted.less(&self.room()?), keep)
    }

    /// What [`Tier::release_amount`] could release, if nobody uses it.
    pub fn clean(&self, keep: impl Fn(&Mirror) -> bool) -> Amount {
        let all: Vec<_> = self.all().values().cloned().collect();
        let mut clean = Amount::default();
        for mirror in all.iter().filter(|mirror| !keep(mirror)) {
            let residency = mirror.read_state();
            clean.bytes += residency.local_bytes - residency.dirty_bytes;
            clean.files += u64::from(residency.local_bytes > 0 && !residency.has_unflushed());
        }
        clean
    }

    /// Releases up to about `wanted` bytes of clean pages of the mirrors used longest ago, but not
    /// of those that `keep` names. Answers bytes released.
    pub fn release_oldest(&self, wanted: u64, keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        self.release_amount(Amount::bytes(wanted), keep)
    }

    /// The same until `wanted` bytes and files went. A small file makes as much room for another one
    /// as a large file does: where only files are wanted, small ones go first.
    pub fn release_amount(&self, wanted: Amount, keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        let mut oldest: Vec<_> = self.all().values().cloned().collect();
        oldest.sort_by_key(|m| m.last_used());
        let mut released = self.release_in_turn(&oldest, Amount::bytes(wanted.bytes), &keep)?;
        let files = Amount { bytes: 0, files: wanted.files };
        for most_bytes in [SMALL_BYTES, u64::MAX] {
            let rest = files.less(&released);
            if rest.files == 0 {
                break;
            }
            // What is partly dirty would stay, and still take its inode.
            let whole = |m: &&Arc<Mirror>| !m.has_unflushed() && m.local_bytes() <= most_bytes;
            let whole: Vec<_> = oldest.iter().filter(whole).cloned().collect();
            released = released.plus(&self.release_in_turn(&whole, rest, &keep)?);
        }
        drop(oldest);
        self.forget_empty()?;
        Ok(released.bytes)
    }

    fn release_in_turn(
        &self,
        oldest: &[Arc<Mirror>],
        wanted: Amount,
        keep: &impl Fn(&Mirror) -> bool,
    ) -> Result<Amount> {
        let mut released = Amount::default();
        for batch in oldest.chunks(BATCH) {
            if released.covers(&wanted) {
                break;
            }
            let more = self.release_batch(batch, wanted.less(&released), keep)?;
            released = released.plus(&more);
        }
        Ok(released)
    }

    /// Releases all clean pages of these mirrors, but of those in use and those that `keep` names.
    /// Answers bytes released. One sync of the residency log for each 256 of them.
    pub fn release(&self, mirrors: &[Arc<Mirror>], keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        let all = Amount::bytes(u64::MAX);
        Ok(self.release_in_turn(mirrors, all, &keep)?.bytes)
    }

    /// The note that pages are gone must be on the disk before they are: after a power cut a note
    /// that they are here would turn zeros into data. One sync serves the batch, and each mirror
    /// stays locked from its note to its hole, so that no fetch comes between.
    fn release_batch(
        &self,
        batch: &[Arc<Mirror>],
        wanted: Amount,
        keep: &impl Fn(&Mirror) -> bool,
    ) -> Result<Amount> {
        let mut locked = Vec::new();
        let mut released = Amount::default();
        let mut result = Ok(());
        for mirror in batch {
            if released.covers(&wanted) {
                break;
            }
            // A busy mirror is not one that nobody uses.
            let Some(mut residency) = mirror.residency.try_write() else {
                continue;
            };
            // Asked here, so that nobody is told that it stays and then it goes.
            if keep(mirror) {
                continue;
            }
            // The file of an empty mirror is removed below, with what a fill has put there.
            if mirror.filling.load(Ordering::Acquire) > 0 {
                continue;
            }
            let mut clean = clean_ranges(&residency);
            if clean.is_empty() {
                continue;
            }
            // What the kernel or a mapping reads must stay.
            match mirror.settle_passthrough(&mut residency) {
                Ok(false) => {}
                Ok(true) => continue,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            result = mirror.note_released(&mut residency, &mut clean);
            released.bytes += local_bytes(&clean);
            released.files += u64::from(residency.is_empty());
            residency.mark_released();
            // What was noted of it and of those before must go all the same, and nothing else.
            locked.push((mirror, residency, clean));
            if result.is_err() {
                break;
            }
        }
        if locked.is_empty() {
            return result.map(|()| released);
        }
        self.shared.log.sync()?;
        fail::fail_point!("tier::released");
        for (mirror, residency, clean) in locked {
            if residency.state.ranges.is_empty() {
                mirror.close_file();
                self.shared.idle_empty().push(mirror.ino);
                match disk::remove_file(&mirror.path()) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        return Err(mirror.io("remove", e));
                    }
                    _ => continue,
                }
            }
            for (ByteRange { start, end }, _) in clean {
                disk::punch(&*mirror.file()?, start, end).map_err(|e| mirror.io("punch", e))?;
            }
        }
        result.map(|()| released)
    }
}

impl Mirror {
    /// Notes that these pages go, and leaves in `clean` those of which it could. One entry notes
    /// all that lies between as well: nothing local does.
    fn note_released(
        &self,
        residency: &mut Residency,
        clean: &mut Vec<(ByteRange, PageState)>,
    ) -> Result<()> {
        for noted in 0..clean.len() {
            let ByteRange { start, end } = clean[noted].0;
            let entry = Entry::Released { ino: self.ino, start, end };
            if let Err(error) = self.note(residency, entry) {
                clean.truncate(noted);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn local_bytes(ranges: &[(ByteRange, PageState)]) -> u64 {
    let local = ranges.iter().filter(|(_, state)| state.is_local());
    local.map(|(range, _)| range.end - range.start).sum()
}

fn clean_ranges(residency: &Residency) -> Vec<(ByteRange, PageState)> {
    residency.state.ranges.iter().filter(|(_, state)| !state.is_dirty()).collect()
}
