"""Builds the container image from the Containerfile and the wheel.

With podman, buildah or docker if one of them can pull the base image. Otherwise mmdebstrap makes a
system from Debian packages, the instructions of the Containerfile are carried out in it, and the
result is written as an OCI archive.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import wheel
from image import containerfile, layout
from project import ROOT, SUMMARY, Failure, run, source_date, version

LARGEST_BYTES = 160 << 20
ENGINES = ("podman", "buildah", "docker")
PULL_LIMIT_S = 600
DEBIAN = "bookworm"
MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"
# As in Debian's own slim images. The licences of the packages stay.
LEFT_OUT = ("path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
            "path-include=/usr/share/doc/longhaul/*", "path-exclude=/usr/share/man/*",
            "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def name_and_tag():
    return f"localhost/longhaul:{version()}"


def labels(base):
    """The labels of the image; `base` is the name of what it is built on."""
    found = {"title": "Longhaul", "description": SUMMARY, "version": version(),
             "licenses": "Apache-2.0", "base.name": base}
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True,
                            text=True, check=False)
    if commit.returncode == 0:
        found["revision"] = commit.stdout.strip()
    return {f"org.opencontainers.image.{key}": value for key, value in sorted(found.items())}


def engine_that_pulls(base):
    """The first engine that can pull the base image, and why the others cannot."""
    reasons = []
    for engine in ENGINES:
        if shutil.which(engine) is None:
            continue
        try:
            done = subprocess.run([engine, "pull", base], stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=PULL_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            reasons.append(f"{engine} did not pull {base} in {PULL_LIMIT_S} s")
            continue
        if done.returncode == 0:
            return engine, reasons
        lines = done.stderr.strip().splitlines() or ["no output"]
        reasons.append(f"{engine} cannot pull {base}: {lines[-1]}")
    return None, reasons or ["none of " + ", ".join(ENGINES) + " is installed"]


def build_with(engine, base, context, target, date):
    """Builds with an engine from the folder `context` and writes the archive."""
    words = [engine, "build", "--file", ROOT / "Containerfile", "--build-arg", f"BASE={base}",
             "--tag", name_and_tag()]
    for key, value in labels(base).items():
        words += ["--label", f"{key}={value}"]
    if engine != "docker":
        words += ["--format", "oci", "--timestamp", date]
    run(*words, context)
    if engine == "buildah":
        run(engine, "push", name_and_tag(), f"oci-archive:{target}:{name_and_tag()}")
    elif engine == "podman":
        run(engine, "save", "--format", "oci-archive", "--output", target, name_and_tag())
    else:
        run(engine, "save", "--output", target, name_and_tag())


def root_from_packages(file, context, target, date, mirror, security_mirror):
    """Makes a system from Debian packages and runs the Containerfile's commands in it; a tar."""
    if shutil.which("mmdebstrap") is None:
        raise Failure("mmdebstrap is not installed: apt-get install mmdebstrap")
    words = ["mmdebstrap", "--variant=apt", "--format=tar", "--quiet"]
    words += [f"--dpkgopt={each}" for each in LEFT_OUT]
    for pattern, folder in file.copies:
        paths = sorted(context.glob(pattern))
        if not paths:
            raise Failure(f"Containerfile: COPY {pattern} matches no file")
        words.append(f'--customize-hook=mkdir -p "$1"{shlex.quote(folder)}')
        words += [f"--customize-hook=copy-in {shlex.quote(str(path))} {folder}" for path in paths]
    words += [f'--customize-hook=chroot "$1" /bin/sh -c {shlex.quote(each)}'
              for each in file.script]
    words += [DEBIAN, target, f"deb {mirror} {DEBIAN} main", f"deb {mirror} {DEBIAN}-updates main",
              f"deb {security_mirror} {DEBIAN}-security main"]
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(date), "LC_ALL": "C.UTF-8"})
    if done.returncode != 0:
        # The first error is the cause; mmdebstrap prints others of its own after it.
        errors = re.findall(r"^.*(?:\berror\b|E:).*$", done.stdout, re.MULTILINE)
        raise Failure(f"mmdebstrap failed: {(errors or [f'exit code {done.returncode}'])[0]}")


def build_from_packages(file, context, target, date, mirror, security_mirror, temporary):
    root = temporary / "root.tar"
    root_from_packages(file, context, root, date, mirror, security_mirror)
    config = {**file.config, "Labels": labels(f"Debian {DEBIAN} from {mirror}")}
    config["Env"] = [PATH, *config.get("Env", [])]
    layout.write_archive(root, config, name_and_tag(), target, date, temporary)


def build_image(build, output, base=None, from_packages=False, mirror=MIRROR,
                security_mirror=SECURITY_MIRROR):
    """Builds the image into the folder `output`; returns the path of the archive and its origin."""
    date = source_date()
    given = {"BASE": base} if base else {}
    file = containerfile.parse((ROOT / "Containerfile").read_text(), **given)
    with tempfile.TemporaryDirectory(prefix="longhaul-image-") as name:
        temporary = pathlib.Path(name)
        context = temporary / "context"
        wheel.build_wheel(build, context)
        archive = temporary / f"longhaul-image-{version()}-amd64.tar"
        engine, reasons = (None, []) if from_packages else engine_that_pulls(file.base)
        if engine:
            build_with(engine, file.base, context, archive, date)
            origin = f"{file.base}, by {engine}"
        elif base:
            raise Failure("; ".join(reasons))
        else:
            build_from_packages(file, context, archive, date, mirror, security_mirror, temporary)
            origin = "; ".join(["Debian packages", *reasons])
        size = archive.stat().st_size
        if size > LARGEST_BYTES:
            raise Failure(f"the image has {size >> 20} MiB, expected at most "
                          f"{LARGEST_BYTES >> 20}")
        output.mkdir(parents=True, exist_ok=True)
        # Under a temporary name first, so that no half-written image is ever in the folder.
        partial = output / (archive.name + ".partial")
        shutil.copyfile(archive, partial)
        partial.rename(output / archive.name)
    return output / archive.name, origin
