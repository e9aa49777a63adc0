"""longhaul.elastic under `longhaul run`: survivors of a killed worker keep their process.

usage: elastic_test.py LONGHAUL LIBLONGHAUL VERSION

VERSION is one that tools/pytorch_environment makes. Skipped without that environment.
"""
import collections
import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "examples/ddp_elastic.py")
SHARDED = str(ROOT / "examples/fsdp_elastic.py")
SCRIPTS = ROOT / "tests/pytorch/elastic_scripts.py"
RANKS = 4
LIMIT_S = 150


class Run:
    """`longhaul run` of the script, read through the logs of its workers."""

    def __init__(self, folder, *words, options=()):
        self.folder = folder
        self.output = open(f"{folder}/output", "w")
        self.child = subprocess.Popen(
            [sys.longhaul, "run", "--nodes", "2", "--procs", "2", "--run-dir", f"{folder}/run", *options,
             "--", sys.python, *words], cwd=folder, stdout=self.output, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
                 "PYTHONDONTWRITEBYTECODE": "1", "GLOO_SOCKET_IFNAME": "lo",
                 "LONGHAUL_LIBRARY": sys.library})
        self.watchdog = threading.Timer(LIMIT_S, self.child.kill)
        self.watchdog.start()

    def text(self):
        found = []
        for path in sorted(glob.glob(f"{self.folder}/run/logs/attempt-*/*.log")):
            with open(path, errors="replace") as file:
                found.append(file.read())
        return "".join(found)

    def starts(self):
        """The processes of each rank in the order of its attempts, and the attempts' first steps."""
        pids, first = collections.defaultdict(list), []
        logs = glob.glob(f"{self.folder}/run/logs/attempt-*/*.log")
        for path in sorted(logs, key=lambda each: int(re.search(r"attempt-(\d+)", each)[1])):
            with open(path, errors="replace") as file:
                for rank, pid, step in re.findall(r"rank (\d+) of \d+ is process (\d+) from step (\d+)", file.read()):
                    pids[int(rank)].append(int(pid))
                    first.append(int(step))
        return pids, first

    def until(self, wanted, what):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and self.child.poll() is None:
            found = wanted()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {what} in\n{self.text()}\n{self.shown()}")

    def until_attempt(self, number):
        return self.until(lambda: (lambda pids: len(pids) == RANKS and all(
            len(each) >= number for each in pids.values()) and pids)(self.starts()[0]), f"attempt {number}")

    def until_step(self, step):
        self.until(lambda: re.search(rf"^step {step} ", self.text(), re.M), f"step {step}")

    def until_snapshot(self):
        def is_there():
            with open(f"{self.folder}/run/events.jsonl", errors="replace") as file:
                return '"type":"snapshot"' in file.read()
        self.until(is_there, "snapshot")

    def shown(self):
        with open(f"{self.folder}/output", errors="replace") as file:
            return file.read()

    def end(self):
        code = self.child.wait()
        self.watchdog.cancel()
        self.output.close()
        return code

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        self.end()


def weights(text):
    return re.findall(r"rank (\d+) is done after step \d+, weights (\w+)", text)


class ElasticTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                                "--if-made"], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
        sys.python = found.stdout.strip()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="elastic-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def start(self, name, *words, options=()):
        os.mkdir(f"{self.folder}/{name}")
        run = Run(f"{self.folder}/{name}", *words, options=options)
        self.addCleanup(run.stop)
        return run

    def train(self, name, steps, step_time):
        return self.start(name, SCRIPT, "--steps", str(steps), "--step-time", str(step_time))

    def test_survivors_keep_their_process_and_the_weights_are_those_of_an_undisturbed_run(self):
        steps = 120
        quiet = self.train("quiet", steps, 0)
        self.assertEqual(quiet.end(), 0, quiet.shown())
        expected = {each for _, each in weights(quiet.text())}
        self.assertEqual(len(expected), 1)

        run = self.train("killed", steps, 0.05)
        pids = run.until_attempt(1)
        run.until_step(5)
        for number, victims in enumerate([[1], [0], [3, 2]], 2):
            before = {rank: each[-1] for rank, each in pids.items()}
            step = int(re.findall(r"^step (\d+) ", run.text(), re.M)[-1])
            for rank in victims:
                os.kill(before[rank], signal.SIGKILL)
            pids = run.until_attempt(number)
            for rank in range(RANKS):
                if rank in victims:
                    self.assertNotEqual(pids[rank][-1], before[rank], run.text())
                else:
                    self.assertEqual(pids[rank][-1], before[rank], run.text())
            run.until(lambda: any(int(each) > step + 3 for each in
                                  re.findall(r"^step (\d+) ", run.text(), re.M)), "new step")
        self.assertEqual(run.end(), 0, run.shown())
        done = weights(run.text())
        self.assertEqual(sorted(rank for rank, _ in done), ["0", "1", "2", "3"], run.text())
        self.assertEqual({each for _, each in done}, expected, run.text())
        shown = [int(each) for each in re.findall(r"^step (\d+) ", run.text(), re.M)]
        self.assertEqual(len(shown), len(set(shown)), "no step is repeated by rank 0's process")

    def test_a_second_kill_while_the_group_forms_is_survived(self):
        steps = 60
        run = self.train("twice", steps, 0.05)
        pids = run.until_attempt(1)
        run.until_step(5)
        os.kill(pids[2][-1], signal.SIGKILL)
        time.sleep(0.1)
        os.kill(pids[1][-1], signal.SIGKILL)
        self.assertEqual(run.end(), 0, run.shown())
        done = weights(run.text())
        self.assertEqual(len(done), RANKS, run.text())
        self.assertEqual(len({each for _, each in done}), 1, run.text())
        self.assertEqual(set(run.starts()[0][0]), {pids[0][0]}, "rank 0 kept its process")

    def train_sharded(self, name, replicas, steps, step_time):
        return self.start(name, SHARDED, "--replicas", str(replicas), "--steps", str(steps),
                          "--step-time", str(step_time))

    def kill_sharded(self, run, pids, number, victim):
        """Kills a worker and returns the processes of the next attempt, its first steps and the last
        step before."""
        before = {rank: each[-1] for rank, each in pids.items()}
        step = int(re.findall(r"^step (\d+) ", run.text(), re.M)[-1])
        os.kill(before[victim], signal.SIGKILL)
        pids = run.until_attempt(number)
        for rank in range(RANKS):
            kept = pids[rank][-1] == before[rank]
            self.assertEqual(kept, rank != victim, f"rank {rank} in\n{run.text()}")
        first = run.starts()[1][-RANKS:]
        self.assertEqual(len(set(first)), 1, run.text())
        run.until_step(max(step + 3, first[0] + 3))
        return pids, first[0], step

    def check_sharded(self, replicas):
        if sys.torch == "2.4":
            self.skipTest("fully_shard of PyTorch 2.4 needs a GPU")
        steps = 150
        quiet = self.train_sharded("quiet", replicas, steps, 0)
        self.assertEqual(quiet.end(), 0, quiet.shown())
        expected = {each for _, each in weights(quiet.text())}
        self.assertEqual(len(expected), 1, quiet.text())

        run = self.train_sharded("killed", replicas, steps, 0.05)
        pids = run.until_attempt(1)
        run.until_step(10)
        run.until_snapshot()
        for number, victim in enumerate([1, 0, 3], 2):
            pids, first, step = self.kill_sharded(run, pids, number, victim)
            if replicas > 1:
                self.assertGreater(first, step, "the other replica has the shard")
            else:
                self.assertGreater(first, 1, "there is a snapshot")
        self.assertEqual(run.end(), 0, run.shown())
        done = weights(run.text())
        self.assertEqual(sorted(rank for rank, _ in done), ["0", "1", "2", "3"], run.text())
        self.assertEqual({each for _, each in done}, expected, run.text())

    def test_fully_shard_returns_to_a_snapshot_and_survivors_keep_their_process(self):
        self.check_sharded(1)

    def test_fully_shard_with_replicas_loses_no_step(self):
        self.check_sharded(2)

    def test_survivors_that_nothing_interrupts_leave_in_time(self):
        for kind in ("unread", "unread_at_the_end", "crossed"):
            with self.subTest(kind):
                run = self.start(kind, str(SCRIPTS), kind)
                pids = run.until_attempt(1)
                run.until(lambda: "ready" in run.text(), "victim")
                time.sleep(0.5)  # until the others are blocked
                os.kill(pids[1][-1], signal.SIGKILL)
                self.assertEqual(run.end(), 0, run.shown())
                after = run.starts()[0]
                for rank in (0, 2, 3):
                    self.assertEqual(after[rank], pids[rank] * 2, run.text())

    def test_a_survivor_that_blocks_for_good_is_replaced_before_the_agents_limit(self):
        run = self.start("unsent", str(SCRIPTS), "unsent")
        pids = run.until_attempt(1)
        run.until(lambda: "ready" in run.text(), "victim")
        os.kill(pids[1][-1], signal.SIGKILL)
        self.assertEqual(run.end(), 0, run.shown())
        self.assertIn("rank 0 is replaced: all connections of its groups have ended", run.text())
        after = run.starts()[0]
        for rank in (2, 3):
            self.assertEqual(after[rank], pids[rank] * 2, run.text())

    def test_what_cannot_be_continued_is_refused(self):
        if sys.torch == "2.4":
            self.skipTest("fully_shard of PyTorch 2.4 needs a GPU")
        for kind, message in (("tensor_parallel", "Tensor, pipeline and expert parallelism are not"),
                              ("part_of_the_ranks", "requires a mesh of all ranks"),
                              ("compiled", "torch.compile"),
                              ("whole_snapshot", "Group.snapshot is for objects")):
            with self.subTest(kind):
                run = self.start(kind, str(SCRIPTS), kind, options=("--max-restarts", "0"))
                self.assertEqual(run.end(), 1, run.shown())
                self.assertIn(message, run.text())

    def test_a_model_of_the_attempt_before_is_refused(self):
        if sys.torch == "2.4":
            self.skipTest("fully_shard of PyTorch 2.4 needs a GPU")
        run = self.start("old_model", str(SCRIPTS), "old_model", options=("--max-restarts", "1"))
        pids = run.until_attempt(1)
        run.until(lambda: "ready" in run.text(), "victim")
        os.kill(pids[1][-1], signal.SIGKILL)
        self.assertEqual(run.end(), 1, run.shown())
        self.assertIn("the model is the one of the attempt before", run.text())

    def test_an_exception_of_the_script_fails_the_worker(self):
        script = f"{self.folder}/failing.py"
        with open(script, "w") as file:
            file.write("from longhaul import elastic\n"
                       "def train(group):\n"
                       "    raise ValueError('the data is bad')\n"
                       "elastic.run(train)\n")
        os.mkdir(f"{self.folder}/failing")
        run = Run(f"{self.folder}/failing", script)
        self.addCleanup(run.stop)
        self.assertEqual(run.end(), 1, run.shown())
        self.assertIn("the data is bad", run.text())

    def test_groups_are_destroyed_although_their_threads_still_release_tensors(self):
        """Before version 2.8, PyTorch waits for these threads with the interpreter's lock held."""
        if sys.torch != "2.4":
            self.skipTest(f"PyTorch {sys.torch} does not hold the lock")
        script = ("import torch, torch.distributed as dist\n"
                  "from longhaul import elastic\n"
                  "for _ in range(500):\n"
                  "    elastic.run(lambda group: dist.all_reduce(torch.ones(1 << 16)) and None)\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        subprocess.run([sys.python, "-c", script], check=True, timeout=LIMIT_S, env={
            **os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1",
            "GLOO_SOCKET_IFNAME": "lo", "LONGHAUL_LIBRARY": sys.library, "RANK": "0",
            "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})


if __name__ == "__main__":
    sys.longhaul, sys.library = map(os.path.abspath, sys.argv[1:3])
    sys.torch = sys.argv[3]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
