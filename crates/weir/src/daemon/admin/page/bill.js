// What the mount's work cost, beside what it would have cost elsewhere.
import { say, table } from "./draw.js";
import { bytes, count, dollars, span } from "./words.js";

const SHOWN = ["efs", "fsx_lustre"];

function sum({ nano_usd: usd, complete }) {
  if (complete) return dollars(usd);
  return usd ? `at least ${dollars(usd)}` : "unknown";
}

export function bill(box, note, told) {
  const { used: { used, from_unix_ms: from, average_bucket_bytes: kept, average_stored_bytes: held } } = told;
  const seconds = Math.max(0, used.unix_ms - from) / 1000;
  const row = (name, { so_far: now, month }) =>
    ({ key: name, cells: [name, sum(now), month ? sum(month) : "not yet"] });
  const others = told.elsewhere.filter((of) => SHOWN.includes(of.service));
  table(box, "What the work of this mount cost, and would have cost elsewhere",
    [["Storage", true], ["So far"], ["A month at this rate"]],
    [row("Weir", told.weir), ...others.map((of) => row(of.name, of))], "Nothing was used yet.");
  const linked = told.linked_bytes ? ` and ${bytes(told.linked_bytes)} in linked ones` : "";
  const unseen = used.unmetered_opens
    ? ` ${count(used.unmetered_opens)} opens were of files that the kernel reads itself: what they read is not known and in none of these.` : "";
  const early = told.weir.month ? "" : ` A month is told from ${span(told.month_from_s)} on, and this is ${span(seconds)}.`;
  say(note, `Of ${span(seconds)}, at list prices of ${told.region}: Weir kept ${bytes(kept)} in the bucket${linked} on average and made `
    + `${count(used.put_requests + used.get_requests + used.delete_requests)} requests; the others would have kept ${bytes(held)} of files, `
    + `read ${bytes(used.read_bytes)} and written ${bytes(used.written_bytes)}. Storage alone: neither the machine nor the disk of the tier is in it.${early}${unseen}`);
}
