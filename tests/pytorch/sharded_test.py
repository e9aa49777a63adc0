"""FSDP2 states of PyTorch 2.x: snapshots in other numbers of ranks, and torch.distributed.checkpoint.

usage: sharded_test.py LONGHAUL LIBLONGHAUL VERSION

VERSION is one that tools/pytorch_environment makes, 2.6 or newer. Skipped without that environment,
and because the tests take minutes, unless LONGHAUL_PYTORCH_TABLE is set.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from ddp_test import Run  # noqa: E402

LIMIT_S = 240


class Sharded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if sys.torch == "2.4":
            raise unittest.SkipTest("FSDP2 of PyTorch 2.4 needs a GPU")
        if not os.environ.get("LONGHAUL_PYTORCH_TABLE"):
            raise unittest.SkipTest("these tests take minutes: set LONGHAUL_PYTORCH_TABLE=1 to run "
                                    "them")
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                                "--if-made"], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
        cls.python = found.stdout.strip()
        cls.variables = {"PYTHON_EXEC": cls.python, "OMP_NUM_THREADS": "1",
                         "PYTHONWARNINGS": "ignore", "LONGHAUL_LIBRARY": sys.library,
                         "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                         "GLOO_SOCKET_IFNAME": "lo"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sharded-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, *words, steps=10, step_time=0.0):
        run = Run(sys.longhaul, str(self.folder), [*words, str(HERE / "snapshot_script.py"),
                                                   str(steps), str(step_time)],
                  limit_s=LIMIT_S, **self.variables)
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        self.assertEqual(run.end(), 0, run.text())
        return run.text()

    def marks(self, text, what):
        """The step, the number of ranks and the fingerprint of each line."""
        return [(int(step), int(ranks), mark) for step, ranks, mark in
                re.findall(rf"{what} step (\d+) in (\d+) ranks: (\w+)", text)]

    def test_four_ranks_are_restored_from_disk_in_two_and_three(self):
        text = self.train("--run-dir", "run", "--nodes", "2", "--procs", "2")
        saved = dict((step, mark) for step, _, mark in self.marks(text, "snapshot of"))
        for ranks in (2, 3):
            shutil.copytree(self.folder / "run", self.folder / f"run-{ranks}",
                            ignore=shutil.ignore_patterns("*.sock"))
            text = self.train("--resume", "--run-dir", f"run-{ranks}", "--nodes", "1", "--procs",
                              str(ranks), "--cluster-slots", str(ranks))
            self.assertIn("from disk at step 8", text)
            self.assertEqual(self.marks(text, "restored"), [(8, ranks, saved[8])], text)

    def test_four_ranks_are_restored_from_memory_in_three_and_two(self):
        text = self.train(
            "--run-dir", "run", "--nodes", "4", "--procs", "1", "--minimum-nodes", "1",
            "--maximum-nodes", "4", "--cluster-nodes", "4", "--node-replacement-delay", "1h",
            "--inject", "kill agent 4 at step 6; kill agent 3 at step 11", steps=14, step_time=0.1)
        saved = {(step, ranks): mark for step, ranks, mark in self.marks(text, "snapshot of")}
        restored = self.marks(text, "restored")
        self.assertEqual([ranks for _, ranks, _ in restored], [3, 2], text)
        for (step, ranks, mark), before in zip(restored, (4, 3)):
            self.assertRegex(text, rf"attempt \d+: {ranks} workers .*, from memory in another layout "
                                   rf"at step {step}")
            self.assertEqual(mark, saved[step, before], text)

    def ranks(self, count, mode, folder):
        done = subprocess.run(
            [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
             str(count), str(HERE / "dcp_script.py"), mode, str(folder)], text=True,
            env={**os.environ, **self.variables}, capture_output=True, stdin=subprocess.DEVNULL,
            timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def checkpoint(self, *words):
        done = subprocess.run([sys.longhaul, "checkpoint", *map(str, words)], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_planners_of_pytorch_save_and_load_on_longhauls_storage(self):
        self.ranks(4, "save", self.folder / "a")
        self.ranks(3, "load", self.folder / "a")
        self.ranks(2, "save_async", self.folder / "b")
        self.ranks(2, "load", self.folder / "b")
        self.checkpoint("verify", self.folder / "a")
        text = self.checkpoint("show", self.folder / "a")
        self.assertIn("model.0.weight", text)

    def test_a_checkpoint_of_pytorch_is_converted_to_safetensors_and_back(self):
        self.ranks(4, "save_dcp", self.folder / "dcp")
        self.checkpoint("verify", self.folder / "dcp")
        self.checkpoint("convert", self.folder / "dcp", self.folder / "all.safetensors")
        self.checkpoint("convert", self.folder / "all.safetensors", self.folder / "back", "--to",
                        "dcp")
        self.checkpoint("diff", self.folder / "dcp", self.folder / "back")
        self.ranks(3, "load_dcp", self.folder / "back")


if __name__ == "__main__":
    sys.longhaul, sys.library = map(os.path.abspath, sys.argv[1:3])
    sys.torch = sys.argv[3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
