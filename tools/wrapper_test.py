"""./longhaul and ./test do what they promise on machines that this one is not.

Each test copies the scripts into a folder of its own and runs them with a PATH where everything
that touches the machine (dpkg-query, apt-get, sudo, id, uname, cmake, ninja, ctest) is a stand-in
that writes down how it was called.
"""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = """# comment
build g++          # compiler
build libfoo-dev   # foo
test  python3-foo  # tests
"""
DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\n'
# The program that the stand-in for ninja "builds": shows its arguments on standard output.
PROGRAM = '#!/bin/sh\necho "program: $*"\n'


class Wrapper(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        self.root = self.top / "project"
        (self.root / "tools").mkdir(parents=True)
        for name in ["longhaul", "test", "tools/setup.bash"]:
            shutil.copy(PROJECT / name, self.root / name)
        (self.root / "packages.txt").write_text(PACKAGES)
        (self.top / "os-release").write_text(DEBIAN_12)
        self.calls = self.top / "calls"
        self.bin = self.top / "bin"
        self.bin.mkdir()
        self.installed = ["g++", "libfoo-dev", "python3-foo"]
        self.removed = []  # their configuration is still there
        self.stand_in("apt-get")
        self.stand_in("sudo", "exit 1")
        self.stand_in("id", "echo 0")
        self.stand_in("uname", "echo x86_64")
        self.stand_in("cmake", 'touch "build/$2/build.ninja"')
        self.stand_in("ctest", 'echo "100% tests passed"')
        program = self.top / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.stand_in("ninja", f'echo "[1/2] Building a"; echo "[2/2] Building b"; '
                      f'mkdir -p "$2/src/bin"; cp {program} "$2/src/bin/longhaul"')

    def stand_in(self, name, script="true"):
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.calls}"\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_script(self, *arguments, cwd=None, **environment):
        lines = "".join(f"echo 'ii |{name}'\n" for name in self.installed)
        lines += "".join(f"echo 'rc |{name}'\n" for name in self.removed)
        self.stand_in("dpkg-query", lines + "exit 1")  # as it does when one is missing
        self.calls.write_text("")
        base = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.top),
                "LONGHAUL_OS_RELEASE": str(self.top / "os-release")}
        return subprocess.run(arguments, cwd=cwd or self.root, env={**base, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def called(self, name):
        return [line for line in self.calls.read_text().splitlines() if line.split()[0] == name]

    def test_builds_and_runs_the_program_with_its_arguments(self):
        done = self.run_script("./longhaul", "run", "a b.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "program: run a b.yaml --json\n")
        self.assertEqual(self.called("apt-get"), [])
        self.assertIn("product", self.called("ninja")[0])

    def test_builds_what_the_command_needs(self):
        worker = "longhaul longhaul_worker_shared"
        for words, targets in (
                ("run --nodes 2 -- python3 train.py --config a.yaml", worker),
                ("run --nproc-per-node 2 train.py --config a.yaml", worker),
                ("run -m train", worker), ("run --help", worker),
                ("run a.json", "product"), ("run --resume a.yml --name b", "product"),
                ("plan --help", "longhaul longhaul-tools"),
                ("checkpoint ls runs/a", "longhaul longhaul-tools"),
                ("kube schedule", "longhaul longhaul-kube"),
                ("calibrate", "product"), ("controller", "product"), ("--version", "product")):
            self.run_script("./longhaul", *words.split())
            self.assertTrue(self.called("ninja")[0].endswith(f" {targets}"),
                            f"{words}: {self.called('ninja')}")

    def test_asks_once_for_all_packages_and_never_again(self):
        self.run_script("./longhaul")
        self.assertEqual(len(self.called("dpkg-query")), 1)
        done = self.run_script("./longhaul")
        self.assertEqual(self.called("dpkg-query"), [])
        self.assertEqual(self.called("cmake"), [])
        self.assertEqual(done.stderr, "")
        (self.root / "packages.txt").write_text(PACKAGES + "build libbar-dev\n")
        self.run_script("./longhaul")
        self.assertEqual(len(self.called("dpkg-query")), 1)

    def test_root_installs_exactly_what_is_missing(self):
        self.installed = ["g++"]
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.called("apt-get"), [
            "apt-get update -q", "apt-get install -y -q --no-install-recommends libfoo-dev"])

    def test_a_removed_package_counts_as_missing(self):
        self.installed = ["libfoo-dev"]
        self.removed = ["g++"]
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.called("apt-get")[1].endswith(" g++"))

    def test_the_tests_need_the_packages_of_the_tests_too(self):
        self.installed = ["g++", "libfoo-dev"]
        done = self.run_script("./test", "-R", "io")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.called("apt-get")[1].endswith(" python3-foo"))
        self.assertTrue(self.called("ctest")[0].endswith("--output-on-failure -R io"))
        self.assertEqual(done.stdout, "100% tests passed\n")

    def test_what_other_presets_need_is_built_beside_the_tests(self):
        done = self.run_script("./test", LONGHAUL_TEST_PRESETS="release asan tsan lint")
        self.assertEqual(done.returncode, 0, done.stderr)
        configured = [line.split()[-1] for line in self.called("cmake")]
        self.assertEqual(configured, ["release", "asan", "tsan"])
        self.assertEqual(len(self.called("ninja")), 1)
        suite = (self.root / "build/suite/CTestTestfile.cmake").read_text()
        self.assertEqual(re.findall(r"^add_test\((\S+)", suite, re.MULTILINE),
                         ["build.asan", "build.tsan", "lint"])
        self.assertEqual(re.findall(r'^subdirs\(".*/(\w+)"\)', suite, re.MULTILINE),
                         ["release", "asan", "tsan"])
        self.assertEqual(re.findall(r'DEPENDS "(\S*)"', suite), ["", "build.asan", "build.tsan"])

    def test_without_root_and_sudo_it_names_the_command_and_fails(self):
        self.installed = []
        self.stand_in("id", "echo 1000")
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.called("apt-get"), [])
        self.assertEqual(self.called("ninja"), [])
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends g++ libfoo-dev",
                      done.stderr)
        self.assertEqual(done.stdout, "")

    def test_without_root_it_uses_a_sudo_that_needs_no_password(self):
        self.installed = ["g++"]
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", '[ "$1" = -n ] && exit 0; exec "$@"')
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.called("apt-get")[1].endswith(" libfoo-dev"))

    def test_a_failed_installation_shows_its_end_and_is_tried_again(self):
        self.installed = []
        self.stand_in("apt-get", 'echo "E: no network" >&2; exit 100')
        for _ in range(2):
            done = self.run_script("./longhaul")
            self.assertEqual(done.returncode, 1)
            self.assertIn("E: no network", done.stderr)
            self.assertEqual(self.called("apt-get")[:1], ["apt-get update -q"])

    def test_a_failed_build_shows_the_error_and_the_log(self):
        self.stand_in("ninja", 'echo "[1/2] x"; echo "a.cc:3: error: no such thing"; exit 1')
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.cc:3: error: no such thing", done.stderr)
        self.assertIn("build/release/build.log", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_failed_configuration_is_tried_again(self):
        self.stand_in("cmake", 'echo "CMake Error: no compiler"; exit 1')
        for _ in range(2):
            done = self.run_script("./longhaul")
            self.assertEqual(done.returncode, 1)
            self.assertIn("CMake Error: no compiler", done.stderr)

    def test_works_from_anywhere_and_through_a_link(self):
        link = self.top / "link"
        link.symlink_to(self.root / "longhaul")
        done = self.run_script(str(link), "status", cwd="/")
        self.assertEqual(done.stdout, "program: status\n", done.stderr)

    def test_other_systems_are_told_what_is_needed(self):
        (self.top / "os-release").write_text('ID=fedora\nVERSION_ID="40"\n')
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this system is fedora 40", done.stderr)
        done = self.run_script("./longhaul", LONGHAUL_UNSUPPORTED="1", LONGHAUL_SKIP_PACKAGES="1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_other_machines_are_refused_by_name(self):
        self.stand_in("uname", "echo riscv64")
        done = self.run_script("./longhaul")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this machine is riscv64", done.stderr)

    def test_two_at_once_build_one_after_the_other(self):
        # A stand-in that fails when another one runs at the same time.
        guard = self.top / "building"
        self.stand_in("ninja", f'mkdir {guard} || exit 1; read -t 0.3 <> <(:); rmdir {guard}; '
                      f'mkdir -p "$2/src/bin"; cp {self.top}/program "$2/src/bin/longhaul"')
        self.run_script("./longhaul")
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin",
                       "LONGHAUL_OS_RELEASE": str(self.top / "os-release")}
        both = [subprocess.Popen(["./longhaul"], cwd=self.root, env=environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(2)]
        outputs = [process.communicate(timeout=60) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], outputs)
        self.assertEqual([out for out, _ in outputs], ["program: \n"] * 2)

    def test_the_program_does_not_hold_the_lock(self):
        (self.top / "program").write_text("#!/bin/sh\nls -l /proc/$$/fd\n")
        done = self.run_script("./longhaul")
        self.assertNotIn("build/.lock", done.stdout)
        self.assertIn("/dev/null", done.stdout)


class Beside(unittest.TestCase):
    def test_the_exit_code_is_that_of_the_command(self):
        for code in (0, 3):
            done = subprocess.run([PROJECT / "tools/beside", "sh", "-c", f"exit {code}"])
            self.assertEqual(done.returncode, code)
        self.assertEqual(subprocess.run([PROJECT / "tools/beside"], capture_output=True).returncode,
                         2)

    def test_the_command_has_the_lowest_priority(self):
        done = subprocess.run([PROJECT / "tools/beside", "nice"], capture_output=True, text=True)
        self.assertEqual(done.stdout, "19\n")

    def test_the_command_ends_with_it(self):
        beside = subprocess.Popen([PROJECT / "tools/beside", "sh", "-c", "echo $$; exec sleep 600"],
                                  stdout=subprocess.PIPE, text=True)
        command = int(beside.stdout.readline())
        beside.terminate()
        beside.communicate(timeout=60)  # until nobody has the pipe
        with self.assertRaises(ProcessLookupError):
            os.kill(command, 0)


class Packages(unittest.TestCase):
    def test_every_line_says_when_what_and_why(self):
        seen = set()
        for line in (PROJECT / "packages.txt").read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            words, _, reason = line.partition("#")
            when, package = words.split()
            self.assertIn(when, ("build", "test", "package", "image", "ci"), line)
            self.assertTrue(reason.strip(), line)
            self.assertNotIn(package, seen, "twice")
            seen.add(package)
        self.assertTrue({"g++", "cmake", "ninja-build"} <= seen)


if __name__ == "__main__":
    os.umask(0o022)
    unittest.main()
