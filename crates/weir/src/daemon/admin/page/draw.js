// What the panels are made of. Nothing is drawn anew that did not change, so that neither what has the
// focus nor what is selected goes away.
import { span } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

export function make(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Rows are kept by their keys; `cells` are texts or elements, and `head` says [name, is text].
export function table(box, name, head, rows, nothing) {
  if (!rows.length) {
    if (!box.querySelector("p")) box.replaceChildren(make("p", { className: "dim" }));
    return say(box.querySelector("p"), nothing);
  }
  let body = box.querySelectorAll("thead th").length === head.length ? box.querySelector("tbody") : null;
  if (!body) {
    const titles = head.map(([title, text]) => make("th", { scope: "col", className: text ? "text" : "" }, title));
    body = make("tbody");
    box.replaceChildren(make("table", { ariaLabel: name }, make("thead", {}, make("tr", {}, ...titles)), body));
  }
  const kept = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach(({ key, cells }, at) => {
    let row = kept.get(key);
    kept.delete(key);
    if (!row) {
      row = make("tr");
      row.dataset.key = key;
      head.forEach(([, text], at) => row.append(at ? make("td", { className: text ? "text" : "" }) : make("th", { scope: "row" })));
    }
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
    cells.forEach((cell, at) => {
      const there = row.cells[at];
      if (!(cell instanceof Node)) say(there, cell);
      else if (!there.firstChild?.isEqualNode(cell)) there.replaceChildren(cell);
    });
  });
  for (const row of kept.values()) row.remove();
}

// A bar of a share between 0 and 1, which is bad news from `bad` on, if ever.
export function bar(box, key, name, share, text, bad = Infinity) {
  let one = box.querySelector(`[data-key="${key}"]`);
  if (!one) {
    one = make("div", {}, make("div", { className: "labels" }, make("span"), make("b")));
    one.append(make("div", { className: "bar", role: "meter", ariaValueMin: "0", ariaValueMax: "100" }, make("div")));
    one.dataset.key = key;
    box.append(one);
  }
  const percent = Math.round(100 * Math.min(1, Math.max(0, share || 0)));
  const meter = one.querySelector(".bar");
  say(one.querySelector("span"), name);
  say(one.querySelector("b"), text);
  meter.ariaLabel = name;
  meter.ariaValueNow = String(percent);
  meter.ariaValueText = text;
  meter.classList.toggle("bad", share > bad);
  meter.firstChild.style.width = `${percent}%`;
}

// A curve of [seconds ago, value] over the last hour, oldest first.
export function plot(box, key, name, now, points, unit) {
  let one = box.querySelector(`[data-key="${key}"]`);
  if (!one) {
    const svg = document.createElementNS(SVG, "svg");
    for (const [name, value] of [["viewBox", "0 0 3600 100"], ["preserveAspectRatio", "none"], ["role", "img"]]) {
      svg.setAttribute(name, value);
    }
    for (const name of ["area", "curve"]) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", name);
      svg.append(path);
    }
    const ends = make("div", { className: "ends" }, make("span"), make("span"), make("span", {}, "now"));
    one = make("figure", {}, make("figcaption", {}, make("span"), make("b")), svg, ends);
    one.dataset.key = key;
    box.append(one);
  }
  const most = Math.max(0, ...points.map(([, value]) => value));
  // A mount that is younger than an hour has all of the room.
  const width = Math.min(3600, Math.max(1, points[0]?.[0] ?? 3600));
  const x = (ago) => Math.max(0, 3600 * (1 - ago / width)).toFixed(0);
  const at = ([ago, value]) => `${x(ago)} ${(98 - 94 * value / (most || 1)).toFixed(1)}`;
  const curve = points.length ? `M${points.map(at).join("L")}` : "";
  const [area, line] = one.querySelectorAll("path");
  line.setAttribute("d", curve);
  const [first, last] = [points[0], points.at(-1)];
  area.setAttribute("d", curve && `${curve}L${x(last[0])} 100L${x(first[0])} 100Z`);
  const average = points.reduce((sum, [, value]) => sum + value, 0) / (points.length || 1);
  say(one.querySelector("figcaption span"), name);
  say(one.querySelector("b"), unit(now));
  say(one.querySelector(".ends span"), width === 3600 ? "an hour ago" : `${span(width)} ago`);
  say(one.querySelector(".ends span:nth-child(2)"), points.length ? `most ${unit(most)}` : "nothing yet");
  one.querySelector("svg").setAttribute("aria-label",
    `${name} over the last hour: now ${unit(now)}, at most ${unit(most)}, on average ${unit(average)}`);
}
