// Cancelling actions, where the port takes a token. It stays in this tab, and is sent with each cancel only.
import { make, say } from "./draw.js";

const KEY = "weir-token";
const at = (id) => document.getElementById(id);

// What was kept by a page that may keep nothing is as good as nothing.
function kept() {
  try { return sessionStorage.getItem(KEY); } catch { return null; }
}

function keep(token) {
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch { /* It is asked for again. */ }
}

export const button = (id) =>
  make("button", { type: "button", value: String(id), ariaLabel: `Cancel action ${id}` }, "Cancel");

// The token that somebody types, or null. The event of a dialog's end comes late, maybe when it is open again.
function askToken(why) {
  const dialog = at("token");
  const input = dialog.querySelector("input");
  say(at("token-why"), why);
  input.value = "";
  dialog.showModal();
  input.focus();
  return new Promise((done) => {
    const end = (event, token) => {
      event.preventDefault();
      input.value = "";
      dialog.close();
      done(token || null);
    };
    dialog.oncancel = (event) => end(event, null);
    dialog.querySelector("form").onsubmit = (event) => end(event, event.submitter?.value === "leave" ? null : input.value.trim());
  });
}

async function send(id, token) {
  const answer = await fetch("v1/actions/cancel", {
    method: "POST", headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify({ id }) });
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return "";
  if (answer.status === 401) keep(null);
  throw new Error(answer.status === 401 ? "The token is not the right one" : told.error ?? `The daemon answers ${answer.status}`);
}

// `then` looks anew when something was cancelled.
export function listen(box, note, then) {
  box.addEventListener("click", async (event) => {
    const pressed = event.target.closest("button");
    if (!pressed) return;
    const token = kept() ?? await askToken("It is in the file that --admin-token-file names, and is kept by this tab only.");
    if (!token) return pressed.focus();
    say(note, "");
    try {
      await send(Number(pressed.value), token);
      keep(token);
      say(note, `Action ${pressed.value} is cancelled.`);
      // The button goes with what it was for.
      box.focus();
      then();
    } catch (error) {
      say(note, `Action ${pressed.value} was not cancelled: ${error.message}.`);
      pressed.focus();
    }
  });
}
