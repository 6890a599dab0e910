"""Writes the bill of materials of the program, in CycloneDX: the crates that are linked into it, each
with its licence and the checksum of Cargo.lock.

usage: sbom.py VERSION
"""
import json
import os
import subprocess
import sys
import tomllib
import uuid

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def main(version):
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as file:
        locked = tomllib.load(file)["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}
    # What is linked, without what only building takes: procedural macros count as linked.
    told = subprocess.run(
        ["cargo", "tree", "--locked", "--package", "weir", "--edges", "normal", "--prefix", "none",
         "--format", "{p}|{l}"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    crates = sorted({crate(line) for line in told.splitlines() if line})
    components = [component(*one, sums.get(one[:2])) for one in crates if one[0] != "weir"]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component("weir", version, "Apache-2.0", None, "application")},
        "components": components,
    }
    # The same content has the same number.
    body["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(body)).urn
    print(json.dumps(body, indent=1))


def crate(line):
    """`name v1.2.3 (where from)|licence`"""
    what, licence = line.removesuffix(" (*)").split("|")
    name, version = what.split()[:2]
    return name, version.removeprefix("v"), licence.removesuffix(" (*)")


def component(name, version, licence, checksum, kind="library"):
    made = {"type": kind, "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if licence:
        # Before SPDX said OR, crates did with a slash.
        made["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    if checksum:
        made["purl"] = f"pkg:cargo/{name}@{version}"
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


main(*sys.argv[1:])
