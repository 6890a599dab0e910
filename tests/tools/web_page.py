"""What the page of --admin-listen must show and do, in a browser: web_page.py TEST URL PROFILE [MORE...]"""

import json
import sys

from browser import Browser

USED = "a, button, input, select, [tabindex='0']"
# What one may use now: nothing of a dialog that is shut.
USABLE = f"[...document.querySelectorAll(\"{USED}\")].filter((one) => !one.closest('dialog:not([open])'))"


def look(browser, url, shots):
    for width, height in ((390, 844), (1600, 1000)):
        for scheme in ("light", "dark"):
            browser.look(width, height, scheme)
            browser.ask("Page.navigate", url=url)
            browser.wait("document.querySelectorAll('#requests tbody tr').length > 0")
            browser.wait("document.querySelectorAll('#map [role=treeitem]').length > 2")
            browser.wait("document.querySelector('#plots figure:nth-child(2) b').textContent.includes('MiB/s')")
            browser.screenshot(f"{shots}/{width}-{scheme}.png")
            told = browser.value("""({
              page: document.documentElement.scrollWidth,
              outside: [...document.querySelectorAll('body *')].filter((one) => !one.closest('.scroll, svg, select, #map span')
                && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80)),
              back: getComputedStyle(document.body).backgroundColor,
              text: document.body.innerText,
              plots: [...document.querySelectorAll('svg')].filter((one) => one.getAttribute('role') === 'img'
                && one.getAttribute('aria-label').includes('at most') && one.querySelector('.curve').getAttribute('d')?.startsWith('M0 ')).length,
              meters: document.querySelectorAll('[role=meter][aria-valuenow][aria-label]').length,
              bad: document.querySelectorAll('.bar.bad').length,
              heads: [...document.querySelectorAll('th')].filter((one) => one.scope && one.textContent).length,
              ths: document.querySelectorAll('th').length,
              unnamed: [...document.querySelectorAll('section')].filter((one) => !document.getElementById(
                one.getAttribute('aria-labelledby'))?.textContent).length,
              live: document.querySelector('#health').getAttribute('aria-live'),
              landmarks: ['header', 'main', 'footer'].every((name) => document.querySelector(name)),
              strange: /NaN|undefined|Infinity|\\[object/.exec(document.body.innerText),
              buttons: document.querySelectorAll('#actions button').length,
              elsewhere: performance.getEntriesByType('resource').map((one) => one.name)
                .filter((name) => !name.startsWith(location.origin)),
            })""")
            text = told.pop("text")
            assert told["page"] <= width and not told["outside"], f"wider than {width}: {told}"
            assert told["plots"] == 4 and told["meters"] >= 5 and not told["bad"], told
            assert told["heads"] == told["ths"] > 0 and not told["unnamed"], told
            assert told["live"] == "polite" and told["landmarks"], told
            assert not told["strange"] and not told["elsewhere"], f"{told}: {text}"
            assert not told["buttons"], f"a button without a token: {told}"
            light = sum(int(part) for part in told["back"][4:-1].split(",")) > 400
            assert light == (scheme == "light"), told
            for word in ("Nothing is wrong", "/busy", "PUT", "Dirty", "Budget: $5.00", "hydrate", "us-east-1", "in the bucket\n",
                         "EFS elastic", "FSx", "not yet", "A month is told from 10 min on, and this is ", "Storage alone"):
                assert word in text + "\n", f"no '{word}' in {text}"
            see_map(browser)
    walk_by_keyboard(browser)
    see_bill(browser)

    # Another region has other prices, and where none are known it says so.
    browser.value("region.value = 'ap-northeast-1', region.dispatchEvent(new Event('change'))")
    browser.wait("document.querySelector('#requests').innerText.includes('unknown')")
    browser.wait("document.querySelector('#bill-note').innerText.includes('ap-northeast-1')")
    browser.wait("document.querySelector('#bill').innerText.includes('unknown')")


