#!/usr/bin/env bash
# The pages of `weir bench` and `weir advise` in a real browser. Charts are drawn, nothing is asked for
# and nothing fails, they fit a phone and cut no column off on a desk, and they can be printed.
source "$(dirname "$0")/../lib.sh"
begin
need chromium python3
page=$T/p.html report=$T/r.json
mkdir "$T/here" "$T/profile"

"$WEIR" bench --suite dummy-files --size small --repeats 3 --yes --json "$report" --html "$page" \
    "$T/here" >"$T/table" 2>"$T/bench.log" || fail "weir bench ends with $?"
[ -z "$(ls -A "$T/here")" ] || fail "it leaves $(ls -A "$T/here")"

# A window of headless Chromium is 500 wide at least, so the phone is a frame. What the page looks
# like inside it tells its parent, which writes it down; neither is in the page that people get.
cat >"$T/frame.html" <<'END'
<!DOCTYPE html><title>frame</title><body style="margin:0">
<iframe src="probe.html" width="390" height="844" style="border:0"></iframe><pre id="told"></pre>
<script>
addEventListener("message", (told) => {
  document.getElementById("told").textContent = JSON.stringify(told.data);
});
</script></body>
END
cat >"$T/probe.js" <<'END'
<script>
const width = (one) => one.getBoundingClientRect().width;
const plots = [...document.querySelectorAll("svg[role=img]")];
const outside = [...document.querySelectorAll("body *")].filter((one) =>
  !one.closest(".scroll") && one.getBoundingClientRect().right > innerWidth + 1);
parent.postMessage({
  inner: innerWidth,
  page: document.documentElement.scrollWidth,
  plots: plots.length,
  drawn: plots.filter((one) => width(one) > 300 && one.getBBox().height > 30).length,
  named: plots.filter((one) => one.querySelector("title") && one.querySelector("desc")).length,
  samples: [...document.querySelectorAll(".names li")]
    .filter((one) => width(one.querySelector("svg.sample")) < 30).length,
  cards: [...document.querySelectorAll("table.wide td:not(:empty)")]
    .filter((one) => width(one) < 300 && !one.closest("details")).length,
  letters: plots.flatMap((one) => [...one.querySelectorAll("text")])
    .filter((one) => one.getBoundingClientRect().height < 8).length,
  outside: outside.map((one) => one.outerHTML.slice(0, 80)),
  asked: performance.getEntriesByType("resource").map((one) => one.name),
}, "*");
</script>
END
python3 - "$page" "$T/probe.js" "$T/probe.html" <<'END' || fail "the page has no end"
import sys
page, probe, out = sys.argv[1:]
text, script = open(page).read(), open(probe).read()
assert text.count("</body>") == 1 and "<script" not in text
open(out, "w").write(text.replace("</body>", script + "</body>"))
END

browse() { # ARGS...: asks Chromium, whose complaints of the page go to browser.log
    timeout 120 chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr \
        --user-data-dir="$T/profile" "$@" 2>>"$T/browser.log" || fail "chromium ends with $?"
}
browse --virtual-time-budget=5000 --dump-dom "file://$T/frame.html" >"$T/dom"
browse --print-to-pdf="$T/p.pdf" "file://$page" >>"$T/browser.log"
if grep "CONSOLE" "$T/browser.log"; then fail "the page makes the browser complain"; fi

python3 - "$T/dom" "$report" "$T/p.pdf" <<'END' || fail "the page is not what it should be"
import html, json, re, sys

dom, report, pdf = sys.argv[1:]
told = re.search(r'<pre id="told">(.*?)</pre>', open(dom).read(), re.S)
assert told and told[1], "the page told nothing"
told = json.loads(html.unescape(told[1]))
found = json.load(open(report))
phases = {(one["suite"], one["phase"]) for one in found["measurements"]}
assert phases and len(found["measurements"]) >= 3, found
assert told["inner"] == 390, told
assert told["page"] <= 390 and not told["outside"], f"it is wider than a phone: {told}"
# Of each phase, throughput over time and latency; of each suite, its costs.
assert told["plots"] >= 2 * len(phases) + len({suite for suite, _ in phases}), told
assert told["plots"] == told["drawn"] == told["named"], told
assert told["samples"] == 0, f"names without a sample of their line: {told}"
assert told["cards"] == 0, f"rows of wide tables that are no cards: {told}"
assert told["letters"] == 0, f"letters too small to read: {told}"
assert told["asked"] == [], f"it asks for {told['asked']}"
data = open(pdf, "rb").read()
assert data.startswith(b"%PDF") and re.search(rb"/Type\s*/Page\b", data), "it cannot be printed"
END

echo "== no column is cut off"
"$WEIR" advise "$TESTS/../docs/examples/blast.toml" --html "$T/advice.html" >/dev/null || fail "advise"
cat >"$T/cut.js" <<'END'
<script>
const cut = [...document.querySelectorAll(".scroll")].filter((one) =>
  !one.closest("details") && one.scrollWidth > one.clientWidth);
parent.postMessage({
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  cut: cut.map((one) => one.textContent.slice(0, 40)),
}, "*");
</script>
END
sed -i "/<\/body>/{
r $T/cut.js
}" "$T/advice.html"
for width in 390 1280 1600; do
    cat <<END
<iframe src="advice.html" width="$width" height="844" style="border:0"></iframe>
END
done >"$T/widths.html"
cat >>"$T/widths.html" <<'END'
<pre id="told"></pre><script>
const all = [];
addEventListener("message", (told) => {
  all.push(told.data);
  document.getElementById("told").textContent = JSON.stringify(all);
});
</script>
END
browse --virtual-time-budget=5000 --dump-dom "file://$T/widths.html" >"$T/dom"
python3 - "$T/dom" <<'END' || fail "the page of advice is cut off"
import html, json, re, sys

told = re.search(r'<pre id="told">(.+?)</pre>', open(sys.argv[1]).read(), re.S)
told = json.loads(html.unescape(told[1]))
assert sorted(one["width"] for one in told) == [390, 1280, 1600], told
for one in told:
    assert one["page"] <= one["width"] and not one["cut"], told
END
