"""A controller and agents of a declared cluster of two device models: which nodes a job gets.

usage: properties_test.py LONGHAUL LONGHAUL_TRAINER
"""
import os
import signal
import sys
import time
import unittest

import local_run
from queues_test import WAITER, Cluster

CONFIG = "cluster: cluster.yaml\n"
TWO_MODELS = """
levels: [leaf]
models:
  H100: {memory: 80GiB}
  V100: {memory: 16GiB}
kinds:
  new: {model: H100, devices: 2, cpu: 2, memory: 1GiB}
  old: {model: V100, devices: 2, cpu: 2, memory: 1GiB}
nodes:
  - {name: node-1, kind: new, at: {leaf: a}}
  - {name: node-2, kind: old, at: {leaf: a}}
  - {name: node-3, kind: new, at: {leaf: b}}
  - {name: node-4, kind: new, at: {leaf: b}, taints: [reserved]}
"""
TWO_LEAVES = """
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 2, memory: 1GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: a}}
  - {name: node-2, kind: host, at: {leaf: a}}
  - {name: node-3, kind: host, at: {leaf: b}}
  - {name: node-4, kind: host, at: {leaf: b}}
"""


class DeclaredCluster(Cluster):
    def waiting(self, name, nodes=1, processes=2, scheduling=None, **resources):
        """A command that ends once finish(NAME) is called, on nodes with these properties."""
        self.submit(name, {"command": [*WAITER, f"{self.folder}/finish-{name}"],
                           "resources": {"nodes": nodes, "processes_per_node": processes,
                                         **resources},
                           "scheduling": scheduling or {}})

    def gang(self, name):
        return sorted(self.await_state(name, "running")["gang"])


class TwoModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=4, cluster=TWO_MODELS)
        cls.addClassCleanup(cls.cluster.close)

    def test_a_gang_lies_on_one_model_although_two_share_a_leaf(self):
        cluster = self.cluster
        cluster.waiting("gang", nodes=2)
        self.assertEqual(cluster.gang("gang"), ["node-1", "node-3"])
        cluster.finish("gang")
        cluster.waiting("mixed", nodes=2, mixed_devices=True)
        self.assertEqual(cluster.gang("mixed"), ["node-1", "node-2"])
        cluster.finish("mixed")

    def test_a_tainted_node_stays_empty_unless_a_job_tolerates_the_taint(self):
        cluster = self.cluster
        for name in ("first", "second", "third"):
            cluster.waiting(name, devices="H100")
        self.assertEqual(sorted(cluster.gang("first") + cluster.gang("second")),
                         ["node-1", "node-3"])
        self.assertEqual(cluster.job("third")["state"], "queued")
        cluster.waiting("bears", devices=["H100"], scheduling={"tolerates": ["reserved"]})
        self.assertEqual(cluster.gang("bears"), ["node-4"])
        for name in ("first", "second", "third", "bears"):
            cluster.finish(name)

    def reporting(self, name, **resources):
        """A command that writes the devices that it sees, and waits as the others do."""
        folder = self.cluster.folder
        script = (f'printf "%s %s" "$LONGHAUL_DEVICES" "$CUDA_VISIBLE_DEVICES" > {folder}/seen-{name}\n'
                  f'while [ ! -e {folder}/finish-{name} ]; do sleep 0.02; done')
        self.cluster.submit(name, {"command": ["bash", "-c", script],
                                   "environment": resources.pop("environment", {}),
                                   "resources": {"nodes": 1, "processes_per_node": 1,
                                                 "devices": "V100", **resources}})

    def seen(self, name):
        path = f"{self.cluster.folder}/seen-{name}"

        def written():
            return os.path.exists(path) and os.path.getsize(path) > 0
        local_run.await_that(written, f"{name} writes what it sees")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_workers_see_their_own_devices_and_shares_leave_the_rest_to_others(self):
        cluster = self.cluster
        for name, share in (("half", 0.5), ("quarter", 0.25), ("whole", 1)):
            self.reporting(name, share=share)
            cluster.await_state(name, "running")
        self.reporting("late", share=0.5, environment={"CUDA_VISIBLE_DEVICES": "9"})
        self.assertEqual(self.seen("half"), self.seen("quarter"))
        self.assertEqual({self.seen("half"), self.seen("whole")}, {"0 0", "1 1"})
        self.assertEqual(cluster.job("late")["state"], "queued")
        self.assertEqual(cluster.job("whole")["devices"],
                         [{"node": "node-2", "devices": [int(self.seen("whole")[0])]}])
        cluster.finish("half")
        cluster.await_state("late", "running")
        self.assertEqual(self.seen("late"), self.seen("quarter")[0] + " 9")
        for name in ("quarter", "whole", "late"):
            cluster.finish(name)

    def test_the_rules_of_a_topology_can_be_changed(self):
        cluster = self.cluster
        for name in ("north", "south"):
            cluster.waiting(name, devices="H100")
            cluster.gang(name)
        cluster.waiting("sliced", nodes=2, devices="H100",
                        scheduling={"topology": {"slice": {"nodes": 2, "level": "leaf"}},
                                    "tolerates": ["reserved"]})
        self.assertEqual(cluster.job("sliced")["state"], "queued")
        why = cluster.call("status", "sliced", "--why")
        self.assertIn("each 2 of them within one leaf", why)
        cluster.call("jobs", "change", "sliced", "--topology", '{"preferred": "leaf"}')
        spec = cluster.job("sliced")["job"]["scheduling"]
        self.assertEqual((spec["slice_nodes"], spec["preferred_topology"]), (0, "leaf"))
        refused = cluster.call("jobs", "change", "sliced", "--topology", '{"preferred": "laef"}', code=2)
        self.assertIn("did you mean 'leaf'", refused)
        for name in ("north", "south", "sliced"):
            cluster.finish(name)

    def test_memory_is_never_promised_twice(self):
        cluster = self.cluster
        for name in ("large", "larger"):
            cluster.waiting(name, processes=1, devices="V100", memory="600MiB")
        self.assertEqual(cluster.gang("large"), ["node-2"])
        self.assertEqual(cluster.job("larger")["state"], "queued")
        node = [each for each in cluster.nodes() if each["name"] == "node-2"][0]
        self.assertEqual(node["used_slots"], 1)
        for name in ("large", "larger"):
            cluster.finish(name)

    def test_the_command_that_is_stated_starts_a_gang_on_several_models(self):
        cluster = self.cluster
        cluster.waiting("one", devices="H100")
        taken = cluster.gang("one")[0]
        cluster.waiting("pair", nodes=2)
        self.assertEqual(cluster.follow("pair"), ["longhaul jobs change pair-1 --mixed-devices"])
        self.assertNotIn(taken, cluster.gang("pair"))
        for name in ("one", "pair"):
            cluster.finish(name)

    def test_properties_that_no_node_has_are_refused_and_nothing_is_submitted(self):
        cluster = self.cluster
        before = len(cluster.ask("jobs")["jobs"])
        job = {"command": ["true"]}
        size = {"nodes": 1, "processes_per_node": 1}
        for resources, scheduling, says in (
                ({"devices": "H10"}, {}, "did you mean 'H100'"),
                ({"memory": "2GiB"}, {}, "the largest size that fits this cluster is 0"),
                ({"device_memory": "90GiB"}, {}, "the largest, H100, has 80.00 GiB"),
                ({"share": 0.5, "device_memory": "20GiB", "devices": "V100"}, {},
                 "the largest, V100, has 16.00 GiB"),
                ({"share": 0.5, "processes_per_node": 2}, {}, "is for one worker on each node"),
                ({"share": 2}, {}, "2 is out of range: above 0, at most 1"),
                ({}, {"topology": "lef"}, "did you mean 'leaf'"),
                ({}, {"topology": {"required": "leaf", "preferred": "leaf"}}, "required already"),
                ({"nodes": 4}, {"topology": {"slice": {"nodes": 4, "level": "leaf"}}},
                 "the largest size that fits this cluster is 0"),
                ({"nodes": 3}, {}, "the largest size that fits this cluster is 2"),
                ({}, {"selector": {"pool": "prod"}}, "no node of the cluster has the labels")):
            said = cluster.submit("none", {**job, "resources": {**size, **resources},
                                           "scheduling": scheduling}, code=2)
            self.assertIn(says, said)
        self.assertEqual(len(cluster.ask("jobs")["jobs"]), before)


class TwoLeaves(unittest.TestCase):
    def test_a_gang_moves_whole_to_the_free_leaf_when_an_agent_is_killed(self):
        cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=4, cluster=TWO_LEAVES)
        self.addCleanup(cluster.close)
        cluster.waiting("gang", nodes=2, scheduling={"topology": "leaf"})
        gang = cluster.gang("gang")
        self.assertIn(gang, (["node-1", "node-2"], ["node-3", "node-4"]))
        other = sorted({"node-1", "node-2", "node-3", "node-4"} - set(gang))
        killed_at = time.monotonic()
        cluster.agents[gang[0]].send_signal(signal.SIGKILL)

        def moved():
            job = cluster.job("gang")
            return job["state"] == "running" and sorted(job["gang"]) == other
        local_run.await_that(moved, "the gang runs in the other leaf")
        print(f"moved {time.monotonic() - killed_at:.1f} s after the kill", file=sys.stderr)
        self.assertEqual(cluster.job("gang")["attempt"], 2)
        cluster.finish("gang")


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
