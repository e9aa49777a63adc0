"""`longhaul check` over the agents of a controller on this machine, and of this machine itself.

usage: node_check_test.py LONGHAUL
"""
import json
import signal
import subprocess
import sys
import unittest

import local_run
from properties_test import DeclaredCluster

CONFIG = "queues: [{name: research}]\ndefault_queue: research\n"
AGENTS = 6


class NodeCheck(unittest.TestCase):
    def setUp(self):
        self.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=AGENTS)
        self.addCleanup(self.cluster.close)

    def check(self, *words):
        """The status of a finished check, whatever its verdict is."""
        done = subprocess.run(["./longhaul", "check", "--json", *words], cwd=self.cluster.folder,
                              env=self.cluster.environment, capture_output=True, text=True,
                              timeout=120)
        status = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if status["verdict"] == "good" else 1, done.stderr)
        return status

    @staticmethod
    def verdicts(status):
        return {node["name"]: node["verdict"] for node in status["nodes"]}

    # Other programs may slow this machine down at any moment, so no test requires that no node is
    # slow.
    def test_no_node_of_a_healthy_machine_is_bad(self):
        text = self.cluster.call("check", "--nodes", "node-1,node-2")
        self.assertIn("round 1: self tests: 2 of 2 nodes answered\n", text)
        self.assertIn("round 2: pair tests: 1 of 1 pair passed\n", text)
        self.assertIn("verdict: good", text)
        status = self.check()
        self.assertEqual(len(status["nodes"]), AGENTS)
        self.assertNotIn("bad", self.verdicts(status).values(), status)
        self.assertNotEqual(status["verdict"], "bad", status)
        self.assertGreaterEqual(status["pair_tests"], 4 * AGENTS)
        for node in status["nodes"]:
            names = {each["name"]: each for each in node["measurements"]}
            self.assertEqual(set(names), {"matrix product", "memory copy", "disk write",
                                          "disk free", "clock difference"})
            self.assertGreater(names["matrix product"]["value"], 0)
            self.assertLess(abs(names["clock difference"]["value"]), 5)
        with open(f"{self.cluster.folder}/state/audit.log", encoding="utf-8") as audit:
            self.assertIn("POST /v1/checks", audit.read())

    def test_a_stopped_agent_is_named_and_nobody_else_is_bad(self):
        self.cluster.agents["node-3"].send_signal(signal.SIGSTOP)
        status = self.check()
        self.assertEqual(status["verdict"], "bad", status)
        bad = [name for name, verdict in self.verdicts(status).items() if verdict == "bad"]
        self.assertEqual(bad, ["node-3"], status)
        text = self.cluster.call("check", "--nodes", "node-1,node-3", code=1)
        self.assertIn("node-3", text)
        self.cluster.agents["node-3"].send_signal(signal.SIGCONT)
        local_run.await_that(lambda: all(each["connected"] for each in self.cluster.nodes()),
                             "all agents")
        self.assertNotIn("bad", self.verdicts(self.check()).values())

    def test_nodes_with_jobs_are_left_alone(self):
        self.cluster.waiting("pair", nodes=2)
        gang = self.cluster.gang("pair")
        self.assertEqual(len(gang), 2)
        status = self.check()
        self.assertEqual(set(self.verdicts(status)),
                         {f"node-{i}" for i in range(1, AGENTS + 1)} - set(gang))
        self.assertIn("runs jobs", self.cluster.call("check", "--nodes", gang[0], code=1))
        self.cluster.finish("pair")

    def test_wrong_use_ends_with_code_2(self):
        for words, says in ((("--nodes", "node-77"), "no node named node-77"),
                            (("--nodes", "node-1,node-1"), "names node-1 twice"),
                            (("--nodes", "a" * 5000), "not the name of a node"),
                            (("--local", "--nodes", "node-1"), "excludes"),
                            (("--dir", "/tmp"), "requires")):
            self.assertIn(says, self.cluster.call("check", *words, code=2), words)

    def test_the_self_test_of_this_machine_needs_no_controller(self):
        text = self.cluster.call("check", "--local", "--controller", "http://127.0.0.1:1")
        self.assertIn("matrix product", text)
        result = json.loads(self.cluster.call("check", "--local", "--json"))
        self.assertEqual([each["verdict"] for each in result["measurements"]], ["good"] * 4)
        text = self.cluster.call("check", "--local", "--dir", "/nonexistent", code=1)
        self.assertIn("cannot create /nonexistent/", text)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
