// What is wrong, and what to do. Where monitoring/rules.yml has an alert for the same, it is told from the same on.
import { make } from "./draw.js";
import { bytes, count } from "./words.js";

// A bucket that fails for a shorter time is tried again, and nobody need know.
const TROUBLE_MS = 60_000;
const DIRTY_SHARE_MAX = 0.85;
// Half of what is left free of the tier's disk.
const FREE_SHARE = 0.5 / 20;
const FREE_BYTES = 2 ** 28;
const FREE_FILES_SHARE = 0.02;
const JOURNAL_FREE_BYTES = 2 ** 25;

// `refused` is how many fsyncs the journal refused of late.
export function wrong(status, refused = 0) {
  const told = [];
  const tell = (what, why, todo) => told.push({ what, why, todo });
  const place = status.mountpoint ?? status.volume;
  const { tier, journal, aside } = status;
  if (status.fenced) {
    tell("Fenced", "another writer took the volume over; this mount takes no more writes",
      `stop the other writer or unmount this one: weir umount --force ${place}`);
  }
  if (status.ending) tell("Ending", "it was told to end, and flushes", "wait; weir status tells how much is left");
  for (const of of status.troubles.filter((of) => of.lasting && of.since_ms_ago >= TROUBLE_MS)) {
    tell("The bucket fails", `${of.component} ${of.kind}, ${count(of.failures)} times in a row, for ${Math.round(of.since_ms_ago / 1000)} s: ${of.error}`,
      "look at the network, the credentials and the bucket's policy; it is tried again, and what is here is served meanwhile");
  }
  if (status.flush_failed) {
    tell("Flushes fail", `${count(status.flush_failed.failures)} in a row: ${status.flush_failed.error}`,
      `${bytes(tier.dirty_bytes)} are on this machine only: do not end it before they are flushed`);
  }
  if (status.files_in_doubt) {
    tell("Lost bytes", `the tier's disk lost bytes of ${count(status.files_in_doubt)} files that were nowhere else`,
      "the log names them; write them anew, and replace the disk");
  }
  if (aside.files || aside.dirty_bytes + aside.log_bytes) {
    tell("Set aside", `${bytes(aside.dirty_bytes)} of ${count(aside.files)} files are not part of the volume`,
      `weir recover ${place} lists them, --merge puts them back`);
  }
  for (const of of status.held_deletions) {
    tell("Deletions held", `${of.path}: ${count(of.files)} of ${count(of.of)} files are gone from the bucket at once, and are kept here`,
      `if that is right: weir refresh --confirm ${of.path}`);
  }
  if (tier.dirty_bytes > DIRTY_SHARE_MAX * tier.limit_bytes) {
    tell("Nearly all of the tier is dirty", `${bytes(tier.dirty_bytes)} of ${bytes(tier.limit_bytes)} are not in the bucket: writes are about to stand still`,
      "write less until the bucket keeps up, or give it a larger --tier-size");
  }
  if (tier.free_bytes < Math.min(FREE_SHARE * (tier.used_bytes + tier.free_bytes), FREE_BYTES)) {
    tell("The tier's disk is full", `${bytes(tier.free_bytes)} are free, and others filled it`, "make room there, and all goes on");
  }
  if (tier.free_files < FREE_FILES_SHARE * (tier.mirrors + tier.free_files)) {
    tell("The tier's disk has few inodes", `${count(tier.free_files)} are free`, "make it with more (mkfs.ext4 -N), or as XFS");
  }
  if (refused) {
    tell("Journal full", `${count(refused)} fsyncs of the last ten minutes went to the bucket`, "give the journal a larger disk, or write less");
  }
  if (journal.free_bytes < JOURNAL_FREE_BYTES && journal.used_bytes + journal.limit_bytes > 0) {
    tell("The disk of the journal or redo log is full", `${bytes(journal.free_bytes)} are free`, "make room there: commits wait for the bucket");
  }
  return told;
}

let shown = "";

// Said anew, and so read out, only when something else is wrong.
export function health(box, told, ready) {
  const key = JSON.stringify([told.map(({ what, todo }) => [what, todo]), ready.map((line) => line.replace(/\d+/g, ""))]);
  if (key === shown) return;
  shown = key;
  // What this page has no advice for is told as /readyz says it.
  const known = told.length > 0;
  const items = told.map(({ what, why, todo }) => make("li", {}, make("b", {}, what), `: ${why}. What to do: ${todo}.`));
  if (!known) items.push(...ready.map((line) => make("li", {}, make("b", {}, "Not ready"), `: ${line}`)));
  if (!items.length) return box.replaceChildren(make("p", { className: "good" }, "Nothing is wrong."));
  box.replaceChildren(make("ul", { className: "alarms" }, ...items));
}
