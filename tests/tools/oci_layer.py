#!/usr/bin/env python3
"""Checks an OCI image in a tar, from its index to its layer, and unpacks that: every digest and size is that of
what it names, and what is started is in the layer.

usage: oci_layer.py ARCHIVE DIRECTORY
"""
import gzip
import hashlib
import io
import json
import sys
import tarfile

archive, directory = sys.argv[1:]
with tarfile.open(archive) as tar:
    files = {member.name: tar.extractfile(member).read() for member in tar}


def blob(descriptor):
    body = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(body).hexdigest(), descriptor
    assert descriptor["size"] == len(body), descriptor
    return body


assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
index = json.loads(files["index.json"])
manifest = json.loads(blob(index["manifests"][0]))
config = json.loads(blob(manifest["config"]))
[layer] = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
# What `docker load` goes by says the same.
[docker] = json.loads(files["manifest.json"])
assert docker["Config"].endswith(manifest["config"]["digest"][7:])
assert docker["Layers"][0].endswith(manifest["layers"][0]["digest"][7:])
with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
    names = [member.name for member in tar]
    assert len(names) == len(set(names)), "a path is in the layer twice"
    assert config["config"]["Entrypoint"] == ["/usr/bin/weir"] and "usr/bin/weir" in names
    tar.extractall(directory)
