"""What Debian knows of a library: its package, version and licences."""

import os
import pathlib
import re
import shutil
import subprocess

from project import Failure, run

DOCUMENTS = pathlib.Path("/usr/share/doc")
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")
# What the programs contain of packages that are headers or archives only.
COMPILED_IN = ("libcli11-dev", "libfmt-dev", "libspdlog-dev", "libstdc++-12-dev",
               "libtomlplusplus-dev", "liburing-dev", "nlohmann-json3-dev")


class Package:
    """A Debian package of this machine."""

    def __init__(self, name, files=()):
        self.name = name
        self.files = list(files)
        self.version = run("dpkg-query", "-W", "-f", "${Version}", name)

    def copyright_file(self):
        """The file with the licences; raises Failure if the package has none."""
        path = DOCUMENTS / self.name / "copyright"
        if not path.is_file():
            raise Failure(f"{path} does not exist: the licences of {self.name} are unknown")
        return path

    def licenses(self):
        """The names of the licences in the machine-readable copyright file, sorted.

        A copyright file of the older, free form yields none: its text alone counts.
        """
        text = self.copyright_file().read_text(errors="replace")
        if not re.match(r"Format(-Specification)?:", text.lstrip()):
            return []
        return sorted({" ".join(name.split())
                       for name in re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)})


def packages_of(paths):
    """The packages that installed these files, sorted by name, each with its files."""
    # With merged /usr a package may have registered a file as /lib/....
    forms = {}
    for path in map(os.path.realpath, paths):
        forms.update({path: path, path.removeprefix("/usr"): path})
    # The exit code is 1 because one form of each path is unknown.
    found = subprocess.run(["dpkg-query", "-S", *sorted(forms)], capture_output=True, text=True)
    owners = {}
    for line in found.stdout.splitlines():
        package, _, path = line.partition(": ")
        if path in forms:
            owners[forms[path]] = package.split(":")[0]
    files = {}
    for path in forms.values():
        if path not in owners:
            raise Failure(f"{path} belongs to no Debian package, so its version and licence are "
                          "unknown")
        files.setdefault(owners[path], set()).add(os.path.basename(path))
    return [Package(name, sorted(files[name])) for name in sorted(files)]


def loaded_libraries(program):
    """The paths of the shared libraries that the program or library loads."""
    found = re.findall(r"=> (/\S+) \(0x", run("ldd", program))
    return sorted(set(found))


def copy_licenses(packages, folder):
    """Copies the packages' copyright files, and the common licences that they refer to."""
    common = set()
    for package in packages:
        text = package.copyright_file().read_bytes()
        target = folder / package.name / "copyright"
        target.parent.mkdir(parents=True)
        target.write_bytes(text)
        common |= {name.decode().rstrip(".") for name in
                   re.findall(rb"/usr/share/common-licenses/([\w.+-]+)", text)}
    for name in sorted(common):
        if (COMMON_LICENSES / name).is_file():
            target = folder / "common-licenses" / name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(COMMON_LICENSES / name, target)