def see_map(browser):
    """Directories are where they should be, as large as they should be, and no name of a shut one is told."""
    told = browser.value("""[...document.querySelectorAll('#map [role=treeitem]')].map((one) => {
      const { width: w, height: h, left, top, right, bottom } = one.getBoundingClientRect();
      const within = one.parentElement.getBoundingClientRect();
      return { label: one.ariaLabel, level: one.ariaLevel, area: w * h, fill: one.style.getPropertyValue('--here'),
        inside: left >= within.left - 1 && top >= within.top - 1 && right <= within.right + 1 && bottom <= within.bottom + 1 };
    })""")
    by_name = {one["label"].split(":")[0]: one for one in told}
    assert all(one["inside"] for one in told), told
    cold, warm = by_name["/cold"], by_name["/warm"]
    assert cold["level"] == "1" and by_name["/cold/deep"]["level"] == "2", told
    assert "8.0 MiB in 1 file, 0% in the tier" in cold["label"] and cold["fill"] == "0%", told
    assert "4.0 MiB in 1 file, 100% in the tier" in warm["label"] and warm["fill"] == "100%", told
    assert 1.7 < cold["area"] / warm["area"] < 2.3, told
    assert "/shut" in by_name, told
    assert "inner-name" not in browser.value("document.documentElement.outerHTML"), "a name that is a secret"
    # The arrows lead through it, and say what they come by.
    browser.value("document.querySelector(\"#map [tabindex='0']\").focus()")
    browser.press("Home")
    for key, wanted in (("End", told[-1]), ("Home", told[0]), ("ArrowDown", told[1]), ("ArrowUp", told[0])):
        browser.press(key)
        assert browser.value("document.activeElement.ariaLabel") == wanted["label"], f"{key} leads elsewhere"
        assert browser.value("document.querySelector('#map-line').textContent") == wanted["label"], key
    browser.value("[...document.querySelectorAll('#map li')].find((one) => one.dataset.path === '/cold').focus()")
    browser.press("ArrowRight")
    assert browser.value("document.activeElement.dataset.path") == "/cold/deep"
    browser.press("ArrowLeft")
    assert browser.value("document.activeElement.dataset.path") == "/cold"
    rooms = browser.value("""import('/map.js').then(({ rooms }) => [[9], [6, 6, 4, 3, 2, 2, 1], [1e12, 1], Array(50).fill(3)]
      .map((values) => rooms(values, { x: 0, y: 0, w: 600, h: 400 })
        .map(({ w, h }, at) => Math.abs(w * h / 240000 - values[at] / values.reduce((a, b) => a + b)))))""")
    assert all(off < 1e-6 for room in rooms for off in room), f"rooms of other sizes: {rooms}"


def see_bill(browser):
    """A month shows once it is told."""
    told = browser.value("""(async () => {
      const [{ bill }, asked] = await Promise.all([import('/bill.js'), fetch('/v1/bill?region=us-east-1')]);
      const made = await asked.json();
      const early = [made.weir, ...made.elsewhere].map((of) => of.month);
      made.used.from_unix_ms = made.used.used.unix_ms - 3600e3;
      for (const of of [made.weir, ...made.elsewhere]) of.month = { nano_usd: 12.5e9, complete: of !== made.weir };
      const [box, note] = [document.createElement('div'), document.createElement('p')];
      bill(box, note, made);
      return { early, rows: [...box.querySelectorAll('tr')].map((row) => row.textContent), note: note.textContent };
    })()""")
    assert set(told["early"]) == {None}, told
    assert told["rows"][1].startswith("Weir") and told["rows"][1].endswith("at least $12.50"), told
    assert all(row.endswith("$12.50") for row in told["rows"][1:]), told
    assert len(told["rows"]) >= 7 and told["note"].startswith("Of 1 h 0 min, at list prices of us-east-1"), told


