#!/usr/bin/env python3
"""A stand-in for AWS KMS on loopback: makes and opens data keys as its JSON protocol does, for requests that are signed.

    kms.py PORT LOG [STATE]

Keys: `alias/weir` and the id `weir-key` (one key), `other-key`, `disabled-key`. Who asks as `AKIADENIED` may nothing. STATE is a
file whose word, if it is there, says what goes wrong: `throttled`, `broken`, `silent`. LOG gets a line for each request:
operation, key, who. What it seals is no real encryption.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCOUNT = "000000000000"
KEYS = {"weir-key": b"one", "other-key": b"two", "disabled-key": b"three"}
NAMES = {"alias/weir": "weir-key"}
STATE = sys.argv[3] if len(sys.argv) > 3 else ""


class Refused(Exception):
    def __init__(self, code, message=""):
        super().__init__(code)
        self.code, self.message = code, message


def key_of(name):
    name = name.split(":", 5)[-1].removeprefix("key/")
    name = NAMES.get(name, name)
    if name not in KEYS:
        raise Refused("NotFoundException", f"Key '{name}' does not exist")
    if name == "disabled-key":
        raise Refused("DisabledException", f"{name} is disabled.")
    return name


def stream(name, nonce, context):
    text = json.dumps(context, sort_keys=True).encode()
    return hmac.new(KEYS[name], nonce + text, hashlib.sha512).digest()


def seal(name, plain, context):
    nonce = os.urandom(16)
    pad = stream(name, nonce, context)
    body = bytes(a ^ b for a, b in zip(plain, pad))
    return name.encode().ljust(16) + nonce + body + pad[32:]


def unseal(blob, context):
    name, nonce, body, tag = blob[:16].strip().decode(errors="replace"), blob[16:32], blob[32:64], blob[64:]
    if name not in KEYS or stream(name, nonce, context)[32:] != tag:
        raise Refused("InvalidCiphertextException")
    return name, bytes(a ^ b for a, b in zip(body, stream(name, nonce, context)))


def answer(operation, ask, region):
    context = ask.get("EncryptionContext", {})
    if operation == "GenerateDataKeyWithoutPlaintext":
        name = key_of(ask["KeyId"])
        blob = seal(name, os.urandom(32), context)
        return name, {"CiphertextBlob": base64.b64encode(blob).decode(), "KeyId": f"arn:aws:kms:{region}:{ACCOUNT}:key/{name}"}
    if operation == "Decrypt":
        name, plain = unseal(base64.b64decode(ask["CiphertextBlob"]), context)
        if "KeyId" in ask and key_of(ask["KeyId"]) != name:
            raise Refused("IncorrectKeyException")
        key_of(name)
        return name, {"Plaintext": base64.b64encode(plain).decode(), "KeyId": f"arn:aws:kms:{region}:{ACCOUNT}:key/{name}"}
    raise Refused("UnknownOperationException")


class Kms(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers.get("X-Amz-Target", "").removeprefix("TrentService.")
        signed = re.search(r"Credential=([^/]+)/\d+/([^/]+)/kms/aws4_request", self.headers.get("Authorization", ""))
        who, region = signed.groups() if signed else ("nobody", "nowhere")
        state = open(STATE).read().strip() if os.path.exists(STATE) else ""
        with open(sys.argv[2], "a") as log:
            print(operation, ask.get("KeyId", "-"), who, region, file=log)
        if state == "silent":
            time.sleep(600)
        try:
            if not signed:
                raise Refused("MissingAuthenticationTokenException")
            if state == "throttled":
                raise Refused("ThrottlingException", "Rate exceeded")
            if who == "AKIADENIED":
                raise Refused("AccessDeniedException", f"User {who} is not authorized to perform: kms:{operation}")
            self.say(500 if state == "broken" else 200, answer(operation, ask, region)[1])
        except Refused as refused:
            self.say(400, {"__type": refused.code, "message": refused.message})

    def say(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Kms).serve_forever()
