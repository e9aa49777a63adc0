"""Writes an image with one layer as an OCI archive: https://github.com/opencontainers/image-spec.

The archive also has the file manifest.json of `docker save`, because Docker before 25 reads nothing
else. The same root file system, configuration and date yield the same bytes.
"""

import datetime
import gzip
import hashlib
import io
import json
import tarfile

# What an engine provides when it starts a container, and what the building machine put there.
LEFT_OUT = ("dev/", "proc/", "sys/", "run/", "tmp/", "etc/hostname", "etc/resolv.conf")
MEDIA = "application/vnd.oci.image."


def normal_name(member):
    return member.name.removeprefix("./").strip("/")


def is_kept(name):
    return name not in ("", ".") and not any(
        name.startswith(prefix) if prefix.endswith("/") else name == prefix for prefix in LEFT_OUT)


class Digesting(io.RawIOBase):
    """A stream that hashes and counts what is written through it."""

    def __init__(self, below):
        super().__init__()
        self.below = below
        self.hash = hashlib.sha256()
        self.bytes = 0

    def writable(self):
        return True

    def write(self, data):
        self.hash.update(data)
        self.bytes += len(data)
        return self.below.write(data)


def write_layer(root, target, date):
    """Writes the root file system (a tar) as a compressed layer.

    Keeps the order of the files, because a hard link must follow its target; mmdebstrap sorts them.
    Returns the digest of the uncompressed layer, and digest and size of the compressed one.
    """
    with open(target, "wb") as file:
        packed = Digesting(file)
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=packed, mtime=0) as zipped:
            plain = Digesting(zipped)
            with tarfile.open(root) as old, tarfile.open(fileobj=plain, mode="w|",
                                                         format=tarfile.PAX_FORMAT) as new:
                for member in old:
                    member.name = normal_name(member)
                    if not is_kept(member.name):
                        continue
                    content = old.extractfile(member) if member.isreg() else None
                    if member.islnk():
                        member.linkname = member.linkname.removeprefix("./")
                    member.mtime = min(int(member.mtime), date)
                    member.uname = member.gname = ""
                    member.pax_headers = {key: value for key, value in member.pax_headers.items()
                                          if key.startswith("SCHILY.xattr.")}
                    new.addfile(member, content)
    return plain.hash.hexdigest(), packed.hash.hexdigest(), packed.bytes


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add(archive, name, size, content, date):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, date, 0o644
    archive.addfile(entry, content)


def write_archive(root, config, names, target, date, temporary):
    """Writes the archive. `names` are the image's name and tag; `temporary` is a folder."""
    layer = temporary / "layer.tar.gz"
    diff_id, digest, size = write_layer(root, layer, date)
    created = datetime.datetime.fromtimestamp(date, datetime.timezone.utc)
    blobs = {}

    def blob(media, value):
        data = encoded(value)
        digest_of_data = hashlib.sha256(data).hexdigest()
        blobs[digest_of_data] = data
        return {"mediaType": MEDIA + media, "digest": f"sha256:{digest_of_data}", "size": len(data)}

    settings = blob("config.v1+json", {
        "architecture": "amd64", "os": "linux", "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "config": config, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "created_by": "tools/package image"}]})
    manifest = blob("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": settings,
        "layers": [{"mediaType": MEDIA + "layer.v1.tar+gzip", "digest": f"sha256:{digest}",
                    "size": size}]})
    # podman reads the first annotation, containerd and Docker the second.
    manifest["annotations"] = {"org.opencontainers.image.ref.name": names,
                               "io.containerd.image.name": names}
    small = {f"blobs/sha256/{name}": data for name, data in blobs.items()}
    small["oci-layout"] = encoded({"imageLayoutVersion": "1.0.0"})
    small["index.json"] = encoded({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json",
                                   "manifests": [manifest]})
    config_path = "blobs/sha256/" + settings["digest"].removeprefix("sha256:")
    small["manifest.json"] = encoded([{"Config": config_path, "RepoTags": [names],
                                       "Layers": [f"blobs/sha256/{digest}"]}])
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(small):
            add(archive, name, len(small[name]), io.BytesIO(small[name]), date)
        with open(layer, "rb") as content:
            add(archive, f"blobs/sha256/{digest}", size, content, date)
