"""The smallest S3 client that can be: the raw store's rows are what it reaches.

One process a connection, HTTP by hand over a keep-alive socket, bodies received into one buffer and
dropped, and not signed (UNSIGNED-PAYLOAD). A file system cannot ask a store with less work.
"""

import datetime
import hashlib
import hmac
import socket
import urllib.parse

MIB = 1 << 20
KEY, SECRET, REGION = "weirtest", "weirtestsecret", "us-east-1"


def _signed(method, host, path, query=""):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    names = "host;x-amz-content-sha256;x-amz-date"
    asked = (f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n"
             f"x-amz-date:{now}\n\n{names}\nUNSIGNED-PAYLOAD")
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    key = ("AWS4" + SECRET).encode()
    for part in (now[:8], REGION, "s3", "aws4_request", text):
        digest = hmac.new(key, part.encode(), hashlib.sha256)
        key = digest.digest()
    return (f"Host: {host}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: {now}\r\n"
            f"Authorization: AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, "
            f"Signature={digest.hexdigest()}\r\n")


class Connection:
    """One connection to a server at (host, port)."""

    def __init__(self, address):
        self.host = f"{address[0]}:{address[1]}"
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(MIB))

    def ask(self, method, path, body=b"", range_=None, expect=(200, 204, 206)):
        """One request. Returns how many bytes of body came."""
        path = urllib.parse.quote(path)
        head = f"{method} {path} HTTP/1.1\r\n{_signed(method, self.host, path)}"
        if range_:
            head += f"Range: bytes={range_[0]}-{range_[0] + range_[1] - 1}\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        if len(body) <= 1 << 16:
            self.socket.sendall(head.encode() + bytes(body))
        else:
            self.socket.sendall(head.encode())
            try:
                self.socket.sendall(body)
            except OSError:
                pass  # a server that refuses says why and hangs up
        have, end = 0, -1
        while end < 0:
            got = self.socket.recv_into(self.buffer[have:])
            if not got:
                raise ConnectionError(f"{method} {path}: the server hung up")
            have += got
            end = bytes(self.buffer[:have]).find(b"\r\n\r\n")
        lines = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        if status not in expect:
            said = bytes(self.buffer[end + 4:have]).decode(errors="replace")
            raise ConnectionError(f"{method} {path}: status {status} {said[:300]}")
        length = 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        left = length - (have - end - 4)
        while left:
            got = self.socket.recv_into(self.buffer, min(left, len(self.buffer)))
            if not got:
                raise ConnectionError(f"{method} {path}: the body is short")
            left -= got
        return length

    def close(self):
        self.socket.close()
