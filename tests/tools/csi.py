#!/usr/bin/env python3
"""Asks a CSI driver, as Kubernetes would: one gRPC call, by curl, of the messages that tests need.

usage: csi.py SOCKET METHOD [FIELD=VALUE...]

A field is named as in csi.proto. Maps are written KEY=VALUE as well (secrets.KEY=VALUE), and
capability=MODE[,OPTION...] is a file system with an access mode, such as capability=SINGLE_NODE_WRITER,ro.
Prints `volume_id` of what is created and the `message` of a condition; ends with 1 and prints
`CODE: MESSAGE` if it is refused.
"""
# needs: curl
import subprocess
import sys
import urllib.parse

MODES = ["UNKNOWN", "SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY",
         "MULTI_NODE_SINGLE_WRITER", "MULTI_NODE_MULTI_WRITER", "SINGLE_NODE_SINGLE_WRITER",
         "SINGLE_NODE_MULTI_WRITER"]
CODES = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 9: "FAILED_PRECONDITION",
         12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE"}
FIELDS = {
    "CreateVolume": {"name": 1, "required_bytes": 2, "capability": 3, "parameters": 4, "secrets": 5},
    "DeleteVolume": {"volume_id": 1, "secrets": 2},
    "NodeStageVolume": {"volume_id": 1, "staging_target_path": 3, "capability": 4, "secrets": 5,
                        "volume_context": 6},
    "NodeUnstageVolume": {"volume_id": 1, "staging_target_path": 2},
    "NodePublishVolume": {"volume_id": 1, "staging_target_path": 3, "target_path": 4, "capability": 5,
                          "readonly": 6, "secrets": 7, "volume_context": 8},
    "NodeUnpublishVolume": {"volume_id": 1, "target_path": 2},
    "NodeGetVolumeStats": {"volume_id": 1, "volume_path": 2},
}


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytearray([number]))


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def encode(fields, word):
    name, value = word.split("=", 1)
    name, _, key = name.partition(".")
    field = fields[name]
    if key:
        return text(field, text(1, key) + text(2, value))
    if name == "capability":
        mode, *options = value.split(",")
        mount = b"".join(text(2, option) for option in options)
        return text(field, text(2, mount) + text(3, number(1, MODES.index(mode))))
    if name == "required_bytes":
        return text(field, number(1, int(value)))
    if name == "readonly":
        return number(field, int(value == "true"))
    return text(field, value)


def decode(message):
    """The fields of a message, those that are numbers among them."""
    def take(at):
        value = shift = 0
        while True:
            value |= (message[at] & 0x7F) << shift
            shift += 7
            at += 1
            if message[at - 1] < 0x80:
                return value, at
    at = 0
    while at < len(message):
        tag, at = take(at)
        value, at = take(at)
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        yield tag >> 3, value


socket, method, *words = sys.argv[1:]
body = b"".join(encode(FIELDS[method], word) for word in words)
service = "Node" if method.startswith("Node") else "Controller"
asked = subprocess.run(
    ["curl", "-sS", "--max-time", "120", "--http2-prior-knowledge", "--unix-socket", socket, "-D", "/dev/stderr",
     "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-",
     f"http://localhost/csi.v1.{service}/{method}"],
    input=b"\0" + len(body).to_bytes(4, "big") + body, capture_output=True)
told = dict(line.split(": ", 1) for line in asked.stderr.decode().splitlines() if ": " in line)
code = int(told.get("grpc-status", -1))
if code != 0:
    message = urllib.parse.unquote(told.get("grpc-message", asked.stderr.decode()))
    sys.exit(f"{CODES.get(code, code)}: {message}")
for field, value in decode(asked.stdout[5:]):
    if method == "CreateVolume" and field == 1:
        print(dict(decode(value))[2].decode())
    if method == "NodeGetVolumeStats" and field == 2:
        print(dict(decode(value))[2].decode())
