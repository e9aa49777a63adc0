"""`longhaul checkpoint` as a user runs it: tables, JSON, exit codes, and what prune may not remove.

usage: checkpoint_command_test.py LONGHAUL
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest


def safetensors(path, values, name="model.layers.0.mlp.up.weight"):
    """A file of one F32 tensor [4, 2], by the format's page and nothing of ours."""
    data = struct.pack("<8f", *values)
    header = json.dumps({name: {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def read_safetensors(path):
    """An own small reader: name -> (dtype, shape, bytes)."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="checkpoint-command-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        safetensors(self / "a.safetensors", range(8))

    def __truediv__(self, name):
        return os.path.join(self.folder, name)

    def run_it(self, *words, code=0):
        done = subprocess.run([LONGHAUL, "checkpoint", *words], cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def a_run(self, steps):
        for step in steps:
            self.run_it("convert", "a.safetensors", "run/checkpoints", "--to", "longhaul", "--step",
                        str(step))

    def test_a_run_is_listed_shown_and_verified(self):
        self.a_run([10, 20])
        listed = json.loads(self.run_it("ls", "run", "--json"))
        self.assertEqual([one["step"] for one in listed["checkpoints"]], [20, 10])
        self.assertIn("step-000000020.e0", self.run_it("ls", "run"))
        shown = json.loads(self.run_it("show", "run/checkpoints", "--json"))
        self.assertEqual(shown["step"], 20)
        self.assertEqual(shown["tensors"][0]["shape"], [4, 2])
        said = self.run_it("verify", "run/checkpoints")
        self.assertIn("good: step-000000020.e0: 1 tensors", said)
        self.assertIn("good: step-000000010.e0: 1 tensors", said)
        self.assertIn("2 of 2 steps in run/checkpoints are undamaged", said)
        self.assertIn("good: 1 tensors", self.run_it("verify", "run/checkpoints/step-000000010.e0"))
        shard = self / "run/checkpoints/step-000000020.e0/rank-00000-of-00001.safetensors"
        dtype, shape, data = read_safetensors(shard)["model.layers.0.mlp.up.weight"]
        self.assertEqual((dtype, shape, data), ("F32", [4, 2], struct.pack("<8f", *range(8))))

    def test_verify_names_file_offset_and_tensor_of_a_flipped_bit(self):
        self.a_run([10])
        path = self / "run/checkpoints/step-000000010.e0/rank-00000-of-00001.safetensors"
        with open(path, "r+b") as file:
            start = struct.unpack("<Q", file.read(8))[0] + 8
            file.seek(start + 5)
            byte = file.read(1)[0]
            file.seek(start + 5)
            file.write(bytes([byte ^ 16]))
        said = json.loads(self.run_it("verify", "run/checkpoints", "--json", code=1))
        self.assertFalse(said["good"])
        self.assertEqual(said["damage"][0]["offset"], start)
        self.assertTrue(said["damage"][0]["file"].endswith("rank-00000-of-00001.safetensors"))
        self.assertEqual(said["damage"][0]["tensors"], ["model.layers.0.mlp.up.weight"])
        self.run_it("convert", "run/checkpoints", "out.pt", code=1)
        self.assertFalse(os.path.exists(self / "out.pt"))

    def test_each_damaged_step_of_a_run_is_named(self):
        self.a_run([10, 20, 30, 40])
        steps = {step: self / f"run/checkpoints/step-{step:09d}.e0" for step in (10, 20, 30, 40)}
        with open(os.path.join(steps[40], "MANIFEST"), "r+b") as file:
            file.write(b"[")
        os.remove(os.path.join(steps[30], "rank-00000-of-00001.safetensors"))
        os.remove(os.path.join(steps[20], "MANIFEST"))
        said = self.run_it("verify", "run", code=1)
        self.assertIn("damaged: step-000000040.e0: ", said)
        self.assertIn("damaged: step-000000030.e0: ", said)
        self.assertIn("good: step-000000010.e0: 1 tensors", said)
        self.assertIn("not verified: step-000000020.e0 has no MANIFEST", said)
        self.assertIn("2 of 3 steps in run/checkpoints are damaged: step 40, 30; the newest good step "
                      "is 10, 30 steps before the newest saved one", said)
        reported = json.loads(self.run_it("verify", "run", "--json", code=1))
        self.assertEqual((reported["good"], reported["damaged_steps"], reported["newest_good_step"],
                          reported["steps_lost"]), (False, [40, 30], 10, 30))
        self.assertEqual([one["good"] for one in reported["steps"]], [False, False, True])
        said = self.run_it("ls", "run")
        self.assertIn("damaged: step-000000040.e0: ", said)
        self.assertIn("not committed: step-000000020.e0", said)
        listed = json.loads(self.run_it("ls", "run", "--json"))
        self.assertEqual([one["step"] for one in listed["checkpoints"]], [10])
        self.assertEqual([one["step"] for one in listed["damaged"]], [40, 30])
        # Nothing opens an older step in place of a damaged one.
        for words in (("show", "run"), ("diff", "run", "a.safetensors"), ("convert", "run", "o.pt")):
            self.assertIn("the newest step in run/checkpoints, step-000000040.e0, is damaged",
                          self.run_it(*words, code=1))
        self.assertIn("step 10", self.run_it("show", "run/checkpoints/step-000000010.e0"))

    def test_diff_tells_the_tensor_and_the_place(self):
        safetensors(self / "b.safetensors", [0, 1, 2, 3.5, 4, 5, 6, 7])
        said = json.loads(self.run_it("diff", "a.safetensors", "b.safetensors", "--json", code=1))
        self.assertEqual(said["tensors"][0]["first_place"], [1, 1])
        self.assertEqual(said["tensors"][0]["max_absolute"], 0.5)
        self.assertEqual(said["tensors"][0]["differing"], 1)
        self.run_it("convert", "a.safetensors", "a.pt")
        self.assertIn("1 of 1 tensors are equal", self.run_it("diff", "a.safetensors", "a.pt"))

    def test_numbers_that_are_none_are_reported(self):
        safetensors(self / "n.safetensors", [0, 1, float("nan"), float("inf"), 0, 0, 0, 0])
        said = json.loads(self.run_it("verify", "n.safetensors", "--numbers", "--json", code=1))
        self.assertEqual(said["non_finite"][0]["nan"], 1)
        self.assertEqual(said["non_finite"][0]["infinite"], 1)
        self.assertEqual(said["non_finite"][0]["first"], 2)
        self.run_it("verify", "n.safetensors")

    def test_prune_keeps_a_good_one_and_asks(self):
        self.a_run([10, 20, 30])
        self.run_it("prune", "run", "--keep", "1", code=2)  # nobody to ask
        dry = json.loads(self.run_it("prune", "run", "--keep", "1", "--dry-run", "--json"))
        self.assertEqual(dry["removed"], ["step-000000020.e0", "step-000000010.e0"])
        newest = self / "run/checkpoints/step-000000030.e0/rank-00000-of-00001.safetensors"
        size = os.path.getsize(newest)
        with open(newest, "r+b") as file:  # same size, damaged: the others are the good ones
            file.seek(size - 1)
            file.write(b"\xff")
        self.assertIn("step-000000020.e0 stays: it is the newest good one",
                      self.run_it("prune", "run", "--keep", "1", "--yes"))
        left = json.loads(self.run_it("ls", "run", "--json"))["checkpoints"]
        self.assertEqual([one["step"] for one in left], [30, 20])

    def test_plan_counts_what_each_rank_reads(self):
        said = json.loads(self.run_it("plan", "a.safetensors", "--layout", "tp=2,dp=2,zero=3",
                                      "--json"))
        self.assertEqual([one["bytes_needed"] for one in said["readers"]], [8, 8, 8, 8])
        self.assertEqual([one["bytes_read"] for one in said["readers"]], [8, 8, 8, 8])
        self.assertIn("xp=2", self.run_it("plan", "a.safetensors", "--layout", "xp=2", code=2))
        self.assertIn("can't be cut", self.run_it("plan", "a.safetensors", "--layout", "tp=3",
                                                  code=1))

    def test_wrong_usage_is_two_and_failure_one(self):
        self.run_it("show", "absent", code=1)
        self.run_it("ls", "a.safetensors", code=1)
        self.run_it("convert", "a.safetensors", "no-format", code=2)
        self.run_it("nonsense", code=2)
        for name in ("ls", "show", "verify", "diff", "convert", "prune", "plan"):
            self.assertIn("Examples:", self.run_it(name, "--help"))


if __name__ == "__main__":
    LONGHAUL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
