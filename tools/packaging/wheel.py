"""The Python wheel: the program, the Python package, liblonghaul.so and the libraries they load.

The folder of the Python package is also a prefix with the folders bin and lib, because the program
finds its parts relative to itself. auditwheel adds the shared libraries that other systems may not
have, renames them so that a process cannot mix them up with others, and sets the RPATH to them.
"""

import base64
import datetime
import hashlib
import pathlib
import re
import shutil
import tempfile
import tomllib
import zipfile

import audit_tools
import debian
import sbom
from project import ROOT, Failure, run, source_date, version

HERE = pathlib.Path(__file__).resolve().parent
LARGEST_BYTES = 60 << 20
PROGRAMS = ("longhaul", "longhaul-tools", "longhaul-kube")  # longhaul starts the others


class Build:
    """The paths of what a build folder holds."""

    def __init__(self, folder):
        self.programs = [folder / "src" / "bin" / name for name in PROGRAMS]
        self.library = folder / "src" / "worker_api" / "liblonghaul.so"
        self.man_page = folder / "longhaul.1"
        for path in (*self.programs, self.library, self.man_page):
            if not path.is_file():
                raise Failure(f"{path} does not exist: build it with ninja -C {folder} product")


def copy(source, target, mode=0o644):
    """Copies a file into the tree of the wheel."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def metadata():
    """The text of the file METADATA, from python/pyproject.toml."""
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    readme = (ROOT / "python" / "README.md").read_text()
    return (f"Metadata-Version: 2.4\nName: longhaul\nVersion: {version()}\n"
            f"Summary: {project['description']}\n"
            f"License-Expression: Apache-2.0\nLicense-File: LICENSE\n"
            f"Requires-Python: {project['requires-python']}\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def write_tree(build, top):
    """Writes the files of the wheel, without the libraries that auditwheel adds."""
    package = top / "longhaul"
    for path in sorted((ROOT / "python" / "longhaul").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            copy(path, package / path.name)
    copy(HERE / "redirect.py", package / "lib/longhaul/python/longhaul/__init__.py")
    for program in build.programs:
        copy(program, package / "bin" / program.name, 0o755)
        run("strip", "--strip-all", package / "bin" / program.name)
    copy(build.library, package / "lib/liblonghaul.so", 0o755)
    run("strip", "--strip-unneeded", package / "lib/liblonghaul.so")
    data = top / f"longhaul-{version()}.data"
    copy(HERE / "start_program.py", data / "scripts/longhaul", 0o755)
    copy(build.man_page, data / "data/share/man/man1/longhaul.1")
    copy(ROOT / "tools/completion.bash", data / "data/share/bash-completion/completions/longhaul")
    facts = top / f"longhaul-{version()}.dist-info"
    copy(ROOT / "LICENSE", facts / "licenses/LICENSE")
    (facts / "METADATA").write_text(metadata())
    (facts / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: longhaul tools/package\n"
                                 "Root-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    (facts / "RECORD").write_text("")


def write_zip(top, target, date, level):
    """Writes the tree as a wheel: sorted names, two modes, one date, so that the bytes repeat."""
    moment = datetime.datetime.fromtimestamp(date, datetime.timezone.utc).timetuple()[:6]
    record = f"longhaul-{version()}.dist-info/RECORD"
    names = sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())
    names.remove(record)
    lines = []
    for name in names:
        content = (top / name).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    (top / record).write_text("".join(lines) + f"{record},,\n")
    with zipfile.ZipFile(target, "w") as file:
        for name in [*names, record]:
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, so that the modes count
            executable = (top / name).stat().st_mode & 0o111
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            file.writestr(entry, (top / name).read_bytes(), compresslevel=level)


def unpack(wheel, top):
    """Unpacks a wheel with its files' modes."""
    with zipfile.ZipFile(wheel) as file:
        for entry in file.infolist():
            path = pathlib.Path(file.extract(entry, top))
            if path.is_file():
                path.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)


def bundled_packages(libraries, originals):
    """The Debian packages of the libraries that auditwheel added.

    It names libz.so.1.2.13 as libz-HASH.so.1.2.13. `originals` are the paths of the candidates.
    """
    by_name = {pathlib.Path(path).resolve().name: path for path in originals}
    paths = []
    for library in libraries:
        name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library.name)
        if name not in by_name:
            raise Failure(f"{library.name} comes from no library that the programs load")
        paths.append(by_name[name])
    return debian.packages_of(paths)


def add_facts(top, build, date):
    """Adds the licences and the bill of materials of what auditwheel added."""
    originals = set()
    for path in (*build.programs, build.library):
        originals |= set(debian.loaded_libraries(path))
    bundled = bundled_packages(sorted((top / "longhaul.libs").iterdir()), originals)
    compiled = [debian.Package(name) for name in debian.COMPILED_IN]
    facts = top / f"longhaul-{version()}.dist-info"
    shutil.rmtree(facts / "sboms", ignore_errors=True)  # auditwheel's, which knows no licences
    debian.copy_licenses(bundled + compiled, facts / "licenses")
    (facts / "sboms").mkdir()
    components = [sbom.component(package, "bundled shared library") for package in bundled]
    components += [sbom.component(package, "compiled in") for package in compiled]
    (facts / "sboms/longhaul.cdx.json").write_text(
        sbom.document("longhaul", version(), date, components))


def build_wheel(build_folder, output):
    """Builds the wheel into the folder `output`; returns its path."""
    build = Build(build_folder)
    date = source_date()
    tools = audit_tools.ensure_audit_tools()
    with tempfile.TemporaryDirectory(prefix="longhaul-wheel-") as temporary:
        folder = pathlib.Path(temporary)
        write_tree(build, folder / "tree")
        raw = folder / f"longhaul-{version()}-py3-none-linux_x86_64.whl"
        write_zip(folder / "tree", raw, date, 0)
        done = audit_tools.audit(tools, "repair", "--plat", "auto", "--only-plat", "-z", "0",
                                 "-w", folder / "repaired", raw, date=date)
        repaired = list((folder / "repaired").glob("*-manylinux_*.whl"))
        if done.returncode != 0 or len(repaired) != 1:
            lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
            raise Failure(f"auditwheel repair failed: {lines[-1]}")
        unpack(repaired[0], folder / "final")
        add_facts(folder / "final", build, date)
        output.mkdir(parents=True, exist_ok=True)
        finished = folder / repaired[0].name
        write_zip(folder / "final", finished, date, 6)
        size = finished.stat().st_size
        if size > LARGEST_BYTES:
            raise Failure(f"the wheel has {size >> 20} MiB, expected at most {LARGEST_BYTES >> 20}")
        # Under a temporary name first, so that no half-written wheel is ever in the folder.
        partial = output / (finished.name + ".partial")
        shutil.copyfile(finished, partial)
        partial.rename(output / finished.name)
        return output / finished.name
