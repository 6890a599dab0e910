// What is wrong, and what to do.
import { make } from "./draw.js";
import { bytes, count } from "./words.js";

export function wrong(status) {
  const told = [];
  const tell = (what, why, todo) => told.push({ what, why, todo });
  const place = status.mountpoint ?? status.volume;
  if (status.fenced) {
    tell("Fenced", "another writer took the volume over; this mount takes no more writes",
      `stop the other writer or unmount this one: weir umount --force ${place}`);
  }
  if (status.ending) tell("Ending", "it was told to end, and flushes", "wait; weir status tells how much is left");
  for (const of of status.troubles.filter((of) => of.lasting)) {
    tell("The bucket fails", `${of.component} ${of.kind}, ${count(of.failures)} times in a row, for ${Math.round(of.since_ms_ago / 1000)} s: ${of.error}`,
      "look at the network, the credentials and the bucket's policy; it is tried again, and what is here is served meanwhile");
  }
  if (status.flush_failed) {
    tell("Flushes fail", `${count(status.flush_failed.failures)} in a row: ${status.flush_failed.error}`,
      `${bytes(status.tier.dirty_bytes)} are on this machine only: do not end it before they are flushed`);
  }
  if (status.files_in_doubt) {
    tell("Lost bytes", `the tier's disk lost bytes of ${count(status.files_in_doubt)} files that were nowhere else`,
      "the log names them; write them anew, and replace the disk");
  }
  if (status.aside.entries.length) {
    const files = status.aside.files;
    tell("Set aside", `${bytes(status.aside.dirty_bytes)} of ${count(files)} files are not part of the volume`,
      `weir recover ${place} lists them, --merge puts them back`);
  }
  for (const of of status.held_deletions) {
    tell("Deletions held", `${of.path}: ${count(of.files)} of ${count(of.of)} files are gone from the bucket at once, and are kept here`,
      `if that is right: weir refresh --confirm ${of.path}`);
  }
  if (status.journal.refused_fsyncs) {
    tell("Journal full", `${count(status.journal.refused_fsyncs)} fsyncs since the mount went to the bucket`,
      "give the journal a larger disk");
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
