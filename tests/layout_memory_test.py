"""A pipeline that loses a node continues with fewer from memory, as it would from disk.

usage: layout_memory_test.py LONGHAUL LONGHAUL_TRAINER

Three nodes of two workers are three pipelines of two stages: ranks 0 to 2 have the first, 3 to 5 the
second. With two nodes left, every rank has another place, and no node's memory is as its new ranks
want it. Micro-batches are of one size, so that sums of floats are made in one order.
"""
import json
import os
import re
import shutil
import sys
import unittest

import local_run
import queues_test

CONFIG = """
priorities: {low: -100, high: 100}
scheduling: {elastic_period: 1s}
"""
STEPS = 160
KILLED_AT = 110
INTERVAL = 40


class LayoutMemory(unittest.TestCase):
    def setUp(self):
        self.cluster = queues_test.Cluster(sys.argv_programs, CONFIG, agents=3, slots=2)
        self.addCleanup(self.cluster.close)

    def submit(self, name, nodes, *options, inject=(), **resources):
        folder = self.cluster.folder
        self.cluster.write(f"{name}.yaml", json.dumps({
            "name": name,
            "model": {"layers": 2, "hidden": 64, "heads": 2, "sequence": 64},
            "data": {"include": [f"{folder}/data/*.txt"], "held_out": 0.1},
            "train": {"steps": STEPS, "global_batch": 12, "warmup_steps": 5, "evaluate_every": 0,
                      "evaluate_sequences": 8},
            "layout": {"pipeline": 2, "tensor": 1},
            "snapshot": {"interval_steps": INTERVAL, "keep": 100},
            "inject": list(inject),
            "resources": {"nodes": nodes, "processes_per_node": 2, "micro_batch": 2,
                          **resources}}))
        self.cluster.call("submit", f"{name}.yaml", "--run-directory", f"{folder}/runs/{name}",
                          *options)

    def steps_on_disk(self, name):
        """The committed steps of a run, with their folders."""
        folder = f"{self.cluster.folder}/runs/{name}/checkpoints"
        return {int(re.match(r"step-(\d+)\.", entry).group(1)): f"{folder}/{entry}"
                for entry in os.listdir(folder) if os.path.exists(f"{folder}/{entry}/MANIFEST")}

    def test_goes_on_with_fewer_nodes_from_memory_as_from_disk(self):
        cluster = self.cluster
        self.submit("memory", 3, inject=[f"kill node 2 at step {KILLED_AT}"], minimum_nodes=2)
        job = cluster.await_state("memory", "succeeded")
        self.assertEqual([size["nodes"] for size in job["sizes"]], [3, 2])
        self.assertEqual([fault["class_name"] for fault in job["faults"]], ["node"])
        fault = job["faults"][0]
        step = int(fault["from_step"])
        # The newest sealed one: nothing waited for the disk.
        self.assertEqual(step, KILLED_AT // INTERVAL * INTERVAL, fault)
        self.assertIn(f"from memory in another layout at step {step}", fault["action"])

        # The same step out of its checkpoint, with two nodes from then on.
        saved = self.steps_on_disk("memory")
        self.assertIn(step, saved)
        target = f"{cluster.folder}/runs/disk/checkpoints"
        os.makedirs(target)
        shutil.copytree(saved[step], f"{target}/{os.path.basename(saved[step])}")
        self.submit("disk", 2, "--resume")
        other = cluster.await_state("disk", "succeeded")
        self.assertEqual(other["faults"], [])
        self.assertEqual(cluster.weights(job), cluster.weights(other))

    def test_shrinks_for_others_and_grows_again_without_the_disk(self):
        cluster = self.cluster
        self.submit("elastic", 2, minimum_nodes=1, maximum_nodes=3)
        local_run.await_that(lambda: cluster.job("elastic")["step"] > 10, "steps")
        cluster.waiter("urgent", nodes=2, processes=2, priority="high")
        cluster.await_state("urgent", "running")
        cluster.finish("urgent")
        job = cluster.await_state("elastic", "succeeded")
        self.assertGreaterEqual(job["resizes"], 2, job["sizes"])
        self.assertEqual(job["faults"], [])
        events = cluster.call("events", "elastic")
        restores = re.findall(r" attempt .* from ([a-z' ]+) at step", events)
        self.assertGreaterEqual(len(restores), 2, events)
        self.assertEqual(set(restores), {"pieces"}, events)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
