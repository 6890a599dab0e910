#!/usr/bin/env python3
"""A store that has the storage classes of S3: passes requests on to an S3 server that has none. Copies of an object onto
itself in another class are noted here; HEAD says the class, as Amazon does.

  classes_s3.py PORT SERVER_PORT FILE      FILE gets a line `key class` for each object in any class but the first"""

import email.utils
import sys
import threading
import urllib.parse

import passing_s3

PORT, SERVER, FILE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
KNOWN = ("STANDARD", "STANDARD_IA", "ONEZONE_IA", "GLACIER_IR")
COPIED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<CopyObjectResult><ETag>{}</ETag>'
    "<LastModified>{}</LastModified></CopyObjectResult>"
)
NO_CLASS = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidStorageClass</Code>'
    b"<Message>The storage class you specified is not valid</Message></Error>"
)
classes, lock = {}, threading.Lock()
# By key, the ETag and the time that the server said last.
said = {}


def note(key, name):
    with lock:
        if name == "STANDARD":
            classes.pop(key, None)
        else:
            classes[key] = name
        with open(FILE, "w") as file:
            file.writelines(f"{key} {name}\n" for key, name in sorted(classes.items()))


def copied(key):
    etag, modified = said.get(key, ('"0"', "Fri, 27 Nov 2026 00:00:00 GMT"))
    at = email.utils.parsedate_to_datetime(modified).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return COPIED.format(etag.replace('"', "&quot;"), at).encode()


class Handler(passing_s3.Handler):
    def handle_one(self):
        body = self.body()
        key = urllib.parse.unquote(self.path.partition("?")[0]).strip("/")
        name = self.headers.get("x-amz-storage-class")
        source = urllib.parse.unquote(self.headers.get("x-amz-copy-source") or "").strip("/")
        moves = self.command == "PUT" and name and source == key
        if moves and name not in KNOWN:
            return self.answer(400, [], NO_CLASS)
        status, headers, text = self.pass_on(body)
        # Whether it is there, and whose signature it is, the server says by what it answers to the copy: that it is none.
        if moves and (status == 200 or b"InvalidRequest" in text):
            note(key, name)
            status, headers, text = 200, [("content-type", "application/xml")], copied(key)
        elif self.command in ("PUT", "DELETE") and status < 300:
            note(key, "STANDARD")
        of = {name.lower(): value for name, value in headers}
        if status == 200 and "etag" in of and "last-modified" in of:
            said[key] = (of["etag"], of["last-modified"])
        if self.command == "HEAD" and key in classes:
            headers = [(n, value) for n, value in headers if n.lower() != "x-amz-storage-class"]
            headers.append(("x-amz-storage-class", classes[key]))
        self.answer(status, headers, text)


passing_s3.serve(PORT, SERVER, Handler)
