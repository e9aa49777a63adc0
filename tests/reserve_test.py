"""A controller and agents: nodes that are reserved, and a maintenance window.

usage: reserve_test.py LONGHAUL
"""
import signal
import sys
import unittest

from properties_test import DeclaredCluster
import local_run

CONFIG = """
cluster: cluster.yaml
queues: [{name: research}, {name: teaching}]
default_queue: research
scheduling: {repair_patience: 1s}
"""
CLUSTER = """
levels: [rack]
models: {CPU: {memory: 1GiB}}
kinds: {host: {model: CPU, devices: 2, cpu: 2, memory: 1GiB}}
nodes:
  - {name: node-1, kind: host, at: {rack: rack-1}}
  - {name: node-2, kind: host, at: {rack: rack-2}}
"""


class Reserve(unittest.TestCase):
    def setUp(self):
        self.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=2, cluster=CLUSTER)
        self.addCleanup(self.cluster.close)

    def names(self):
        return [each["name"] for each in self.cluster.ask("reserve", "--list")["reservations"]]

    def test_a_window_empties_its_nodes_survives_a_restart_and_is_cancelled(self):
        cluster = self.cluster
        cluster.waiting("pair", nodes=2)
        cluster.await_state("pair", "running")
        self.assertIn("no reservations", cluster.call("reserve", "--list"))
        text = cluster.call("reserve", "fans", "--nodes", "rack-1", "--for", "1h", "--reason",
                            "new fans")
        self.assertIn("rack-1", text)
        self.assertIn("nobody", text)
        # Half of the pair's nodes are gone, so it waits.
        cluster.await_state("pair", "queued")
        node = next(each for each in cluster.nodes() if each["name"] == "node-1")
        self.assertEqual((node["window"]["reservation"], node["window"]["open"]), ("fans", True))
        self.assertIn("ready, maintenance", cluster.call("nodes"))
        self.assertIn("fans: maintenance of 1 node from", cluster.call("nodes"))
        self.assertIn("1 node is reserved as fans until", cluster.call("status", "pair", "--why"))
        cluster.waiting("one")
        self.assertEqual(cluster.gang("one"), ["node-2"])

        cluster.controller.send_signal(signal.SIGKILL)
        cluster.controller.wait()
        cluster.controller = cluster.start_controller(cluster.agents_address)
        local_run.await_that(lambda: all(each["connected"] for each in cluster.nodes()), "agents")
        self.assertEqual(self.names(), ["fans"])
        cluster.finish("one")
        self.assertEqual(cluster.job("pair")["state"], "queued")

        self.assertIn("fans is cancelled", cluster.call("reserve", "fans", "--cancel"))
        self.assertEqual(self.names(), [])
        cluster.await_state("pair", "running")
        cluster.finish("pair")

    def test_a_queue_has_reserved_nodes_and_others_none(self):
        cluster = self.cluster
        cluster.call("reserve", "--nodes", "node-1", "--nodes", "node-2", "--for", "1h",
                     "--queue", "teaching", "course")
        cluster.waiting("other")
        cluster.waiting("lesson", scheduling={"queue": "teaching"})
        cluster.await_state("lesson", "running")
        self.assertEqual(cluster.job("other")["state"], "queued")
        cluster.finish("lesson")

    def test_wrong_use_ends_with_code_2(self):
        for words, says in (
                (("fans",), "--nodes is missing"),
                (("--nodes", "node-1"), "NAME of the reservation is missing"),
                (("fans", "--nodes", "node-1"), "one of --until and --for is needed"),
                (("fans", "--nodes", "node-1", "--for", "1h", "--until", "+1h"),
                 "one of --until and --for is needed"),
                (("fans", "--list"), "--list stands alone"),
                (("fans", "--cancel", "--for", "1h"), "--cancel takes a NAME"),
                (("fans", "--cancel"), "there is no reservation 'fans'"),
                (("fans", "--nodes", "rack-9", "--for", "1h"), "did you mean 'rack-1'"),
                (("fans", "--nodes", "node-1", "--for", "1h", "--queue", "x"),
                 "there is no queue 'x'"),
                (("fans", "--nodes", "node-1", "--from", "soon", "--for", "1h"),
                 "'soon' is not a time"),
                (("fans", "--nodes", "node-1", "--until", "2026-01-01"), "which is past"),
                (("a" * 10_000, "--nodes", "node-1", "--for", "1h"), "too long"),
                (("fans", "--nodes", "node-1", "--for", "400d"), "longer than 366 days")):
            self.assertIn(says, self.cluster.call("reserve", *words, code=2))
        self.cluster.call("reserve", "a", "--nodes", "rack-1", "--from", "+1h", "--for", "1h")
        self.assertIn("node-1 is reserved as a from",
                      self.cluster.call("reserve", "b", "--nodes", "node-1", "--for", "2h", code=1))


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
