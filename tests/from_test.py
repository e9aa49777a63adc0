"""A run that begins with the weights of another run's checkpoint, and with nothing else of it.

usage: from_test.py LONGHAUL LONGHAUL-TRAINER

At a learning rate that is zero as a float, the weights at the end are those at the beginning: their
hash says whether they are the other run's, bit for bit.
"""
import json
import math
import os
import shutil
import sys
import unittest

import local_run
import queues_test
import s3_server

JOB = """
name: tiny
model: {layers: 2, hidden: 32, heads: 4, sequence: 32}
data: {include: [data/*.txt], held_out: 0.1}
train: {steps: 30, global_batch: 8, warmup_steps: 5, evaluate_every: 10, evaluate_sequences: 8}
snapshot: {interval_steps: 10}
resources: {nodes: 2, processes_per_node: 2}
"""
STILL = ["--set", "train.learning_rate=1e-60", "--set", "train.warmup_steps=0"]
NO_SNAPSHOTS = ["--set", "snapshot.interval_steps=1000"]
SECRET = "a secret that nobody must see/+="


def layout(data, tensor, pipeline):
    return ["--set", f"layout.data={data}", "--set", f"layout.tensor={tensor}",
            "--set", f"layout.pipeline={pipeline}"]


def flip(path, from_end):
    """Flips a bit of a file."""
    with open(path, "r+b") as file:
        file.seek(-from_end, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-from_end, os.SEEK_END)
        file.write(bytes([byte ^ 1]))


