#!/usr/bin/python3
"""Another S3 client: puts, changes, deletes and reads objects behind Weir's back.

    objects.py ENDPOINT BUCKET COMMAND ARGS... [-- COMMAND ARGS...]...

    put KEY [NAME=VALUE...] <BODY      one object, with these x-amz-meta-*
    stamp KEY VERSION BYTES            one object whose every line tells its key and version
    fill PREFIX COUNT BYTES            so many of these, version 1, in directories of 100
    upload DIRECTORY PREFIX            all files below a directory
    odd PREFIX                         keys that cannot show; prints how many the server took
    delete KEY...
    cat KEY                            the body
    head KEY...                        key, size, ETag and metadata, as JSON, one a line
    sums PREFIX                        `sha256  key` of each object below a prefix, but for keys
                                       that no line can hold and markers of directories
    churn PREFIX COUNT SECONDS SEED    stamps and deletes at random; prints `key version`, 0 for none

    check FILE KEY                     a stamped file must be of one version only; prints it
                                       (ENDPOINT and BUCKET are not used)
"""
# needs: /usr/lib/python3/dist-packages/boto3
import hashlib
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def body(key, version, size):
    line = f"{key} v{version:06}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def check(path, key):
    with open(path, "rb") as file:
        have = file.read()
    return check_bytes(have, key)


def check_bytes(have, key):
    line = have[: have.find(b"\n") + 1]
    version = line[-7:-1]
    want = body(key, int(version), len(have)) if version.isdigit() else None
    if have != want:
        sys.exit(f"{key}: not one version of it: {have[:80]!r} … {have[-80:]!r}")
    return int(version)


class Bucket:
    def __init__(self, endpoint, bucket):
        import boto3
        import botocore.config

        config = botocore.config.Config(retries={"max_attempts": 10})
        self.s3 = boto3.client("s3", endpoint_url=endpoint, config=config)
        self.bucket = bucket

    def put(self, key, data, **metadata):
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, Metadata=metadata)

    def delete(self, key):
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def get(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def keys(self, prefix):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def each(self, work, items):
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(work, items))


def name(prefix, n):
    return f"{prefix}d{n // 100:03}/f{n:05}"


def odd(bucket, prefix):
    """What a file system below the server cannot hold, the server refuses."""
    import botocore.exceptions

    taken = 0
    for key in ("a\nb", "tab\there", "a//b", "./c", "../d"):
        try:
            bucket.put(prefix + key, b"odd")
            taken += prefix + key in bucket.keys(prefix)
        except botocore.exceptions.ClientError:
            pass
    return taken


def churn(bucket, prefix, count, seconds, seed):
    rng, versions, end = random.Random(seed), {}, time.monotonic() + seconds
    while time.monotonic() < end:
        key = name(prefix, rng.randrange(count))
        last = versions.get(key, (1, 1))[1]
        if rng.random() < 0.2:
            bucket.delete(key)
            versions[key] = (0, last)
        else:
            bucket.put(key, body(key, last + 1, rng.randrange(100, 200_000)))
            versions[key] = (last + 1, last + 1)
    for key, (version, _) in sorted(versions.items()):
        print(key, version)


def main():
    endpoint, bucket, *words = sys.argv[1:]
    if words[0] == "check":
        print(check(*words[1:]))
        return
    bucket = Bucket(endpoint, bucket)
    for asked in "\0".join(words).split("\0--\0"):
        run(bucket, *asked.split("\0"))


def run(bucket, command, *args):
    match command:
        case "put":
            bucket.put(args[0], sys.stdin.buffer.read(), **dict(a.split("=", 1) for a in args[1:]))
        case "stamp":
            bucket.put(args[0], body(args[0], int(args[1]), int(args[2])))
        case "fill":
            names = [name(args[0], n) for n in range(int(args[1]))]
            bucket.each(lambda key: bucket.put(key, body(key, 1, int(args[2]))), names)
        case "upload":
            top, prefix = args
            paths = [os.path.join(at, f) for at, _, files in os.walk(top) for f in files]
            put = lambda path: bucket.s3.upload_file(
                path, bucket.bucket, prefix + os.path.relpath(path, top)
            )
            bucket.each(put, paths)
        case "odd":
            print(odd(bucket, args[0]))
        case "delete":
            bucket.each(bucket.delete, args)
        case "cat":
            sys.stdout.buffer.write(bucket.get(args[0]))
        case "head":
            for key in args:
                found = bucket.s3.head_object(Bucket=bucket.bucket, Key=key)
                facts = {"key": key, "size": found["ContentLength"], "etag": found["ETag"]}
                print(json.dumps(facts | {"metadata": found["Metadata"]}))
        case "sums":
            keys = [k for k in bucket.keys(args[0]) if k.isprintable() and not k.endswith("/")]
            of = lambda key: hashlib.sha256(bucket.get(key)).hexdigest()
            for key, found in zip(keys, bucket.each(of, keys)):
                print(f"{found}  {key[len(args[0]):]}")
        case "churn":
            churn(bucket, args[0], int(args[1]), float(args[2]), args[3])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