def walk_by_keyboard(browser):
    """Each thing that one may use or scroll gets the focus, and keeps it when the page is filled anew."""
    wanted = browser.value(f"{USABLE}.length")
    browser.value("document.activeElement.blur()")
    met = set()
    for _ in range(wanted + 3):
        browser.press("Tab")
        met.add(browser.value(f"{USABLE}.indexOf(document.activeElement)"))
    assert met - {-1} == set(range(wanted)), f"by keyboard only {met} of {wanted}"
    for one in ("#region", "#map [tabindex='0']"):
        browser.value(f"document.querySelector(\"{one}\").focus()")
        browser.value("new Promise((done) => setTimeout(done, 2500))")
        assert browser.value(f"document.activeElement === document.querySelector(\"{one}\")"), f"the focus leaves {one}"


def cancel(browser, url, token_file, shots):
    """The button asks for the token, tells that a wrong one is wrong, and cancels with the right one."""
    with open(token_file) as file:
        token = file.read().strip()
    button = "document.querySelector('#actions button')"
    note = "document.querySelector('#actions-note').textContent"
    browser.look(390, 844, "light")
    browser.ask("Page.navigate", url=url)
    browser.wait(f"{button} !== null")
    assert browser.value(f"{button}.ariaLabel").startswith("Cancel action "), "a button without a name"

    def pressed():
        browser.value(f"{button}.focus()")
        browser.press("Enter")
        browser.wait("document.querySelector('dialog').open")
        assert browser.value("document.activeElement.type") == "password", "the token is asked for elsewhere"

    pressed()
    browser.press("Escape")
    browser.wait("!document.querySelector('dialog').open")
    assert browser.value(f"document.activeElement === {button}"), "the focus does not come back"
    pressed()
    browser.screenshot(f"{shots}/token.png")
    browser.ask("Input.insertText", text="a wrong token of length")
    browser.press("Enter")
    browser.wait(f"{note}.includes('was not cancelled: The token is not the right one')")
    assert browser.value("sessionStorage.length") == 0, "a wrong token is kept"
    pressed()
    assert browser.value("document.activeElement.value") == "", "the last token is shown"
    browser.ask("Input.insertText", text=token)
    browser.press("Enter")
    browser.wait(f"{note}.includes('is cancelled')")
    browser.wait("document.querySelector('#actions tbody tr td:nth-child(4)').textContent === 'cancelled'")
    browser.wait(f"{button} === null")
    assert browser.value("document.activeElement.id") == "actions", "the focus is lost"
    kept = browser.value("""({ tab: Object.values(sessionStorage), ever: localStorage.length, cookie: document.cookie,
      page: document.documentElement.outerHTML, url: location.href })""")
    assert kept["tab"] == [token] and not kept["ever"] and not kept["cookie"], kept
    assert token not in kept["page"] and token not in kept["url"], "the page shows the token"
    # A refused request is in the browser's console, and was meant.
    browser.complaints = [of for of in browser.complaints if "401" not in json.dumps(of)]


