"""An installed tree works by itself: the program, the C library, and how others find it.

usage: install_test.py BUILD_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The trainer, where it is built, and what tools/package writes.
OPTIONAL = {"bin/longhaul-trainer", "share/doc/longhaul-trainer/copyright",
            "share/doc/longhaul-trainer/longhaul-trainer.cdx.json",
            "share/doc/longhaul/longhaul.cdx.json"}
PROGRAM = r"""
#include <longhaul.h>
#include <stddef.h>

int main(void) {
  longhaul_error error = {0, ""};
  if (longhaul_open(&error) != NULL) return 1;
  return error.code == LONGHAUL_NOT_FOUND ? 0 : 2; /* not started by Longhaul */
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(longhaul 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE longhaul::longhaul)
"""


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        first = cls.folder / "first"
        run("cmake", "--install", sys.build, "--prefix", str(first))
        # Moved, so that nothing may depend on the place that it was installed to.
        cls.prefix = cls.folder / "moved"
        shutil.move(first, cls.prefix)
        (cls.folder / "consumer.c").write_text(PROGRAM)
        (cls.folder / "CMakeLists.txt").write_text(PROJECT)

    def environment(self, **more):
        """Without what would lead back to the build, or to an agent."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("LONGHAUL")}
        return kept | more

    def check_consumer(self, program):
        run(program, env=self.environment(LD_LIBRARY_PATH=str(self.prefix / "lib")))

    def test_the_program_runs_and_prints_its_version(self):
        text = run(self.prefix / "bin/longhaul", "--version", env=self.environment())
        self.assertRegex(text, r"^longhaul \d+\.\d+\.\d+\n$")

    def test_the_trainer_lies_beside_the_program_and_the_library_where_the_agent_looks(self):
        self.assertTrue((self.prefix / "lib/liblonghaul.so").is_file())
        if (pathlib.Path(sys.build) / "src/bin/longhaul-trainer").exists():
            self.assertTrue(os.access(self.prefix / "bin/longhaul-trainer", os.X_OK))

    def test_nothing_but_programs_library_header_and_package_files_is_installed(self):
        found = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*")
                 if path.is_file()} - OPTIONAL
        package = {f"lib/longhaul/python/longhaul/{path.name}"
                   for path in (ROOT / "python/longhaul").iterdir() if path.suffix != ".pyc"}
        self.assertEqual(found, (package - {"lib/longhaul/python/longhaul/__pycache__"}) | {
            "bin/longhaul", "bin/longhaul-tools", "bin/longhaul-kube", "include/longhaul.h", "lib/liblonghaul.so",
            "share/bash-completion/completions/longhaul", "share/man/man1/longhaul.1",
            "lib/cmake/longhaul/longhaul-config.cmake",
            "lib/cmake/longhaul/longhaul-config-release.cmake",
            "lib/cmake/longhaul/longhaul-config-version.cmake",
            "lib/pkgconfig/longhaul.pc", "share/doc/longhaul/copyright"})

    def test_a_python_finds_the_package_and_the_package_finds_the_library(self):
        code = ("import longhaul, longhaul._library as l; l.load(l.find_library()); "
                "print(l.find_library())")
        text = run("/usr/bin/python3", "-B", "-c", code, env=self.environment(
            PYTHONPATH=str(self.prefix / "lib/longhaul/python")))
        self.assertEqual(text, f"{self.prefix.resolve()}/lib/liblonghaul.so\n")

    def test_a_c_program_finds_the_library_by_pkg_config(self):
        flags = run("pkg-config", "--cflags", "--libs", "longhaul", env=self.environment(
            PKG_CONFIG_PATH=str(self.prefix / "lib/pkgconfig"))).split()
        program = str(self.folder / "by-pkg-config")
        run("cc", "-std=c99", "-Wall", "-Werror", str(self.folder / "consumer.c"), "-o", program,
            *flags)
        self.check_consumer(program)

    def test_a_c_program_finds_the_library_by_cmake(self):
        build = str(self.folder / "build")
        run("cmake", "-G", "Ninja", "-S", str(self.folder), "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.check_consumer(f"{build}/consumer")


if __name__ == "__main__":
    sys.build = sys.argv.pop(1)
    unittest.main()
