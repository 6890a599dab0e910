#!/usr/bin/env bash
# The page of --admin-listen beside a load, in a real browser: a phone and a desk, light and dark, by keyboard, and
# what the port refuses. WEIR_SHOTS=DIRECTORY keeps what it looked like.
# time-limit: 180
source "$(dirname "$0")/../lib.sh"
begin
need chromium curl jq python3

listen=127.0.0.1:$(free_port)
fmt_mount --admin-listen "$listen" --flush-age 200ms
port=${listen#*:}
mkdir "$MNT/busy" "$T/profile"
code() { curl -s -o "$T/answer" -w '%{http_code}' "$@"; }

echo "== what the port answers, and to whom"
same "$(code "http://$listen/")" 200 "the page"
for path in / /page.js /style.css /v1/status /metrics; do
    curl -s -D "$T/head" -o /dev/null "http://$listen$path"
    for header in "content-security-policy: default-src 'self'" "x-content-type-options: nosniff" "cache-control: no-store"; do
        grep -qi "^$header" "$T/head" || fail "$path has no '$header': $(cat "$T/head")"
    done
done
for path in status throughput used history actions links prices; do
    same "$(code "http://$listen/v1/$path")" 200 "/v1/$path"
    jq -e . "$T/answer" >/dev/null || fail "/v1/$path is not JSON"
done
for path in / /page.js /v1/status /metrics /healthz /nothing; do
    same "$(code -H 'Host: evil.example' "http://$listen$path")" 403 "$path for another Host"
    same "$(code -H "Host: 127.0.0.1.evil.example:$port" "http://$listen$path")" 403 "$path for a Host that looks like ours"
    same "$(code --http1.0 -H 'Host:' "http://$listen$path")" 403 "$path without a Host"
done
same "$(code "http://localhost:$port/v1/status")" 200 "localhost"
for path in unmount flush actions/cancel actions/start throughput/set pin; do
    case $(code -X POST -d '{}' "http://$listen/v1/$path") in
        404 | 405) ;;
        *) fail "POST /v1/$path is not refused: $(cat "$T/answer")" ;;
    esac
done
mountpoint -q "$MNT" || fail "somebody unmounted it"

echo "== a load"
cat >"$T/load.py" <<'PY'
import os, sys, time
path, block = sys.argv[1], os.urandom(1 << 20)
end = time.time() + 120
while time.time() < end:
    with open(path, "wb", 0) as file:
        for _ in range(4):
            file.write(block)
        os.fsync(file.fileno())
    os.close(os.open(path, os.O_RDONLY))
    time.sleep(0.05)
PY
python3 "$T/load.py" "$MNT/busy/file" &
remember $!
poll 20 test -s "$MNT/busy/file" || fail "no load"
"$WEIR" throughput "$MNT" --budget 5USD/h >/dev/null || fail "a budget"
"$WEIR" archive --wait "$MNT/busy/file" >/dev/null 2>&1 || "$WEIR" archive "$MNT/busy/file" >/dev/null || fail "an action"

echo "== the page"
PYTHONPATH=$TESTS/tools PYTHONDONTWRITEBYTECODE=1 python3 - "http://$listen/" "$T/profile" "${WEIR_SHOTS:-$T}" <<'PY' ||
import sys
from browser import Browser

url, profile, shots = sys.argv[1:]
browser = Browser(profile)
try:
    for width, height in ((390, 844), (1600, 1000)):
        for scheme in ("light", "dark"):
            browser.look(width, height, scheme)
            browser.ask("Page.navigate", url=url)
            browser.wait("document.querySelectorAll('#requests tbody tr').length > 0")
            browser.wait("document.querySelector('#plots figure:nth-child(2) b').textContent.includes('MiB/s')")
            browser.screenshot(f"{shots}/{width}-{scheme}.png")
            told = browser.value("""({
              page: document.documentElement.scrollWidth,
              outside: [...document.querySelectorAll('body *')].filter((one) => !one.closest('.scroll, svg, select')
                && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80)),
              back: getComputedStyle(document.body).backgroundColor,
              text: document.body.innerText,
              plots: [...document.querySelectorAll('svg')].filter((one) => one.getAttribute('role') === 'img'
                && one.getAttribute('aria-label').includes('at most') && one.querySelector('.curve').getAttribute('d')?.startsWith('M0 ')).length,
              meters: document.querySelectorAll('[role=meter][aria-valuenow][aria-label]').length,
              heads: [...document.querySelectorAll('th')].filter((one) => one.scope && one.textContent).length,
              ths: document.querySelectorAll('th').length,
              unnamed: [...document.querySelectorAll('section')].filter((one) => !document.getElementById(
                one.getAttribute('aria-labelledby'))?.textContent).length,
              live: document.querySelector('#health').getAttribute('aria-live'),
              landmarks: ['header', 'main', 'footer'].every((name) => document.querySelector(name)),
              bad: /NaN|undefined|Infinity|\\[object/.exec(document.body.innerText),
              elsewhere: performance.getEntriesByType('resource').map((one) => one.name)
                .filter((name) => !name.startsWith(location.origin)),
            })""")
            text = told.pop("text")
            assert told["page"] <= width and not told["outside"], f"wider than {width}: {told}"
            assert told["plots"] == 4 and told["meters"] >= 5, told
            assert told["heads"] == told["ths"] > 0 and not told["unnamed"], told
            assert told["live"] == "polite" and told["landmarks"], told
            assert not told["bad"] and not told["elsewhere"], f"{told}: {text}"
            light = sum(int(part) for part in told["back"][4:-1].split(",")) > 400
            assert light == (scheme == "light"), told
            for word in ("Nothing is wrong", "/busy", "PUT", "Dirty", "Budget: $5.00", "archive", "us-east-1"):
                assert word in text, f"no '{word}' in {text}"

    # Each thing that one may use or scroll gets the focus, and keeps it when the page is filled anew.
    wanted = browser.value("document.querySelectorAll('a, button, input, select, [tabindex]').length")
    browser.value("document.activeElement.blur()")
    met = set()
    for _ in range(wanted + 3):
        browser.press_tab()
        met.add(browser.value("""[...document.querySelectorAll('a, button, input, select, [tabindex]')]
          .indexOf(document.activeElement)"""))
    assert met - {-1} == set(range(wanted)), f"by keyboard only {met} of {wanted}"
    browser.value("document.querySelector('#region').focus()")
    browser.value("new Promise((done) => setTimeout(done, 2500))")
    assert browser.value("document.activeElement.id") == "region", "the focus goes away"

    # Another region has other prices, and where none are known it says so.
    browser.value("region.value = 'ap-northeast-1', region.dispatchEvent(new Event('change'))")
    browser.wait("document.querySelector('#requests').innerText.includes('unknown')")
    assert not browser.complaints, browser.complaints
finally:
    browser.close()
PY
    fail "the page is not what it should be"

kill "$(cat "$T"/[0-9]*.pid | head -1)" 2>/dev/null
"$WEIR" throughput "$MNT" --budget 0USD/h >/dev/null 2>&1
fsck_clean
echo ok
