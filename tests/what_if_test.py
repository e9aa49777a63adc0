"""A controller and agents: what-if questions, and that the answer is what then happens.

usage: what_if_test.py LONGHAUL
"""
import json
import sys
import unittest

from properties_test import DeclaredCluster

CONFIG = """
cluster: cluster.yaml
queues: [{name: research, guarantee: {accelerators: 2}}, {name: tests, limit: {accelerators: 2}}]
default_queue: research
scheduling: {repair_patience: 1s}
"""
CLUSTER = """
levels: [rack]
models: {H100: {memory: 80GiB}, V100: {memory: 16GiB}}
kinds:
  new: {model: H100, devices: 2, cpu: 2, memory: 1GiB}
  old: {model: V100, devices: 2, cpu: 2, memory: 1GiB}
nodes:
  - {name: node-1, kind: new, at: {rack: rack-1}}
  - {name: node-2, kind: new, at: {rack: rack-1}}
  - {name: node-3, kind: old, at: {rack: rack-2}}
"""


class WhatIf(unittest.TestCase):
    def setUp(self):
        self.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=3, cluster=CLUSTER)
        self.addCleanup(self.cluster.close)

    def effects(self, *changes):
        answer = self.cluster.ask("what-if", *changes)
        return {row["job"]: row["effect"] for row in answer["jobs"]}

    def test_the_answer_is_what_then_happens(self):
        cluster = self.cluster
        cluster.waiting("pair", nodes=2, devices="H100", scheduling={"expected_duration": "3h"})
        cluster.waiting("next", nodes=2, devices="H100", scheduling={"expected_duration": "1h"})
        self.assertEqual(cluster.gang("pair"), ["node-1", "node-2"])
        before = cluster.ask("jobs")["jobs"]

        self.assertEqual(self.effects("drain rack-2"), {})
        self.assertEqual(self.effects("add 4 h100"), {"next-1": "starts-now"})
        self.assertEqual(self.effects("stop pair"), {"next-1": "starts-now"})
        self.assertEqual(self.effects("drain rack-1")["pair-1"], "stopped")
        cluster.write("small.yaml", json.dumps({
            "name": "small", "command": ["true"],
            "resources": {"nodes": 1, "processes_per_node": 2, "devices": "V100"}}))
        answer = cluster.ask("what-if", "submit small.yaml")
        self.assertEqual([(row["job"], row["effect"]) for row in answer["jobs"]], [("small", "new")])
        self.assertEqual(answer["jobs"][0]["after_ns"], answer["now_ns"])
        self.assertEqual(answer["unknown_durations"], ["small"])
        self.assertIn("No job is affected.", cluster.call("what-if", "drain rack-2"))
        text = cluster.call("what-if", "stop pair", "--horizon", "2h")
        self.assertIn("starts now; without the change it starts not within the horizon", text)

        # Nothing has happened; now it does.
        after = cluster.ask("jobs")["jobs"]
        self.assertEqual([(job["job"]["id"], job["state"]) for job in before],
                         [(job["job"]["id"], job["state"]) for job in after])
        cluster.finish("pair")
        self.assertEqual(cluster.gang("next"), ["node-1", "node-2"])
        self.assertEqual(self.effects("drain node-1")["next-1"], "stopped")
        cluster.call("nodes", "drain", "node-1", "--no-wait")
        cluster.await_state("next", "queued", "leaving")
        cluster.call("nodes", "uncordon", "node-1")
        cluster.finish("next")

    def test_names_that_do_not_exist_end_with_code_2_and_the_nearest(self):
        for change, says in (("drain rack-9", "did you mean 'rack-1'"),
                             ("add 8 H10", "did you mean 'H100'"),
                             ("add -8 H100", "'-8' is not a number of devices"),
                             ("queue test limit 3", "did you mean 'tests'"),
                             ("stop nobody", "no live job with the id 'nobody'"),
                             ("reboot node-1", "expected drain, add, queue, stop or submit"),
                             ("submit missing.yaml", "missing.yaml")):
            self.assertIn(says, self.cluster.call("what-if", change, code=2))
        self.assertIn("not a time such as 24h",
                      self.cluster.call("what-if", "drain node-1", "--horizon", "soon", code=2))


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
