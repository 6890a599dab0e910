"""Passes requests on to an S3 server on this machine: what stands in for a store that can more, or allows less, begins with it."""

import http.client
import http.server
import socketserver

# Not said again: what this server says itself.
OWN = ("transfer-encoding", "connection", "date", "server")


class Handler(http.server.BaseHTTPRequestHandler):
    """Subclasses say in `handle_one` what becomes of a request."""

    protocol_version = "HTTP/1.1"
    server_port = 0

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def pass_on(self, body):
        """The server's answer: status, headers, body."""
        server = http.client.HTTPConnection("127.0.0.1", self.server_port)
        # The header `Host` is signed, and so stays.
        server.request(self.command, self.path, body or None, dict(self.headers))
        answer = server.getresponse()
        got = answer.status, answer.getheaders(), answer.read()
        server.close()
        return got

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in OWN:
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers) and status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        self.answer(*self.pass_on(self.body()))

    def do_GET(self):
        self.handle_one()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(port, server_port, handler):
    """At `port`, for the server at the other one, until it is killed."""
    handler.server_port = server_port
    Server(("127.0.0.1", port), handler).serve_forever()
