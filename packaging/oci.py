"""Makes an OCI image of one layer, without any daemon: the program, the libraries of this machine that
it is linked to, and the certificates of public authorities. There is no shell in it.

The archive is an OCI layout that `docker load` reads as well.

usage: oci.py PROGRAM VERSION ARCHITECTURE ARCHIVE
"""
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
BLOBS = "blobs/sha256"


def main(program, version, architecture, archive):
    layer = layer_of(program)
    packed = gzip.compress(layer, 9, mtime=0)
    config = to_json({
        "architecture": architecture,
        "os": "linux",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)),
        "config": {
            "Entrypoint": ["/usr/bin/weir"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "weir",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
    })
    image = "application/vnd.oci.image"
    manifest = to_json({
        "schemaVersion": 2,
        "mediaType": f"{image}.manifest.v1+json",
        "config": descriptor(f"{image}.config.v1+json", config),
        "layers": [descriptor(f"{image}.layer.v1.tar+gzip", packed)],
    })
    tagged = descriptor(f"{image}.manifest.v1+json", manifest)
    tagged["annotations"] = {"org.opencontainers.image.ref.name": version}
    tagged["platform"] = {"architecture": architecture, "os": "linux"}
    docker = [{
        "Config": f"{BLOBS}/{sha256(config)}",
        "RepoTags": [f"weir:{version}"],
        "Layers": [f"{BLOBS}/{sha256(packed)}"],
    }]
    with tarfile.open(archive, "w") as out:
        add(out, "oci-layout", to_json({"imageLayoutVersion": "1.0.0"}))
        index = {"schemaVersion": 2, "mediaType": f"{image}.index.v1+json", "manifests": [tagged]}
        add(out, "index.json", to_json(index))
        add(out, "manifest.json", to_json(docker))
        for blob in (config, manifest, packed):
            add(out, f"{BLOBS}/{sha256(blob)}", blob)


def layer_of(program):
    """The layer as a tar, with a directory's own entry before what is in it."""
    files = {"usr/bin/weir": program, CERTIFICATES[1:]: CERTIFICATES}
    for path in libraries(program):
        files[path[1:]] = path
        owner = subprocess.run(["dpkg", "-S", os.path.realpath(path)], capture_output=True, text=True)
        for package in re.findall(r"^([a-z0-9.+-]+)(?::\w+)?:", owner.stdout, re.M):
            notice = f"/usr/share/doc/{package}/copyright"
            files[notice[1:]] = notice
    files["usr/share/doc/weir/LICENSE"] = os.path.join(os.path.dirname(__file__), "../LICENSE")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as out:
        made = set()
        for name in ["tmp/", "run/", "var/log/", "mnt/", "etc/passwd", "etc/nsswitch.conf", *sorted(files)]:
            directories(out, name, made)
            if name == "etc/passwd":
                add(out, name, b"root:x:0:0:root:/root:/usr/sbin/nologin\n")
            elif name == "etc/nsswitch.conf":
                add(out, name, b"hosts: files dns\n")
            elif not name.endswith("/"):
                with open(files[name], "rb") as file:
                    add(out, name, file.read(), 0o755 if ".so" in name or "/bin/" in name else 0o644)
        for helper in ("mount.weir", "mount.fuse.weir", "umount.weir", "umount.fuse.weir"):
            directories(out, "usr/sbin/", made)
            link = entry(f"usr/sbin/{helper}", 0o777)
            link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/weir"
            out.addfile(link)
    return raw.getvalue()


def libraries(program):
    """Where the loader of this machine finds what the program is linked to, and the loader itself."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    if "not found" in told:
        sys.exit(f"oci.py: this machine lacks a library of {program}:\n{told}")
    return sorted(set(re.findall(r"(/\S+\.so\S*)", told)))


def directories(out, name, made):
    parts = name.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        path = "/".join(parts[:depth])
        if path not in made:
            made.add(path)
            directory = entry(path, 0o1777 if path == "tmp" else 0o755)
            directory.type = tarfile.DIRTYPE
            out.addfile(directory)


def entry(name, mode):
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = mode, EPOCH
    return info


def add(out, name, body, mode=0o644):
    info = entry(name, mode)
    info.size = len(body)
    out.addfile(info, io.BytesIO(body))


def descriptor(media_type, blob):
    return {"mediaType": media_type, "digest": f"sha256:{sha256(blob)}", "size": len(blob)}


def sha256(blob):
    return hashlib.sha256(blob).hexdigest()


def to_json(value):
    return json.dumps(value, indent=1).encode()


main(*sys.argv[1:])
