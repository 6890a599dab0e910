#!/usr/bin/env python3
"""Keys that may do what IAM policies say: passes requests on to an S3 server, and denies others as
Amazon does. Knows `Allow` with actions, resources and the condition `StringLike` of `s3:prefix`.

  policy_s3.py PORT SERVER_PORT POLICY.json..."""

import fnmatch
import json
import sys
import urllib.parse

import passing_s3

PORT, SERVER = int(sys.argv[1]), int(sys.argv[2])
DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>'
    b"<Message>Access Denied</Message><RequestId>1</RequestId></Error>"
)


def listed(value):
    return value if isinstance(value, list) else [value]


STATEMENTS = [s for name in sys.argv[3:] for s in json.load(open(name))["Statement"]]


def allowed(action, place, prefix=None):
    """PLACE is `bucket` or `bucket/key`."""
    for statement in STATEMENTS:
        wanted = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        if (
            action in listed(statement["Action"])
            and any(fnmatch.fnmatchcase(f"arn:aws:s3:::{place}", r) for r in listed(statement["Resource"]))
            and (wanted is None or prefix is not None and fnmatch.fnmatchcase(prefix, wanted))
        ):
            return True
    return False


def asked(method, path, query, source):
    """The actions that a request is, each with its place, and the prefix of a listing."""
    place = urllib.parse.unquote(path).strip("/")
    if "/" not in place:
        return [("s3:ListBucket", place)], query.get("prefix", [None])[0]
    if method == "DELETE":
        return [("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", place)], None
    if method in ("GET", "HEAD"):
        return [("s3:GetObject", place)], None
    read = [("s3:GetObject", urllib.parse.unquote(source).strip("/"))] if source else []
    return [("s3:PutObject", place), *read], None


class Handler(passing_s3.Handler):
    def handle_one(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        query = urllib.parse.parse_qs(query, keep_blank_values=True)
        actions, prefix = asked(self.command, path, query, self.headers.get("x-amz-copy-source"))
        if not all(allowed(action, place, prefix) for action, place in actions):
            return self.answer(403, [], DENIED)
        self.answer(*self.pass_on(body))


passing_s3.serve(PORT, SERVER, Handler)
