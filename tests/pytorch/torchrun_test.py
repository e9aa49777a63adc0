"""The command line and the contract of torchrun under `longhaul run`, compared with a real torchrun.

usage: torchrun_test.py LONGHAUL VERSION

VERSION is 1.13 (the PyTorch of /usr/bin/python3), or a version that tools/pytorch_environment makes.
Skipped without that environment. docs/torchrun.md says what is compared.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from ddp_test import Run  # noqa: E402

LIMIT_S = 120
# A value for each option that takes one; --print-completion and others take one of a list.
VALUES = {"nnodes": "2", "nproc-per-node": "2", "rdzv-backend": "c10d", "rdzv-id": "x",
          "rdzv-endpoint": "localhost:0", "rdzv-conf": "timeout=60", "max-restarts": "1",
          "monitor-interval": "1", "start-method": "spawn", "event-log-handler": "kafka",
          "role": "x", "log-dir": "x", "redirects": "3", "tee": "3", "local-ranks-filter": "0",
          "log-line-prefix-template": "x", "duplicate-stdout-filters": "x",
          "duplicate-stderr-filters": "x", "node-rank": "1", "master-addr": "localhost",
          "master-port": "29501", "local-addr": "localhost", "logs-specs": "x",
          "numa-binding": "node", "signals-to-handle": "SIGUSR1", "shutdown-timeout": "60",
          "print-completion": "bash"}
ENVIRONMENT = """
import json, os, sys
place = os.path.join(os.environ["PLACE"], os.environ["RANK"])
with open(place + ".new", "w") as file:
    json.dump({"environment": dict(os.environ), "argv": sys.argv}, file)
os.replace(place + ".new", place)
"""
FAILING = """
import os, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "1":
        raise ValueError("the data of rank 1 is bad")
    time.sleep(60)

