//! Letting clean pages go when the tier is full, or when asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_types::Result;

use crate::disk;
use crate::log::Entry;
use crate::mirror::{Mirror, Residency};
use crate::ranges::State;
use crate::tier::Tier;

/// Mirrors released under one `fdatasync` of the residency log.
const BATCH: usize = 256;

impl Tier {
    /// Whether more room is taken than the high-water mark allows, or the disk is near its floor.
    pub fn above_high_water(&self) -> Result<bool> {
        let usage = self.usage()?;
        let high = percent(usage.tier_bytes, self.options.high_water_percent);
        Ok(self.shared.used_bytes() > high || usage.free_bytes < self.options.free_floor_bytes)
    }

    /// Bytes that may come in before the high-water mark, or until the disk is near its floor.
    pub fn room_below_high_water(&self) -> Result<u64> {
        let high = percent(self.options.tier_bytes, self.options.high_water_percent);
        Ok(high.saturating_sub(self.shared.used_bytes()).min(self.room()?))
    }

    /// Releases clean pages of the mirrors used longest ago, down to the low-water mark (and until
    /// the disk is above its floor), but not of those that `keep` names. Answers bytes released.
    pub fn release_to_low_water(&self, keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        let usage = self.usage()?;
        let low = percent(usage.tier_bytes, self.options.low_water_percent);
        let below_floor = self.options.free_floor_bytes.saturating_sub(usage.free_bytes);
        let wanted = self.shared.used_bytes().saturating_sub(low).max(below_floor);
        self.release_oldest(wanted, keep)
    }

    /// Bytes that [`Tier::release_oldest`] could release, if nobody uses them.
    pub fn clean_bytes(&self, keep: impl Fn(&Mirror) -> bool) -> u64 {
        let all: Vec<_> = self.all().values().cloned().collect();
        let clean = |mirror: &Mirror| {
            let residency = mirror.read_state();
            residency.local_bytes - residency.dirty_bytes
        };
        all.iter().filter(|mirror| !keep(mirror)).map(|mirror| clean(mirror)).sum()
    }

    /// Releases up to about `wanted` bytes of clean pages of the mirrors used longest ago, but not
    /// of those that `keep` names. Answers bytes released.
    pub fn release_oldest(&self, wanted: u64, keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        let mut oldest: Vec<_> = self.all().values().cloned().collect();
        oldest.sort_by_key(|m| m.last_used());
        let mut released = 0;
        for batch in oldest.chunks(BATCH) {
            if released >= wanted {
                break;
            }
            released += self.release_batch(batch, wanted - released, &keep)?;
        }
        drop(oldest);
        self.forget_empty()?;
        Ok(released)
    }

    /// Releases all clean pages of these mirrors, but of those in use and those that `keep` names. Answers bytes released. One
    /// sync of the residency log for each 256 of them.
    pub fn release(&self, mirrors: &[Arc<Mirror>], keep: impl Fn(&Mirror) -> bool) -> Result<u64> {
        mirrors.chunks(BATCH).map(|batch| self.release_batch(batch, u64::MAX, &keep)).sum()
    }

    /// The note that pages are gone must be on the disk before they are: after a power cut a note
    /// that they are here would turn zeros into data. One sync serves the batch, and each mirror
    /// stays locked from its note to its hole, so that no fetch comes between.
    fn release_batch(
        &self,
        batch: &[Arc<Mirror>],
        wanted: u64,
        keep: &impl Fn(&Mirror) -> bool,
    ) -> Result<u64> {
        let mut locked = Vec::new();
        let mut released = 0;
        let mut result = Ok(());
        for mirror in batch {
            if released >= wanted {
                break;
            }
            // A busy mirror is not one that nobody uses.
            let Ok(mut residency) = mirror.residency.try_write() else {
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
            let clean = clean_ranges(&residency);
            // What the kernel or a mapping reads must stay.
            let lent = clean.is_empty()
                || match mirror.settle_lent(&mut residency) {
                    Ok(lent) => lent,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                };
            if lent {
                continue;
            }
            // One entry notes all that lies between as well: nothing local does.
            let noted = clean.iter().try_for_each(|&(start, end, state)| {
                mirror.note(&mut residency, Entry::Released { ino: mirror.ino, start, end })?;
                released += if state.is_local() { end - start } else { 0 };
                Ok(())
            });
            residency.mark_released();
            locked.push((mirror, residency, clean));
            if noted.is_err() {
                // What was noted of it and of those before must go all the same.
                result = noted;
                break;
            }
        }
        if locked.is_empty() {
            return result.map(|()| 0);
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
            for (start, end, _) in clean {
                disk::punch(&*mirror.file()?, start, end).map_err(|e| mirror.io("punch", e))?;
            }
        }
        result.map(|()| released)
    }
}

fn clean_ranges(residency: &Residency) -> Vec<(u64, u64, State)> {
    residency.state.ranges.iter().filter(|(_, _, state)| !state.is_dirty()).collect()
}

fn percent(of: u64, percent: u8) -> u64 {
    of / 100 * u64::from(percent)
}
