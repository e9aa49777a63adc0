"""Scripts written for torchrun under `longhaul run`: unmodified, kept alive, kept apart.

usage: ddp_test.py LONGHAUL

The training script needs the PyTorch of /usr/bin/python3; its tests are skipped without.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

PYTHON = "/usr/bin/python3"
SCRIPT = os.path.abspath("examples/ddp.py")
HAS_TORCH = os.path.exists(PYTHON) and subprocess.run(
    [PYTHON, "-c", "import importlib.util as u; u.find_spec('torch') or exit(1)"]).returncode == 0
LIMIT_S = 60

# No PyTorch: its first life fails, its second one tells what it was given.
CONTRACT = """
import os, sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise ValueError("not yet")
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "TORCHELASTIC_RESTART_COUNT",
         "TORCHELASTIC_RUN_ID", "ROLE_NAME"]
print("contract", *(os.environ[name] for name in names), *sys.argv[1:], flush=True)
"""
FAILING = "import os\nif os.environ['RANK'] == '1': raise ValueError('the data is bad')\n" \
          "import signal\nsignal.pause()\n"


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


class Run:
    """`longhaul run` as a child whose output is read while it goes."""

    def __init__(self, longhaul, folder, words, limit_s=LIMIT_S, **environment):
        self.mark = uuid.uuid4().hex
        self.lines = []
        self.child = subprocess.Popen(
            [longhaul, "run", *words], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **environment, "LONGHAUL_TEST_MARK": self.mark})
        self.watchdog = threading.Timer(limit_s, self.child.kill)
        self.watchdog.start()

    def until(self, pattern):
        """Reads on to the line that matches."""
        for line in self.child.stdout:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"no {pattern} in\n{self.text()}")

    def text(self):
        return "".join(self.lines)

    def end(self):
        """The exit code; asserts that no process is left of the run."""
        self.lines += self.child.stdout.readlines()
        code = self.child.wait()
        self.watchdog.cancel()
        self.child.stdout.close()
        left = self.processes()
        if left:
            raise AssertionError(f"left running: {left}\n{self.text()}")
        return code

    def processes(self):
        """The environments, by process, of what belongs to the run."""
        found = {}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            environment = environment_of(pid)
            if environment.get("LONGHAUL_TEST_MARK") == self.mark and pid != self.child.pid:
                found[pid] = environment
        return found

    def kill_worker(self, rank):
        for pid, environment in self.processes().items():
            if environment.get("RANK") == str(rank):
                return os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"no worker {rank}\n{self.text()}")

    def kill_agent(self, node):
        for pid in self.processes():
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            if "agent" in words[:2] and node in words:
                return os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"no agent {node}\n{self.text()}")


class RunTest(unittest.TestCase):
    """Runs in a folder of their own, with no process left of them afterwards."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ddp-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *words, **environment):
        run = Run(sys.longhaul, self.folder, words, **environment)
        self.addCleanup(run.watchdog.cancel)
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        return run

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    def report(self, name):
        with open(f"{self.folder}/runs/{name}/report.json") as file:
            return json.load(file)


class Ddp(RunTest):
    @unittest.skipUnless(HAS_TORCH, f"{PYTHON} HAS NO PYTORCH: install python3-torch")
    def test_training_survives_a_killed_worker_and_a_killed_node(self):
        plain = self.start("--name", "plain", "--nodes", "2", "--procs", "2", "--", PYTHON, SCRIPT,
                           "--steps", "60", "--checkpoint", "plain.pt")
        weights = plain.until(r"^\[rank 0\] done after step 60, weights (\w+)")[1]
        self.assertEqual(plain.end(), 0, plain.text())
        self.assertIn("[rank 0] 4 ranks, restart 0, first step 1", plain.text())

        # torchrun's own flags; its interpreter is PYTHON_EXEC.
        faulty = self.start("--name", "faulty", "--nnodes", "2", "--nproc-per-node", "2", SCRIPT,
                            "--steps", "60", "--step-time", "0.02", "--checkpoint", "faulty.pt",
                            PYTHON_EXEC=PYTHON)
        faulty.until(r"^\[rank 0\] step 15 ")
        faulty.kill_worker(1)
        first = int(faulty.until(r"^\[rank 0\] 4 ranks, restart 1, first step (\d+)")[1])
        self.assertGreater(first, 10)
        faulty.until(r"^\[rank 0\] step 35 ")
        faulty.kill_agent("node-2")
        first = int(faulty.until(r"^\[rank 0\] 4 ranks, restart 2, first step (\d+)")[1])
        self.assertGreater(first, 30)
        faulty.until(rf"^\[rank 0\] done after step 60, weights {weights}")
        self.assertEqual(faulty.end(), 0, faulty.text())

        report = self.report("faulty")
        self.assertEqual(report["state"], "succeeded")
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["process", "node"])
        self.assertFalse(report["reports_steps"])

    def test_a_script_that_raises_fails_the_job_and_its_error_is_shown(self):
        self.write("bad.py", FAILING)
        run = self.start("--procs", "2", "--", PYTHON, "bad.py")
        self.assertEqual(run.end(), 1, run.text())
        self.assertIn("[rank 1] ValueError: the data is bad", run.text())
        self.assertRegex(run.text(),
                         r"\n because +failed 5 times [^/]*ValueError: the data is bad\n")

    def test_max_restarts_is_kept(self):
        self.write("bad.py", FAILING)
        run = self.start("--nproc-per-node=2", "--max-restarts", "1", "bad.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(run.end(), 1, run.text())
        self.assertIn("out of restarts (1 allowed)", run.text())
        self.assertEqual(self.report("bad")["restarts"], 1)

    def test_workers_get_what_torchrun_gives_them(self):
        self.write("contract.py", CONTRACT)
        run = self.start("--nnodes=2", "--nproc_per_node=2", "--rdzv_id=r7", "contract.py",
                         "x${local_rank}", "--name", "mine", PYTHON_EXEC=PYTHON)
        self.assertEqual(run.end(), 0, run.text())
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        for rank in range(4):
            local = rank % 2
            self.assertIn(f"[rank {rank}] contract {rank} {local} 4 {threads} 1 r7 default "
                          f"x{local} --name mine\n", run.text())

    def test_redirected_output_is_not_shown(self):
        self.write("hello.py", "print('hello')")
        run = self.start("-r", "3", "hello.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(run.end(), 0, run.text())
        self.assertNotIn("hello\n", run.text().replace("runs/hello\n", ""))
        with open(f"{self.folder}/runs/hello/logs/attempt-1/rank-0.log") as file:
            self.assertEqual(file.read(), "hello\n")


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
