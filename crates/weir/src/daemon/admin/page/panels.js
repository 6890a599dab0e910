// What the daemon did between two looks, and how it stands.
import { button } from "./cancel.js";
import { bar, make, plot, say, table } from "./draw.js";
import { bytes, count, dollars, rate, span } from "./words.js";

const at = (id) => document.getElementById(id);
const HOUR_S = 3600;
// What can be cancelled.
const CANCELLED = ["waiting", "running", "away"];
const PRICED = { put: "put", copy: "put", list: "put", get: "get", head: "get", delete: "delete" };

// A daemon that began anew counts from nothing.
const grown = (now, before) => Math.max(0, now - (before ?? 0));

export function about({ status }) {
  const mode = status.read_only ? ", read only" : "";
  say(at("about"), `${status.volume}${status.mountpoint ? ` on ${status.mountpoint}` : ""}, up ${span(status.uptime_s)}${mode}, version ${status.version}`);
  document.title = `Weir: ${status.mountpoint ?? status.volume}`;
}

export function plots(before, now, history) {
  const seconds = (now.at - before.at) / 1000;
  const [then, since] = [before.status.since_mount, now.status.since_mount];
  const last = history.at(-1)?.unix_ms;
  const series = [
    ["read", "Read by programs", "read_bytes", "bytes_read"],
    ["written", "Written by programs", "written_bytes", "bytes_written"],
    ["fetched", "Fetched from the bucket", "received_bytes", "bytes_fetched"],
    ["flushed", "Flushed to the bucket", "sent_bytes", "bytes_flushed"],
  ];
  for (const [key, name, total, counter] of series) {
    const points = [];
    for (let i = 1; i < history.length; i++) {
      const [a, b] = [history[i - 1], history[i]];
      const each = grown(b[total], a[total]) / Math.max(1, (b.unix_ms - a.unix_ms) / 1000);
      // Its average holds for all of a minute.
      points.push([(last - a.unix_ms) / 1000, each], [(last - b.unix_ms) / 1000, each]);
    }
    plot(at("plots"), key, name, grown(since[counter], then[counter]) / seconds, points, rate);
  }
}

export function reads(before, now) {
  const box = at("reads");
  const opens = now.status.passthrough;
  if (opens) {
    const all = opens.opens + opens.other_opens;
    bar(box, "kernel", "Opens that the kernel serves itself", opens.opens / all, `${count(opens.opens)} of ${count(all)}`);
  }
  const sum = (sample, of) => sample.throughput.tenants.reduce((all, tenant) => all + tenant[of], 0);
  const [read, fetched] = [sum(now, "bytes_read"), Math.min(sum(now, "bytes_read"), sum(now, "bytes_fetched"))];
  bar(box, "here", "Read through the daemon, here already", (read - fetched) / read, `${bytes(read - fetched)} of ${bytes(read)}`);
  bar(box, "bucket", "Read through the daemon, from the bucket first", fetched / read, bytes(fetched));
  if (!box.querySelector("p")) box.append(make("p", { className: "dim" }));
  const why = opens && !opens.active ? ` The kernel serves none: ${opens.why}.` : "";
  say(box.querySelector("p"), `Since the mount. What the kernel reads itself is in no count of bytes.${why}`);
}

export function tier({ status: { tier, journal } }) {
  const box = at("tier");
  bar(box, "tier", "Tier", tier.used_bytes / tier.limit_bytes, `${bytes(tier.used_bytes)} of ${bytes(tier.limit_bytes)}`);
  bar(box, "dirty", "Dirty: not in the bucket yet", tier.dirty_bytes / tier.limit_bytes, bytes(tier.dirty_bytes), 0.85);
  // A redo log may be as long as it likes, and a tier as full: it is a cache.
  bar(box, "journal", journal.durable ? "Journal" : "Redo log", journal.used_bytes / journal.limit_bytes,
    `${bytes(journal.used_bytes)} of ${bytes(journal.limit_bytes)}`, journal.durable ? 0.75 : Infinity);
}

