#!/usr/bin/env python3
"""A store that has S3's archive classes: passes requests on to an S3 server that has none.

  archive_s3.py PORT SERVER_PORT DIRECTORY

In the directory, read at each request: `archived` has a line `key class` for each object that lies in an archive class,
`restored` a line for each key whose restored copy is there, `stubborn` one for each that cannot be read although it is, `denied` says that
nobody may restore. What is asked for is noted in `asked`, a line `key tier days` each."""

import os
import re
import sys
import threading
import urllib.parse

import passing_s3

PORT, SERVER, DIRECTORY = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lock = threading.Lock()


def lines(name):
    try:
        with open(os.path.join(DIRECTORY, name)) as file:
            return [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return []


def refusal(code, message):
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()


class Handler(passing_s3.Handler):
    def handle_one(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        key = urllib.parse.unquote(path).strip("/")
        name = dict(lines("archived")).get(key)
        restored = [key] in lines("restored")
        asked = key in [line[0] for line in lines("asked")]
        if self.command == "POST" and query.startswith("restore"):
            return self.restore(key, name, restored, asked, body.decode())
        if self.command == "GET" and name and (not restored or [key] in lines("stubborn")):
            return self.answer(403, [], refusal("InvalidObjectState", "The operation is not valid for the object's storage class"))
        status, headers, text = self.pass_on(body)
        if self.command == "HEAD" and name:
            headers = [(n, value) for n, value in headers if n.lower() != "x-amz-storage-class"]
            headers.append(("x-amz-storage-class", name))
            if restored:
                headers.append(("x-amz-restore", 'ongoing-request="false", expiry-date="Fri, 23 Dec 2033 00:00:00 GMT"'))
            elif asked:
                headers.append(("x-amz-restore", 'ongoing-request="true"'))
        self.answer(status, headers, text)

    def restore(self, key, name, restored, asked, body):
        tier, days = re.search("<Tier>(.*)</Tier>", body), re.search("<Days>(.*)</Days>", body)
        if lines("denied"):
            return self.answer(403, [], refusal("AccessDenied", "Access Denied"))
        if not name:
            return self.answer(403, [], refusal("InvalidObjectState", "Restore is not allowed for the object's current storage class"))
        if name == "DEEP_ARCHIVE" and tier[1] == "Expedited":
            return self.answer(400, [], refusal("InvalidArgument", "Retrieval option is not supported by this storage class"))
        if asked and not restored:
            return self.answer(409, [], refusal("RestoreAlreadyInProgress", "Object restore is already in progress"))
        with lock, open(os.path.join(DIRECTORY, "asked"), "a") as file:
            file.write(f"{key} {tier[1]} {days[1]}\n")
        self.answer(200 if restored else 202, [], b"")


passing_s3.serve(PORT, SERVER, Handler)
