// Asks the daemon every two seconds while somebody looks, and shows what it says.
import { bill } from "./bill.js";
import * as cancel from "./cancel.js";
import { make, say } from "./draw.js";
import { health, wrong } from "./health.js";
import * as map from "./map.js";
import * as panels from "./panels.js";

const EVERY_MS = 2000;
const HISTORY_EVERY_MS = 20000;
const SURVEY_EVERY_MS = 60000;
const REFUSED_MS = 600000;
const HOUR_MS = 3600000;

const at = (id) => document.getElementById(id);
const region = at("region");
let before = null;
let history = [];
let historyAt = -Infinity;
let prices = null;
let survey = null;
let surveyAt = -Infinity;
let refused = [];
let timer = null;
let asking = false;

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${(await answer.json().catch(() => ({}))).error ?? answer.status}`);
  return answer.json();
}

// An answer of 503 is what is wrong, a line each.
async function ready() {
  const answer = await fetch("readyz");
  return (await answer.text()).split("\n").filter((line) => line && line !== "ok");
}

async function askPrices() {
  prices = await ask(region.value ? `v1/prices?region=${encodeURIComponent(region.value)}` : "v1/prices");
  if (!region.options.length) region.append(...prices.regions.map((name) => make("option", {}, name)));
  region.value = prices.region;
}

async function askBill() {
  const told = await ask(`v1/bill?region=${encodeURIComponent(region.value)}`);
  bill(at("bill"), at("bill-note"), told);
}

async function askSurvey() {
  survey = await ask("v1/survey");
  map.draw(at("map"), at("map-note"), survey);
}

// What fails here leaves the rest of the page as it is.
const orSay = (id, asked) => asked.catch((error) => say(at(id), error.message));

// How many fsyncs the journal refused since this page looked first, ten minutes ago at most.
function refusedOf(now) {
  const all = now.status.journal.refused_fsyncs;
  refused = refused.filter((of) => now.at - of.at <= REFUSED_MS && of.all <= all);
  refused.push({ at: now.at, all });
  return all - refused[0].all;
}

async function look() {
  const [status, throughput, actions, lines] = await Promise.all(
    [ask("v1/status"), ask("v1/throughput"), ask("v1/actions"), ready()]);
  const now = { at: performance.now(), status, throughput, actions };
  if (!prices) await askPrices();
  if (now.at - historyAt > HISTORY_EVERY_MS) {
    history = await ask(`v1/history?since_unix_ms=${Date.now() - HOUR_MS}`);
    historyAt = now.at;
    await orSay("bill-note", askBill());
  }
  if (now.at - surveyAt > SURVEY_EVERY_MS) {
    surveyAt = now.at;
    orSay("map-note", askSurvey());
  }
  const last = before ?? { ...now, at: now.at - EVERY_MS };
  health(at("health"), wrong(status, refusedOf(now)), lines);
  panels.about(now);
  panels.plots(last, now, history);
  panels.reads(last, now);
  panels.tier(now);
  panels.requests(last, now, prices);
  panels.tenants(last, now);
  panels.rules(now);
  panels.actions(now);
  before = now;
}

async function tick() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  try {
    await look();
  } catch (error) {
    health(at("health"), [{ what: "The daemon does not answer", why: error.message,
      todo: "weir status tells whether it runs; what is shown below is as it was" }], []);
  }
  asking = false;
  timer = setTimeout(tick, EVERY_MS);
}

document.addEventListener("visibilitychange", () => {
  // What happened meanwhile is no rate of now.
  before = null;
  tick();
});
region.addEventListener("change", () => {
  orSay("bill-note", askBill());
  askPrices().then(tick, () => {});
});
cancel.listen(at("actions"), at("actions-note"), tick);
map.listen(at("map"), at("map-line"));
new ResizeObserver(() => survey && map.draw(at("map"), at("map-note"), survey)).observe(at("map"));
tick();
