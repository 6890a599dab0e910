// Directories as a map: their room is their share of the bytes, their fill what of these is in the tier. It is a
// tree for keyboards and screen readers, and the drawing is its shape.
import { make, say } from "./draw.js";
import { bytes, count, files } from "./words.js";

const HEIGHT = 360;
const HEAD = 24;
// Less room shows nothing that can be read.
const LEAST = { w: 48, h: 28 };

// Rooms for values, the largest first, each as square as may be (Bruls, Huizing, van Wijk: squarified).
export function rooms(values, { x, y, w, h }) {
  const placed = [];
  let rest = values.reduce((sum, value) => sum + value, 0);
  for (let first = 0; first < values.length;) {
    const side = Math.max(1e-9, Math.min(w, h));
    const thick = (sum) => sum / rest * w * h / side;
    const worst = (sum, last) => Math.max(...[values[first], values[last]].map((value) => {
      const [a, b] = [value / sum * side, thick(sum)];
      return Math.max(a / b, b / a);
    }));
    let [sum, end] = [values[first], first + 1];
    while (end < values.length && worst(sum + values[end], end) <= worst(sum, end - 1)) sum += values[end++];
    const deep = thick(sum);
    let along = 0;
    for (const value of values.slice(first, end)) {
      const long = value / sum * side;
      placed.push(w < h ? { x: x + along, y, w: long, h: deep } : { x, y: y + along, w: deep, h: long });
      along += long;
    }
    if (w < h) [y, h] = [y + deep, Math.max(0, h - deep)];
    else [x, w] = [x + deep, Math.max(0, w - deep)];
    [rest, first] = [rest - sum, end];
  }
  return placed;
}

// What is in no directory of its own is one more, without a name.
function parts(of) {
  const shown = of.directories.filter((one) => one.bytes > 0);
  const left = (field) => of[field] - shown.reduce((sum, one) => sum + one[field], 0);
  const rest = { name: "", files: left("files"), bytes: left("bytes"), resident_bytes: left("resident_bytes"), directories: [] };
  return [...shown, ...(shown.length && rest.bytes > 0 ? [rest] : [])].sort((a, b) => b.bytes - a.bytes);
}

const percent = (of) => (of.bytes ? Math.round(100 * of.resident_bytes / of.bytes) : 0);

function item(of, above, level, room) {
  const path = of.name ? `${above}/${of.name}` : `${above}/…`;
  const name = of.name || "other files";
  const label = `${of.name ? path : `other files in ${above || "/"}`}: ${bytes(of.bytes)} in ${files(of.files)}, ${percent(of)}% in the tier`;
  const one = make("li", { role: "treeitem", tabIndex: -1, ariaLabel: label, ariaLevel: String(level) });
  one.dataset.path = path;
  for (const [key, value] of [["left", room.x], ["top", room.y], ["width", room.w], ["height", room.h]]) one.style[key] = `${value.toFixed(1)}px`;
  one.style.setProperty("--here", `${percent(of)}%`);
  if (room.w < LEAST.w || room.h < LEAST.h) one.classList.add("small");
  one.append(make("span", { ariaHidden: "true" }, name, " ", make("b", {}, bytes(of.bytes))));
  // Less its border and what style.css leaves around.
  const inner = parts(of);
  if (inner.length) {
    one.ariaExpanded = "true";
    const within = { x: 0, y: 0, w: Math.max(0, room.w - 10), h: Math.max(0, room.h - HEAD - 8) };
    const below = rooms(inner.map((each) => each.bytes), within);
    one.append(make("ul", { role: "group" }, ...inner.map((each, at) => item(each, path, level + 1, below[at]))));
  }
  return one;
}

function go(tree, one) {
  for (const other of tree.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  one.tabIndex = 0;
  return one;
}

// The one that a key leads to.
function led(tree, one, key) {
  const all = [...tree.querySelectorAll("[role=treeitem]")];
  switch (key) {
    case "ArrowDown": return all[all.indexOf(one) + 1];
    case "ArrowUp": return all[all.indexOf(one) - 1];
    case "ArrowRight": return one.querySelector("[role=treeitem]");
    case "ArrowLeft": return one.parentElement.closest("[role=treeitem]");
    case "Home": return all[0];
    case "End": return all.at(-1);
    default: return null;
  }
}

export function listen(tree, line) {
  tree.addEventListener("keydown", (event) => {
    const one = event.target.closest("[role=treeitem]");
    const next = one && led(tree, one, event.key);
    if (!next) return;
    event.preventDefault();
    go(tree, next).focus();
  });
  for (const name of ["focusin", "pointerover"]) {
    tree.addEventListener(name, (event) => {
      const one = event.target.closest("[role=treeitem]");
      if (one) say(line, one.ariaLabel);
    });
  }
}

let shown = "";

export function draw(tree, note, survey) {
  const { root, complete, names, unix_ms: at } = survey;
  const least = complete ? "" : "at least ";
  const why = complete ? "" : ` Only the first ${count(names)} names were looked at, so there is more than this.`;
  say(note, `${least}${bytes(root.bytes)} in ${files(root.files)}, ${percent(root)}% of it in the tier, as of ${new Date(at).toLocaleTimeString()}.${why}`);
  const width = tree.clientWidth;
  const key = JSON.stringify([root, width]);
  if (key === shown) return;
  shown = key;
  const focused = tree.contains(document.activeElement) ? document.activeElement.dataset.path : null;
  const all = parts(root);
  const placed = rooms(all.map((each) => each.bytes), { x: 0, y: 0, w: width, h: HEIGHT });
  tree.style.height = all.length ? `${HEIGHT}px` : "0";
  tree.replaceChildren(...all.map((each, at) => item(each, "", 1, placed[at])));
  const items = [...tree.querySelectorAll("[role=treeitem]")];
  const again = items.find((one) => one.dataset.path === focused);
  if (items.length) go(tree, again ?? items[0]);
  again?.focus();
}
