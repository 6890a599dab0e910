#!/usr/bin/env python3
"""Says which links of documents lead to a file that is not there, or to no heading of it.

usage: links.py FILE.md...
"""
import os
import re
import sys

CODE = re.compile(r"^```.*?^```$", re.M | re.S)


def anchors(path, known={}):
    """The headings of a document, as pages and books name them in addresses."""
    if path not in known:
        with open(path) as file:
            text = CODE.sub("", file.read())
        found = known[path] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
        for heading in re.findall(r"^#+ +(.*?)\s*$", text, re.M):
            heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
            name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            taken = [name, *(f"{name}-{n}" for n in range(1, 100))]
            found.add(next(each for each in taken if each not in found))
    return known[path]


def wrong(document):
    with open(document) as file:
        text = CODE.sub("", file.read())
    for target in re.findall(r"\]\(<?([^)> ]+)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if not os.path.exists(path):
            yield f"{document} leads to {target}, which is not there"
        elif anchor and path.endswith(".md") and anchor not in anchors(path):
            yield f"{document} leads to {target}, and {path} has no such heading"


told = [line for document in sys.argv[1:] for line in wrong(document)]
print("\n".join(told), file=sys.stderr, end="\n" if told else "")
sys.exit(bool(told))
