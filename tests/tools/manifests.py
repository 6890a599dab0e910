#!/usr/bin/python3
"""Holds manifests of Kubernetes against one another and against their page, as far as that goes without a cluster:
they are YAML, what they name is there, and so is what the page's commands name.

usage: manifests.py DIRECTORY-OF-DEPLOY PAGE"""

import pathlib
import re
import sys

import yaml

DEPLOY, PAGE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
wrong = []


def check(holds, text):
    if not holds:
        wrong.append(text)


def found(node, key):
    """All values of a key, however deep."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from found(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from found(value, key)


manifests = []
for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
    for manifest in filter(None, yaml.safe_load_all(path.read_text())):
        manifests.append((path, manifest))
        check("apiVersion" in manifest and "kind" in manifest, f"{path}: a document without apiVersion or kind")
        if path.name == "kustomization.yaml":
            for resource in manifest["resources"]:
                check((path.parent / resource).exists(), f"{path}: there is no {resource}")
        else:
            check(manifest.get("metadata", {}).get("name"), f"{path}: {manifest.get('kind')} without a name")

named = {(m["kind"], m["metadata"]["name"]) for _, m in manifests if "metadata" in m}
USES = {"serviceAccountName": "ServiceAccount", "claimName": "PersistentVolumeClaim", "storageClassName": "StorageClass"}
for path, manifest in manifests:
    for key, kind in USES.items():
        for name in filter(None, found(manifest, key)):
            check((kind, name) in named, f"{path}: no {kind} is called {name}")
check(len(manifests) > 10, "no manifests were found")

page = PAGE.read_text()
for name in set(re.findall(r"\bdeploy/([\w./-]*\w)", page)):
    check((DEPLOY / name).exists(), f"{PAGE}: there is no deploy/{name}")
values = yaml.safe_load((DEPLOY / "helm/weir-csi/values.yaml").read_text())
for key in re.findall(r"--set ([\w.]+)=", page):
    at = values
    for part in key.split("."):
        check(part in at, f"{PAGE}: the chart has no value {key}")
        at = at.get(part, {})
for label in set(re.findall(r"\b(csi\.weir/\w+)=", page)):
    check(any(label in str(manifest) for _, manifest in manifests), f"{PAGE}: no manifest knows the label {label}")
for namespace in set(re.findall(r"(?:-n|--namespace|create namespace) (\S+)", page)):
    spaces = set(found([m for _, m in manifests], "namespace"))
    check(namespace in spaces, f"{PAGE}: no manifest is in the namespace {namespace}: {spaces}")
print("\n".join(wrong) or f"{len(manifests)} manifests")
sys.exit(bool(wrong))
