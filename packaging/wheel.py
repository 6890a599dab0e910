"""Makes a Python wheel that holds the program, for `pip install` without root.

usage: wheel.py PROGRAM VERSION PLATFORM DIRECTORY
"""
import base64
import hashlib
import os
import sys
import time
import zipfile

# `weir` itself is another project's name on PyPI.
NAME = "weir_fs"


def main(program, version, platform, directory):
    info = f"{NAME}-{version}.dist-info"
    tag = f"py3-none-{platform}"
    metadata = f"""Metadata-Version: 2.1
Name: {NAME.replace('_', '-')}
Version: {version}
Summary: A shared POSIX file system over object storage: the program weir
License: Apache-2.0
"""
    wheel = f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: {tag}\n"
    here = os.path.dirname(os.path.abspath(__file__))
    with open(program, "rb") as file, open(os.path.join(here, "../LICENSE"), "rb") as licence:
        files = {
            f"{NAME}-{version}.data/scripts/weir": file.read(),
            f"{info}/METADATA": metadata.encode(),
            f"{info}/WHEEL": wheel.encode(),
            f"{info}/licenses/LICENSE": licence.read(),
        }
    record = "".join(f"{name},sha256={digest(body)},{len(body)}\n" for name, body in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    path = os.path.join(directory, f"{NAME}-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel_file:
        for name, body in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if "/scripts/" in name else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            wheel_file.writestr(entry, body)


def digest(body):
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()


main(*sys.argv[1:])
