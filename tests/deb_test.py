"""The Debian packages of `tools/package deb`: content, dependencies, and the program unpacked.

usage: deb_test.py BUILD_FOLDER

Needs cpack and dpkg-shlibdeps (dpkg-dev, file); skipped without.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=240, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(output):
    return [pathlib.Path(line) for line in run(
        sys.executable, "-B", ROOT / "tools/package", "deb", "--build", sys.build, "--output",
        output).splitlines()]


class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("cpack", "dpkg-shlibdeps", "dpkg-deb", "file"):
            if shutil.which(name) is None:
                raise unittest.SkipTest(f"there is no {name}: install cmake, dpkg-dev and file")
        temporary = tempfile.TemporaryDirectory(prefix="deb-test-")
        cls.addClassCleanup(temporary.cleanup)
        cls.top = pathlib.Path(temporary.name)
        cls.packages = build(cls.top / "dist")
        cls.root = cls.top / "root"
        for path in cls.packages:
            run("dpkg-deb", "-x", path, cls.root)
        cls.version = re.search(r"VERSION (\d+\.\d+\.\d+)",
                                (ROOT / "CMakeLists.txt").read_text()).group(1)

    def field(self, package, name):
        return run("dpkg-deb", "-f", package, name).strip()

    def test_the_packages_are_named_and_depend_on_each_other_and_on_libraries(self):
        names = [self.field(path, "Package") for path in self.packages]
        self.assertEqual(names, ["longhaul-trainer", "longhaul"])
        trainer, program = self.packages
        self.assertEqual(self.field(program, "Version"), self.version)
        self.assertRegex(self.field(program, "Depends"), r"\blibgrpc\+\+1\.51 \(>= ")
        self.assertNotIn("libtorch", self.field(program, "Depends"))
        self.assertRegex(self.field(trainer, "Depends"), r"\blibtorch1\.13\b")
        self.assertIn(f"longhaul (= {self.version})", self.field(trainer, "Depends"))

    def test_the_program_is_where_debian_expects_everything(self):
        doc = self.root / "usr/share/doc"
        for path in ("usr/bin/longhaul", "usr/bin/longhaul-tools", "usr/bin/longhaul-kube",
                     "usr/bin/longhaul-trainer",
                     "usr/lib/liblonghaul.so",
                     "usr/lib/longhaul/python/longhaul/__init__.py", "usr/include/longhaul.h",
                     "usr/share/man/man1/longhaul.1", "usr/share/doc/longhaul/copyright",
                     "usr/share/doc/longhaul-trainer/copyright",
                     "usr/share/bash-completion/completions/longhaul"):
            self.assertTrue((self.root / path).is_file(), path)
        self.assertFalse(list(self.root.rglob("__pycache__")))
        bill = json.loads((doc / "longhaul/longhaul.cdx.json").read_text())
        self.assertIn("libgrpc++1.51", [each["name"] for each in bill["components"]])
        trainer = json.loads((doc / "longhaul-trainer/longhaul-trainer.cdx.json").read_text())
        self.assertIn("libtorch1.13", [each["name"] for each in trainer["components"]])

    def test_owners_modes_and_symbols_are_those_of_a_release(self):
        for path in self.packages:
            for line in run("dpkg-deb", "-c", path).splitlines():
                self.assertRegex(line, r"^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x) root/root ")
        for name in ("longhaul", "longhaul-trainer"):
            self.assertFalse(".symtab" in run("readelf", "-SW", self.root / "usr/bin" / name))

    def test_no_file_contains_the_folder_that_it_was_built_in(self):
        for path in self.root.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                for folder in (ROOT, pathlib.Path(sys.build)):
                    self.assertFalse(f"{folder}/".encode() in content, f"{path} has {folder}")

    def test_the_unpacked_program_runs(self):
        text = run(self.root / "usr/bin/longhaul", "--version", env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(text, f"longhaul {self.version}\n")

    def test_the_manual_page_has_every_command(self):
        text = (self.root / "usr/share/man/man1/longhaul.1").read_text()
        for name in ("RUN", "JOBS CHANGE", "NODES TRUST\\-LINKS", "WHAT\\-IF", "CHECKPOINT CONVERT"):
            self.assertEqual(text.count(f".SH LONGHAUL {name}\n"), 1, name)
        self.assertIn("Keep an unmodified".lower(), text.lower())

    def test_a_second_build_yields_the_same_bytes(self):
        again = build(self.top / "again")
        self.assertTrue([path.read_bytes() for path in again] ==
                        [path.read_bytes() for path in self.packages])


if __name__ == "__main__":
    sys.build = os.path.abspath(sys.argv.pop(1))
    unittest.main()