# What is changed of a healthy status, what is told of it, and what monitoring/rules.yml says of the same.
ALARMS = [
    ("", None, None),
    ("s.fenced = true", "Fenced", "weir_fenced == 1"),
    ("s.ending = true", "Ending", None),
    ("s.troubles = [{ ...trouble, since_ms_ago: 60000 }]", "The bucket fails",
     "max by (job, instance, component, kind) (weir_requests_failing) > 0\n        for: 1m"),
    ("s.troubles = [{ ...trouble, since_ms_ago: 59999 }]", None, None),
    ("s.troubles = [{ ...trouble, since_ms_ago: 1e9, lasting: false }]", None, None),
    ("s.flush_failed = { error: 'away', last_ms_ago: 1, failures: 1 }", "Flushes fail", "weir_flush_failures > 0"),
    ("s.files_in_doubt = 1", "Lost bytes", "weir_tier_files_in_doubt > 0"),
    ("s.aside.files = 1", "Set aside", "weir_set_aside_files > 0 or weir_set_aside_bytes > 0"),
    ("s.aside.log_bytes = 1", "Set aside", None),
    ("s.held_deletions = [{ path: '/db', files: 3, of: 4 }]", "Deletions held", "weir_link_deletions_held > 0"),
    ("s.tier.dirty_bytes = 851", "Nearly all of the tier is dirty", "weir_tier_dirty_bytes > 0.85 * weir_tier_limit_bytes"),
    ("s.tier.dirty_bytes = 850", None, None),
    ("s.tier.used_bytes = 391, s.tier.free_bytes = 9", "The tier's disk is full",
     "weir_tier_free_bytes < 0.5 * clamp_max((weir_tier_used_bytes + weir_tier_free_bytes) / 20, 536870912)"),
    ("s.tier.used_bytes = 390, s.tier.free_bytes = 10", None, None),
    ("s.tier.used_bytes = 2 ** 40, s.tier.free_bytes = 2 ** 28 - 1", "The tier's disk is full", None),
    ("s.tier.used_bytes = 2 ** 40, s.tier.free_bytes = 2 ** 28", None, None),
    ("s.tier.mirrors = 99, s.tier.free_files = 2", "The tier's disk has few inodes",
     "weir_tier_free_files < 0.02 * (weir_tier_files + weir_tier_free_files)"),
    ("s.tier.mirrors = 98, s.tier.free_files = 2", None, None),
    ("s.tier.free_files = 18446744073709551615", None, None),
    ("refused = 1", "Journal full", "increase(weir_journal_refused_fsyncs_total[10m]) > 0"),
    ("s.journal.refused_fsyncs = 7", None, None),
    ("s.journal.free_bytes = 2 ** 25 - 1", "The disk of the journal or redo log is full",
     "weir_journal_free_bytes < 33554432 and weir_journal_bytes + weir_journal_limit_bytes > 0"),
    ("s.journal.free_bytes = 2 ** 25", None, None),
    ("s.journal = { ...s.journal, free_bytes: 0, used_bytes: 0, limit_bytes: 0 }", None, None),
    ("s.mountpoint = null, s.fenced = true", "Fenced", None),
]


def alarms(browser, url, rules_file):
    """Each alarm is told from where it should be on, and of a healthy mount none."""
    with open(rules_file) as file:
        rules = file.read()
    browser.look(1600, 1000, "light")
    browser.ask("Page.navigate", url=url)
    browser.wait("document.querySelector('#health')?.textContent")
    assert browser.value("document.querySelector('#health').textContent") == "Nothing is wrong."
    for change, name, rule in ALARMS:
        told = browser.value(f"""(async () => {{
          const [{{ wrong }}, asked] = await Promise.all([import('/health.js'), fetch('/v1/status')]);
          const s = await asked.json();
          Object.assign(s.tier, {{ limit_bytes: 1000, dirty_bytes: 0, used_bytes: 0, free_bytes: 2 ** 40, mirrors: 0, free_files: 1000 }});
          Object.assign(s.journal, {{ free_bytes: 2 ** 40, used_bytes: 1, limit_bytes: 2 ** 24, refused_fsyncs: 0 }});
          const trouble = {{ component: 'data', kind: 'put', failures: 3, error: 'away', last_ms_ago: 1, lasting: true }};
          let refused = 0;
          {change};
          return wrong(s, refused);
        }})()""")
        wanted = [name] if name else []
        assert [of["what"] for of in told] == wanted, f"{change or 'healthy'}: {told}"
        assert all(of["why"] and of["todo"] and "undefined" not in json.dumps(of) for of in told), told
        assert rule is None or rule in rules, f"rules.yml has another condition than the page for {name}: {rule}"


if __name__ == "__main__":
    test, url, profile, *more = sys.argv[1:]
    tab = Browser(profile)
    try:
        {"look": look, "cancel": cancel, "alarms": alarms}[test](tab, url, *more)
        assert not tab.complaints, tab.complaints
    finally:
        tab.close()
