#!/usr/bin/env python3
"""A store that has the storage classes of S3: passes requests on to an S3 server that has none. Copies of an object onto
itself in another class are noted here and go no further; HEAD says the class, as Amazon does.

  classes_s3.py PORT SERVER_PORT FILE      FILE gets a line `key class` for each object in any class but the first"""

import http.client
import http.server
import socketserver
import sys
import threading
import urllib.parse

PORT, SERVER, FILE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
KNOWN = ("STANDARD", "STANDARD_IA", "ONEZONE_IA", "GLACIER_IR")
COPIED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<CopyObjectResult><ETag>&quot;%s&quot;</ETag>'
    b"<LastModified>2026-11-27T00:00:00.000Z</LastModified></CopyObjectResult>"
)
NO_CLASS = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidStorageClass</Code>'
    b"<Message>The storage class you specified is not valid</Message></Error>"
)
classes, lock = {}, threading.Lock()


def note(key, name):
    with lock:
        if name == "STANDARD":
            classes.pop(key, None)
        else:
            classes[key] = name
        with open(FILE, "w") as file:
            file.writelines(f"{key} {name}\n" for key, name in sorted(classes.items()))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self, method, body):
        server = http.client.HTTPConnection("127.0.0.1", SERVER)
        # The header `Host` is signed, and so stays.
        server.request(method, self.path, body or None, dict(self.headers))
        answer = server.getresponse()
        got = answer.status, answer.getheaders(), answer.read()
        server.close()
        return got

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        key = urllib.parse.unquote(self.path.partition("?")[0]).strip("/")
        name = self.headers.get("x-amz-storage-class")
        source = urllib.parse.unquote(self.headers.get("x-amz-copy-source") or "").strip("/")
        if self.command == "PUT" and name and source == key:
            if name not in KNOWN:
                return self.answer(400, [], NO_CLASS)
            # Whose signature it is the server says, by what it answers to the copy.
            status, headers, text = self.pass_on("PUT", body)
            if status == 200 or b"InvalidRequest" in text:
                note(key, name)
                return self.answer(200, [("content-type", "application/xml")], COPIED % b"0")
            return self.answer(status, headers, text)
        status, headers, text = self.pass_on(self.command, body)
        if self.command in ("PUT", "DELETE") and status < 300:
            note(key, "STANDARD")
        if self.command == "HEAD" and key in classes:
            others = [(name, value) for name, value in headers if name.lower() != "x-amz-storage-class"]
            headers = [*others, ("x-amz-storage-class", classes[key])]
        self.answer(status, headers, text)

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers) and status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", PORT), Handler).serve_forever()