class From(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = local_run.Lab(sys.argv_programs)
        cls.addClassCleanup(cls.lab.close)
        cls.folder = cls.lab.folder
        with open(f"{cls.folder}/tiny.yaml", "w") as file:
            file.write(JOB)
        cls.base = cls.lab.run("base", *layout(2, 2, 1))

    def losses(self, name):
        return [(notification["step"]["step"], notification["step"]["loss"])
                for notification in self.lab.notifications(name) if notification["type"] == "step"]

    def restored(self, name):
        return [(one["attempt"]["restore"].get("tier"), int(one["attempt"]["restore"].get("step", 0)))
                for one in self.lab.notifications(name) if one["type"] == "attempt"]

    def hash_of(self, report):
        return report["results"]["weights_hash"]

    def refused(self, name, *more):
        run = self.lab.start(name, *more)
        output, _ = run.communicate(timeout=90)
        self.assertIn(run.returncode, (1, 2), output)
        self.assertEqual(self.restored(name), [], "a worker was started")
        return output

    def test_begins_with_the_same_bits_in_another_layout_and_at_step_1(self):
        still = self.lab.run("still", "--from", "runs/base", *layout(2, 1, 2), *STILL,
                             "--set", "train.steps=2")
        self.assertEqual(self.hash_of(still), self.hash_of(self.base))
        self.assertEqual([step for step, _ in self.losses("still")], [1, 2])
        self.assertTrue(math.isclose(still["results"]["validation_loss"],
                                     self.base["results"]["validation_loss"], rel_tol=1e-5))
        # What was learnt is there at the first step, which a fresh run begins without.
        self.assertLess(self.losses("still")[0][1], self.losses("base")[0][1] - 1)
        self.assertIn("first weights are those of step 30", json.dumps(still))

    def test_a_fault_before_the_first_snapshot_begins_with_them_again(self):
        # Steps enough that a kill comes before the end however late the controller is.
        some = ["--from", "runs/base", "--set", "train.steps=60", *layout(4, 1, 1)]
        straight = self.lab.run("straight", *some, *NO_SNAPSHOTS)
        killed = self.lab.run("killed", *some, *NO_SNAPSHOTS, "--inject", "kill worker 1 at step 3")
        self.assertEqual([step for _, step in self.restored("killed")], [0, 0])
        self.assertEqual(self.hash_of(killed), self.hash_of(straight))
        # From then on the run's own snapshots are what it goes back to.
        later = self.lab.run("later", *some, "--set", "snapshot.interval_steps=4",
                             "--inject", "kill worker 1 at step 7")
        first, again = [step for _, step in self.restored("later")]
        self.assertEqual((first, again % 4), (0, 0))
        self.assertGreater(again, 0)
        self.assertEqual(self.hash_of(later), self.hash_of(straight))
        self.assertNotEqual(self.hash_of(straight), self.hash_of(self.base))

    def test_a_resumed_run_goes_on_from_its_own_checkpoints_alone(self):
        shutil.copytree(f"{self.folder}/runs/base/checkpoints", f"{self.folder}/runs/gone")
        some = ["--from", "runs/gone", *layout(4, 1, 1)]
        self.lab.run("resumed", *some, "--set", "train.steps=6")
        shutil.rmtree(f"{self.folder}/runs/gone")
        self.assertIn("no checkpoint at", self.refused("too-late", *some))
        self.lab.run("resumed", "--resume", *some, "--set", "train.steps=8")
        self.assertEqual([step for _, step in self.restored("resumed")], [0, 6])

    def test_another_model_is_refused_with_the_first_tensor_that_tells(self):
        wider = self.refused("wider", "--from", "runs/base", "--set", "model.hidden=64")
        self.assertIn("model.embedding.token.weight, F32 [257, 64] in the model, F32 [257, 32] in "
                      "the checkpoint", wider)
        deeper = self.refused("deeper", "--from", "runs/base", "--set", "model.layers=3")
        self.assertIn("of 44 tensors of the model 12 are missing", deeper)
        self.assertIn("model.layers.2.attention.norm.weight", deeper)
        flatter = self.refused("flatter", "--from", "runs/base", "--set", "model.layers=1")
        self.assertIn("12 of the checkpoint are not in the model", flatter)

    def test_damage_is_passed_over_and_named(self):
        steps = f"{self.folder}/runs/damaged/checkpoints"
        shutil.copytree(f"{self.folder}/runs/base/checkpoints", steps)
        newest, older = sorted(os.listdir(steps))[:-3:-1]
        shards = {step: sorted(name for name in os.listdir(f"{steps}/{step}")
                               if name.startswith("rank-"))[0] for step in (newest, older)}
        # The last bytes of a shard are of a moment: nobody asks for them.
        flip(f"{steps}/{newest}/{shards[newest]}", 20)
        some = ["--set", "train.steps=1", *STILL]
        whole = self.lab.run("whole", "--from", "runs/damaged", *some)
        self.assertEqual(self.hash_of(whole), self.hash_of(self.base))
        # What lies a quarter from its beginning is of a weight.
        size = os.path.getsize(f"{steps}/{newest}/{shards[newest]}")
        flip(f"{steps}/{newest}/{shards[newest]}", size * 3 // 4)
        passed = self.lab.run("passed", "--from", "runs/damaged", *some)
        self.assertNotEqual(self.hash_of(passed), self.hash_of(self.base))
        # A busy machine may write no checkpoint of step 20.
        step = int(older.split(".")[0].removeprefix("step-"))
        self.assertIn(f"first weights are those of step {step} in", json.dumps(passed))
        self.assertIn(f"{newest}/{shards[newest]}", json.dumps(passed))
        named = self.refused("named", "--from", f"runs/damaged/checkpoints/{newest}")
        self.assertIn(f"{newest}/{shards[newest]}", named)
        shutil.rmtree(f"{steps}/{newest}")
        for step in os.listdir(steps):
            if step != older:
                shutil.rmtree(f"{steps}/{step}")
        flip(f"{steps}/{older}/{shards[older]}", size * 3 // 4)
        self.assertIn(f"{older}/{shards[older]}", self.refused("none", "--from", "runs/damaged"))

    def test_an_object_store_gives_them_too(self):
        s3_server.serve_for(self, SECRET)
        away = self.lab.run("away", "--set", "snapshot.copy_to=zstd:s3://models/runs",
                            *layout(1, 4, 1), "--set", "train.steps=6")
        shutil.rmtree(f"{self.folder}/runs/away")
        still = self.lab.run("back", "--from", "s3://models/runs/away", *layout(2, 1, 2), *STILL,
                             "--set", "train.steps=1")
        self.assertEqual(self.hash_of(still), self.hash_of(away))

    def test_a_run_resumed_before_its_first_checkpoint_begins_with_them_again(self):
        # What a machine leaves behind that was lost early: the run's directory without a checkpoint.
        first = self.lab.run("early", "--from", "runs/base", "--set", "train.steps=2", *STILL)
        self.assertEqual(self.hash_of(first), self.hash_of(self.base))
        shutil.rmtree(f"{self.folder}/runs/early/checkpoints")
        again = self.lab.run("early", "--resume", "--set", "train.steps=2", *STILL)
        self.assertEqual([step for _, step in self.restored("early")], [0, 0])
        self.assertEqual(self.hash_of(again), self.hash_of(self.base))

    def test_submit_takes_them_too(self):
        cluster = queues_test.Cluster(sys.argv_programs, "{}", agents=1, slots=2)
        self.addCleanup(cluster.close)
        shutil.copytree(f"{self.folder}/runs/base/checkpoints", f"{cluster.folder}/base")
        cluster.write("job.yaml", JOB.replace("nodes: 2", "nodes: 1").replace(
            "steps: 30", "steps: 1, learning_rate: 1e-60").replace("warmup_steps: 5",
                                                                   "warmup_steps: 0"))
        reported = cluster.call("submit", "job.yaml", "--from", "base", "--name", "tuned")
        self.assertIn(f"first weights are those of step 30 in {cluster.folder}/base", reported)
        job = cluster.await_state("tuned", "succeeded")
        self.assertEqual(cluster.weights(job), [self.hash_of(self.base)])
        self.assertIn("no checkpoint at", cluster.call("submit", "job.yaml", "--from", "nowhere",
                                                       code=1))
        cluster.write("command.yaml", "command: [\"true\"]")
        self.assertIn("a command has checkpoints of its own", cluster.call(
            "submit", "command.yaml", "--from", "base", code=2))


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