main()
"""
# What differs, by docs/torchrun.md: of these variables only the presence is compared.
OTHER_VALUES = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE",
                "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE", "PLACE"}
ONLY_TORCHRUN = {"TORCHELASTIC_SIGNALS_TO_HANDLE"}
ONLY_LONGHAUL = {"LONGHAUL_AGENT_SOCKET", "LONGHAUL_ATTEMPT", "LONGHAUL_LIBRARY", "NODE_RANK",
                 "NODE_NUM", "PYTHONPATH", "LONGHAUL_TEST_MARK"}


def find_python():
    if sys.torch == "1.13":
        found = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed.elastic"],
                               capture_output=True)
        if found.returncode != 0:
            raise unittest.SkipTest("/usr/bin/python3 HAS NO PYTORCH: install python3-torch")
        return "/usr/bin/python3"
    found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                            "--if-made"], capture_output=True, text=True)
    if found.returncode != 0:
        raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


def documented():
    """What docs/torchrun.md says of each option: its name and the text of the second column."""
    text = (ROOT / "docs/torchrun.md").read_text()
    return dict(re.findall(r"^\| `--([a-z-]+)[^|]*\| (same|accepted|differs|refused)", text, re.M))


class Torchrun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = find_python()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="torchrun-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def torchrun(self, *words, **environment):
        more = ["-r", "1", "-t", "1"] if sys.torch == "1.13" else []
        return subprocess.run(
            [self.python, "-m", "torch.distributed.run", *more, *words], cwd=self.folder, text=True,
            env={**os.environ, "PYTHON_EXEC": self.python, "PYTHONWARNINGS": "ignore",
                 **environment}, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=LIMIT_S)

    def longhaul(self, *words, code=0, **environment):
        run = Run(sys.longhaul, str(self.folder), words, **{
            "PYTHON_EXEC": self.python, "PYTHONWARNINGS": "ignore", **environment})
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        self.assertEqual(run.end(), code, run.text())
        return run.text()

    def options_of_torchrun(self):
        """The long names, and whether each takes a value, from torchrun's own help."""
        text = self.torchrun("--help").stdout
        options = {}
        for line in re.findall(r"^  (?:-\w[^-]*)?(--.*)$", text, re.M):
            for name, value in re.findall(r"--([a-z][a-z_-]+)( [A-Z{][\w{},-]*)?", line):
                options.setdefault(name.replace("_", "-"), bool(value))
        options.pop("help", None)
        return options

    def test_every_option_is_documented_and_does_what_the_document_says(self):
        options, says = self.options_of_torchrun(), documented()
        self.assertGreater(len(options), 17, options)
        for name, takes_value in options.items():
            self.assertIn(name, says, "add it to docs/torchrun.md")
            for spelling in {name, name.replace("-", "_")}:
                words = [f"--{spelling}", *([VALUES[name]] if takes_value else [])]
                done = subprocess.run([sys.longhaul, "run", *words, "--no-such-flag", "t.py"],
                                      text=True, capture_output=True, cwd=self.folder)
                self.assertEqual(done.returncode, 2)
                refused = f"longhaul: --{name}" in done.stderr
                self.assertEqual(refused, says[name] == "refused" or words[-1] in (
                    "kafka", "SIGUSR1"), f"{words}: {done.stderr}")
                if not refused:
                    self.assertIn("unknown flag --no-such-flag", done.stderr)

    def facts(self, folder):
        found = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
        self.assertEqual(sorted(found), ["0", "1"])
        return found

    def compare_environments(self, *flags, **environment):
        (self.folder / "script.py").write_text(ENVIRONMENT)
        for place in ("torchrun", "longhaul"):
            (self.folder / place).mkdir()
        words = ("script.py", "--a", "x${local_rank}", "--nnodes", "9")
        if "OMP_NUM_THREADS" not in environment:
            self.hide_variable("OMP_NUM_THREADS")
        done = self.torchrun(*flags, *words, PLACE=str(self.folder / "torchrun"), **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.longhaul("--run-dir", "run", *flags, *words, PLACE=str(self.folder / "longhaul"),
                      **environment)
        ours, theirs = self.facts(self.folder / "longhaul"), self.facts(self.folder / "torchrun")
        for rank in ("0", "1"):
            self.assertEqual(ours[rank]["argv"], theirs[rank]["argv"])
            got, want = ours[rank]["environment"], theirs[rank]["environment"]
            self.assertEqual(got["TORCHELASTIC_USE_AGENT_STORE"], "True")
            for name in sorted((got.keys() | want.keys()) - ONLY_LONGHAUL - ONLY_TORCHRUN):
                self.assertTrue(name in got, f"torchrun alone sets {name}")
                self.assertTrue(name in want, f"Longhaul alone sets {name}")
                if name not in OTHER_VALUES:
                    self.assertEqual(got[name], want[name], f"{name} of rank {rank}")
        return ours

    def hide_variable(self, name):
        """Removes a variable from the environment of this test and its children."""
        kept = os.environ.pop(name, None)
        if kept is not None:
            self.addCleanup(os.environ.__setitem__, name, kept)

    def test_workers_have_the_same_environment_and_arguments(self):
        ours = self.compare_environments("--nproc_per_node", "2", "--rdzv_id", "r7", "--role", "x",
                                         "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0")
        self.assertEqual(ours["1"]["argv"], ["script.py", "--a", "x1", "--nnodes", "9"])
        self.assertEqual(ours["1"]["environment"]["OMP_NUM_THREADS"], "1")

    def test_options_from_the_environment_are_the_same(self):
        self.compare_environments(PET_NPROC_PER_NODE="2", PET_RDZV_ID="r8", PET_MAX_RESTARTS="2",
                                  PET_RDZV_BACKEND="c10d", PET_RDZV_ENDPOINT="localhost:0",
                                  OMP_NUM_THREADS="2")

    def test_the_error_file_is_the_same_and_its_exception_is_reported(self):
        (self.folder / "failing.py").write_text(FAILING)
        flags = ["--nproc_per_node=2", "--max_restarts=0", "--rdzv_backend=c10d",
                 "--rdzv_endpoint=localhost:0"]  # another test may use the default port
        done = self.torchrun(*flags, "--log_dir", "logs", "failing.py")
        self.assertEqual(done.returncode, 1, done.stderr)
        text = self.longhaul("--run-dir", "run", *flags, "failing.py", code=1)
        self.assertRegex(text, r"error: failed: .*ValueError: the data of rank 1 is bad\n")
        [theirs] = glob.glob(f"{self.folder}/logs/*/attempt_0/1/error.json")
        [ours] = glob.glob(f"{self.folder}/run/logs/attempt-1/*rank-1*error*")
        facts = [json.loads(pathlib.Path(path).read_text())["message"] for path in (theirs, ours)]
        self.assertEqual(facts[0]["message"], facts[1]["message"])
        self.assertEqual(facts[0]["extraInfo"].keys(), facts[1]["extraInfo"].keys())
        self.assertEqual(*(each["extraInfo"]["py_callstack"] for each in facts))

    def test_the_store_serves_every_operation_of_its_client(self):
        script = ROOT / "src/runtime/testdata/store_clients.py"
        text = self.longhaul("--nproc-per-node=2", "--max-restarts=0", str(script),
                             GLOO_SOCKET_IFNAME="lo")
        self.assertEqual(text.count("every operation passed: "), 2, text)
        if sys.torch == "2.15":
            self.assertIn("list_keys, barrier", text)

    def test_the_output_of_some_ranks_is_shown_with_a_prefix_of_ones_own(self):
        (self.folder / "hello.py").write_text("print('hello')")
        text = self.longhaul("--nproc-per-node=2", "--local-ranks-filter=1", "--role", "me",
                             "--log-line-prefix-template", "<${role_name} ${rank}> ", "hello.py")
        self.assertIn("\n<me 1> hello\n", text)
        self.assertEqual(text.count("hello\n"), 1 + text.count("/hello\n"), text)


if __name__ == "__main__":
    sys.longhaul, sys.torch = os.path.abspath(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1], verbosity=2)
