"""A run that continues in another layout from the checkpoint of the first.

usage: relayout_test.py LONGHAUL LONGHAUL-TRAINER LONGHAUL-TOOLS

LONGHAUL_RELAYOUT=all tries more pairs, among them 2x2x2 (eight workers).
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

import local_run

JOB = """
name: tiny
model: {layers: 2, hidden: 32, heads: 4, sequence: 32}
data: {include: [data/*.txt], held_out: 0.1}
train: {steps: 24, global_batch: 8, warmup_steps: 5, evaluate_every: 8, evaluate_sequences: 8}
snapshot: {interval_steps: 4, keep: 100}
"""
# data x tensor x pipeline: who saves, and who continues from it. Two nodes where workers are even.
PAIRS = {(2, 2, 1): [(2, 1, 2), (1, 1, 1)]}
MORE = {(2, 2, 2): [(1, 2, 4), (4, 1, 2), (1, 1, 1)], (1, 1, 1): [(2, 2, 2)],
        (4, 1, 1): [(1, 4, 1)], (1, 4, 1): [(1, 1, 2)], (1, 1, 4): [(2, 2, 1)]}
LAYERS = 4  # with MORE: as many as stages


def options(layout):
    data, tensor, pipeline = layout
    ranks = data * tensor * pipeline
    nodes = 2 if ranks % 2 == 0 else 1
    return ["--set", f"layout.data={data}", "--set", f"layout.tensor={tensor}",
            "--set", f"layout.pipeline={pipeline}", "--nodes", str(nodes),
            "--procs", str(ranks // nodes), "--cluster-slots", str(ranks // nodes)]


class Relayout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = local_run.Lab(sys.argv_programs)
        cls.addClassCleanup(cls.lab.close)
        cls.folder = cls.lab.folder
        cls.everything = os.environ.get("LONGHAUL_RELAYOUT") == "all"
        with open(f"{cls.folder}/tiny.yaml", "w") as file:
            file.write(JOB.replace("layers: 2", f"layers: {LAYERS}") if cls.everything else JOB)

    def losses(self, name):
        return {notification["step"]["step"]: notification["step"]["loss"] for notification in self.lab.notifications(name)
                if notification["type"] == "step"}

    def steps(self, name):
        """The committed steps of a run, rising, with their folders."""
        folder = f"{self.folder}/runs/{name}/checkpoints"
        found = [(int(re.match(r"step-(\d+)\.", entry).group(1)), f"{folder}/{entry}")
                 for entry in os.listdir(folder)
                 if os.path.exists(f"{folder}/{entry}/MANIFEST")]
        return sorted(found)

    def differences(self, first, second):
        done = subprocess.run(["./longhaul", "checkpoint", "diff", "--json", first, second],
                              cwd=self.folder, text=True, capture_output=True, timeout=60)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)["tensors"]

    def go_on(self, name, source, to, index):
        """A copy of one step of a run, resumed in a layout. Returns the step and the report."""
        step, folder = self.steps(source)[index]
        os.makedirs(f"{self.folder}/runs/{name}/checkpoints")
        shutil.copytree(folder, f"{self.folder}/runs/{name}/checkpoints/{os.path.basename(folder)}")
        return step, self.lab.run(name, "--resume", *options(to))

    def test_goes_on_with_the_same_losses_in_another_layout(self):
        for saver, others in (MORE if self.everything else PAIRS).items():
            source = "from-" + "x".join(map(str, saver))
            weights = self.lab.run(source, *options(saver))["results"]["weights_hash"]
            self.assertEqual(sorted(self.losses(source)), list(range(1, 25)))
            self.is_written_once(source, saver)
            for other in others:
                with self.subTest(saver=saver, other=other):
                    self.goes_on_alike(source, other)
            with self.subTest(saver=saver, other=others[0]):
                self.comes_back_bit_for_bit(source, others[0], weights)
        self.is_refused_for_another_model(source)

    def test_a_workers_threads_wait_for_their_turns_of_a_core(self):
        run = self.lab.start("turns", "--set", "train.steps=100000", *options((1, 2, 1)))
        self.addCleanup(run.communicate, timeout=60)
        self.addCleanup(run.terminate)
        local_run.await_that(lambda: self.lab.last_step("turns") >= 2, "a step")
        policies = {}
        for pid in self.lab.processes():
            if "longhaul-trainer" not in os.readlink(f"/proc/{pid}/exe"):
                continue
            for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                policies[thread] = os.sched_getscheduler(thread)
        self.assertGreater(len(policies), 4)  # gloo's threads too
        self.assertEqual(set(policies.values()), {os.SCHED_BATCH}, policies)

    def files_of_ranks(self, folder):
        """By rank: the file with its state, and whether it wrote that itself."""
        with open(f"{folder}/MANIFEST") as file:
            manifest = json.loads(file.read().rsplit("xxh3-64:", 1)[0])
        ranks = {}
        for file in manifest["files"]:
            ranks[file["rank"]] = (file["name"], True)
            ranks.update({rank: (file["name"], False) for rank in file.get("also", [])})
        self.assertEqual(sorted(os.listdir(folder)),
                         sorted([file["name"] for file in manifest["files"]] + ["MANIFEST"]))
        return ranks

    def is_written_once(self, name, layout, after=0):
        """Of the replicas of a part one writes, and each node writes its share of the parts."""
        data, tensor, pipeline = layout
        world = data * tensor * pipeline
        if tensor * pipeline == 1:
            return
        for step, folder in self.steps(name):
            if step <= after:
                continue
            ranks = self.files_of_ranks(folder)
            self.assertEqual(sorted(ranks), list(range(world)))
            part = {rank: (rank // (data * tensor), rank % tensor) for rank in ranks}
            writers = [rank for rank, (_, own) in ranks.items() if own]
            self.assertEqual(len(writers), tensor * pipeline, ranks)
            self.assertEqual(len({part[rank] for rank in writers}), len(writers), ranks)
            for rank, (file, _) in ranks.items():
                self.assertEqual(part[rank], part[int(file[5:10])], ranks)
            if world % 2 == 0 and data % 2 == 0:
                share = [sum(rank // (world // 2) == node for rank in writers) for node in (0, 1)]
                self.assertEqual(share[0], share[1], ranks)
        # All bytes on disk against those that every rank holds.
        sizes = {rank: os.path.getsize(f"{folder}/{file}") for rank, (file, _) in ranks.items()}
        self.assertEqual(sum(sizes[rank] for rank in writers) * data, sum(sizes.values()))

    def goes_on_alike(self, source, layout):
        name = f"{source}-to-" + "x".join(map(str, layout))
        step, _ = self.go_on(name, source, layout, len(self.steps(source)) // 2)
        self.assertLess(step, 24, f"too few steps were committed: {self.steps(source)}")
        whole, rest = self.losses(source), self.losses(name)
        self.assertEqual(min(rest), step + 1)
        for at, loss in rest.items():
            self.assertAlmostEqual(loss, whole[at], delta=2e-4 * whole[at], msg=f"step {at}")
        self.is_planned(source, name, layout)
        self.is_written_once(name, layout, after=step)  # that one is of the saver's layout
        # Rounding alone tells the ends apart, in weights and moments.
        for tensor in self.differences(self.steps(source)[-1][1], self.steps(name)[-1][1]):
            self.assertIn(tensor["kind"], ("equal", "differs"), tensor)
            self.assertLess(tensor.get("max_absolute", 0), 1e-3, tensor)

    def is_planned(self, source, name, layout):
        """What the plan says that each rank needs is what the ranks then held and saved."""
        data, tensor, pipeline = layout
        done = subprocess.run(
            ["./longhaul", "checkpoint", "plan", f"runs/{source}", "--json", "--layout",
             f"dp={data},tp={tensor},pp={pipeline}"], cwd=self.folder, text=True,
            capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["unmatched"], [])
        held = {}
        folder = self.steps(name)[-1][1]
        for rank, (file, _) in self.files_of_ranks(folder).items():
            with open(f"{folder}/{file}", "rb") as opened:
                header = json.loads(opened.read(struct.unpack("<Q", opened.read(8))[0]))
            held[rank] = max(
                info["data_offsets"][1] for key, info in header.items() if key != "__metadata__")
        for reader in plan["readers"]:
            rank = reader["first_rank"] if len(held) > 1 else 0  # replicas: rank 0's serves all
            self.assertEqual(reader["bytes_needed"], held[rank], reader)
            self.assertEqual(reader["bytes_read"], reader["bytes_needed"])

    def comes_back_bit_for_bit(self, source, layout, weights):
        """With no step left to do, the weights are those that were saved."""
        step, report = self.go_on(f"{source}-last", source, layout, -1)
        self.assertEqual(step, 24)
        self.assertEqual(report["results"]["weights_hash"], weights)

    def is_refused_for_another_model(self, source):
        refused = self.lab.start(source, "--resume", "--set", "model.hidden=64",
                                 *options((1, 1, 1)))
        said, _ = refused.communicate(timeout=60)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(said, r"holds a model of \d+ parameters, the job's has \d+")


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