export function requests(before, now, prices) {
  const seconds = (now.at - before.at) / 1000;
  const name = (row) => `${row.component} ${row.kind}`;
  const then = new Map(before.status.requests.rows.map((row) => [name(row), row]));
  const nano = (row) => {
    const price = prices?.[`${PRICED[row.kind]}_nano_usd_per_1000`] ?? null;
    return price === null ? null : price / 1000;
  };
  let [hour, all, least] = [0, 0, ""];
  const rows = now.status.requests.rows.map((row) => {
    const sent = grown(row.requests, then.get(name(row))?.requests) / seconds;
    const each = nano(row);
    const cost = (requests) => (each === null ? null : each * requests);
    if (each === null) least = "at least ";
    [hour, all] = [hour + (cost(sent * HOUR_S) ?? 0), all + (cost(row.requests) ?? 0)];
    return { key: name(row), cells: [row.component, row.kind.toUpperCase(), count(sent * 60), count(row.requests),
      count(row.failed), `${(row.latency_us_sum / Math.max(1, row.requests) / 1000).toFixed(1)} ms`,
      dollars(cost(sent * HOUR_S)), dollars(cost(row.requests))] };
  });
  table(at("requests"), "Requests by component and kind",
    [["Component", true], ["Kind", true], ["A minute"], ["Since mount"], ["Failed"], ["Mean"], ["$ an hour"], ["$ since mount"]],
    rows, "No requests yet.");
  const stored = prices?.storage_nano_usd_per_gib_month ?? null;
  const kept = now.status.bucket_bytes ?? now.status.stored_bytes;
  const what = now.status.bucket_bytes === null ? "before compression" : "in the bucket";
  const month = stored === null ? "unknown" : dollars(stored * kept / 2 ** 30);
  say(at("cost"), `requests ${least}${dollars(hour)} an hour at this rate, ${least}${dollars(all)} since the mount; storage ${month} a month for ${bytes(kept)} ${what}`);
}

export function tenants(before, now) {
  const seconds = (now.at - before.at) / 1000;
  const name = (of) => `${of.client} ${of.path}`;
  const then = new Map(before.throughput.tenants.map((of) => [name(of), of]));
  const rows = now.throughput.tenants.map((of) => {
    const each = (field) => grown(of[field], then.get(name(of))?.[field]) / seconds;
    return { moved: [each("bytes_read") + each("bytes_written"), of.bytes_read + of.bytes_written], key: name(of),
      cells: [of.path, String(of.client), rate(each("bytes_read")), rate(each("bytes_written")),
        rate(each("bytes_fetched")), `${count(each("waited_ms"))} ms/s`, bytes(of.bytes_read), bytes(of.bytes_written)] };
  });
  rows.sort((a, b) => b.moved[0] - a.moved[0] || b.moved[1] - a.moved[1]);
  table(at("tenants"), "Directories and users",
    [["Directory", true], ["User", true], ["Read"], ["Written"], ["Fetched for it"], ["Waits"], ["Read in all"], ["Written in all"]],
    rows.slice(0, 50), "Nobody opened a file yet.");
}

export function rules({ throughput: { rules, budget } }) {
  say(at("budget"), budget
    ? `Budget: ${dollars(budget.nano_usd_per_hour)} an hour in ${budget.region}, ${dollars(budget.spent_nano_usd)} spent since it was set; slowed now: ${budget.slowed}.`
    : "No budget.");
  table(at("rules"), "Throughput rules",
    [["For", true], ["May move now"], ["Baseline"], ["Credits"], ["Of at most"], ["Moved"], ["Waiting"]],
    rules.map((rule) => ({ key: JSON.stringify(rule.whose), cells: [
      rule.name || "the volume",
      rule.permitted_bytes_per_s === null ? "no limit" : rate(rule.permitted_bytes_per_s),
      rate(rule.baseline_bytes_per_s), bytes(rule.credit_bytes), bytes(rule.credit_cap_bytes),
      bytes(rule.metered_bytes), count(rule.waiting)] })), "No rules: nothing is limited.");
}

export function actions({ actions, status }) {
  const mayCancel = status.port_cancels;
  const rows = [...actions].reverse().slice(0, 20).map((of) => {
    const more = of.counted ? "" : " or more";
    const where = of.request.roots.map((root) => root.path).join(", ");
    return { key: String(of.id), cells: [String(of.id), of.request.kind, where, of.state,
      `${count(of.files_done)} of ${count(of.files_total)}${more}`,
      `${bytes(of.bytes_done)} of ${bytes(of.bytes_total)}${more}`, count(of.refused),
      ...(mayCancel ? [CANCELLED.includes(of.state) ? button(of.id) : ""] : [])] };
  });
  table(at("actions"), "Actions", [["Action", true], ["What", true], ["Where", true], ["State", true], ["Files"], ["Bytes"], ["Refused"],
    ...(mayCancel ? [["End it"]] : [])], rows, "No actions: weir hydrate, release and archive begin some.");
}
