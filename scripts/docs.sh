#!/usr/bin/env bash
# Makes the book of README.md, docs/ and the other pages: docs.sh OUT. Its links are those of the
# repository, so the pages are laid out as they are there. Fails on a link that leads to nothing.
# needs: mdbook python3
set -euo pipefail
out=$(realpath -m "${1:?usage: docs.sh OUT}")
cd "$(dirname "$0")/.."
rm -rf "$out" && mkdir -p "$out/src"
cp ./*.md LICENSE "$out/src/"
cp -r docs monitoring deploy "$out/src/"
mv "$out/src/docs/book.toml" "$out/"
# The book's own order is at its root, one directory above docs/.
sed -E 's#\]\(([^)/]+\.md|ko/)#](docs/\1#; s#\]\(\.\./#](#' docs/SUMMARY.md >"$out/src/SUMMARY.md"
rm "$out/src/docs/SUMMARY.md"
# A README is the index of its directory, and a link to it is one to that.
mv "$out/src/README.md" "$out/src/index.md"
find "$out/src" -name '*.md' -exec sed -i -E 's#\]\(((\.\./)*)README\.md#](\1index.md#' {} +
mdbook build "$out" --dest-dir "$out/html"
python3 - "$out/html" <<'PY'
import pathlib, re, sys
from urllib.parse import unquote, urlsplit

root = pathlib.Path(sys.argv[1])
pages = {page: page.read_text() for page in root.rglob("*.html") if page.name not in ("404.html", "print.html")}
ids = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in pages.items()}
wrong = []


def main(text):  # of toc.html all
    return text.split("<main>")[-1].split("</main>")[0]


for page, text in pages.items():
    for link in re.findall(r'<a [^>]*href="([^"]+)"', main(text)):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.exists() or parts.fragment and target in ids and unquote(parts.fragment) not in ids[target]:
            wrong.append(f"{page.relative_to(root)} leads to {link}")
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(bool(wrong))
PY
