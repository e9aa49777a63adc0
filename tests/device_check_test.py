"""Check commands: what agents run to test the devices of their nodes in a node check.

usage: device_check_test.py LONGHAUL
"""
import json
import os
import subprocess
import sys
import unittest

import local_run
from properties_test import DeclaredCluster

CONFIG = "queues: [{name: research}]\ndefault_queue: research\n"
GOOD = """echo '{"name": "cuda:0 product", "model": "H100", "value": 600, "unit": "TFLOP/s"}'"""
SLOW = GOOD.replace("600", "290")
FAILING = GOOD + "\necho 'cuda:0 has fallen off the bus' >&2\nexit 3"
HANGING = "sleep 1000 &\nsleep 1000"
REPORTING = GOOD + """\necho '{"name": "cuda:3", "failed": "2 uncorrectable ECC errors"}'"""


class CheckedCluster(DeclaredCluster):
    """Agents whose check command is the script check-NODE, which is good at first."""

    def __init__(self, agents, config=CONFIG, limit=2):
        self.limit = limit
        super().__init__(sys.argv_programs, config, agents=agents)

    def start(self, *words):
        if words[0] == "agent":
            script = f"{self.folder}/check-{words[words.index('--node') + 1]}"
            if not os.path.exists(script):
                self.write(os.path.basename(script), GOOD)
            words = (*words, "--check-command", f"sh {script}", "--check-command-limit", str(self.limit))
        return super().start(*words)

    def begin_check(self, *words):
        return subprocess.Popen(["./longhaul", "check", "--json", *words], cwd=self.folder,
                                env=self.environment, stdout=subprocess.PIPE, text=True)

    def check(self, *words):
        """The nodes of a finished check by name, whatever the verdict is."""
        out, _ = self.begin_check(*words).communicate(timeout=120)
        return {node["name"]: node for node in json.loads(out)["nodes"]}

    def running(self, text):
        """How many processes of this cluster were started with this text in their command."""
        found = 0
        for pid in self.lab.processes():
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    found += text in file.read().replace("\0", " ")
            except OSError:
                pass  # it has ended
        return found


class DeviceCheck(unittest.TestCase):
    def cluster(self, agents, **options):
        cluster = CheckedCluster(agents, **options)
        self.addCleanup(cluster.close)
        return cluster

    # Other programs may slow this machine down at any moment, so that no test requires that a node
    # is not slow.
    def test_slow_failing_and_hanging_devices_are_named_and_no_other_node(self):
        cluster = self.cluster(agents=4)
        for name, node in cluster.check().items():
            self.assertNotIn("cuda", node["evidence"], name)
            self.assertEqual([(each["value"], each["median"]) for each in node["devices"]], [(600, 600)])
        for name, script in (("node-2", SLOW), ("node-3", FAILING), ("node-4", HANGING)):
            cluster.write(f"check-{name}", script)
        nodes = cluster.check()
        self.assertNotEqual(nodes["node-1"]["verdict"], "bad")
        self.assertNotIn("cuda", nodes["node-1"]["evidence"])
        self.assertEqual(nodes["node-2"]["verdict"], "slow")
        self.assertIn("cuda:0 product is slow: 290 TFLOP/s, the median is 600 TFLOP/s",
                      nodes["node-2"]["evidence"])
        self.assertEqual(nodes["node-2"]["devices"][0]["verdict"], "slow")
        self.assertEqual(nodes["node-3"]["verdict"], "bad")
        self.assertIn("the check command failed: it exited with code 3: cuda:0 has fallen off the bus",
                      nodes["node-3"]["evidence"])
        self.assertEqual(nodes["node-4"]["verdict"], "bad")
        self.assertIn("the check command did not end within 2 s and was killed", nodes["node-4"]["evidence"])
        self.assertEqual(cluster.running("sleep 1000"), 0)
        cluster.write("check-node-4", REPORTING)
        text = cluster.call("check", code=1)
        self.assertRegex(text, r"node-4 +cuda:3 +- +- +bad +2 uncorrectable ECC errors")
        self.assertRegex(text, r"node-2 +cuda:0 product +290 TFLOP/s +600 TFLOP/s +slow")
        self.assertIn("check commands: 4 of 4 nodes answered", text)

    def test_a_gang_does_not_start_on_a_new_node_with_a_bad_device(self):
        cluster = self.cluster(agents=3, config=CONFIG + "scheduling: {check_new_nodes: true}\n")
        # Whichever two nodes the gang gets at first, one of them is bad.
        cluster.write("check-node-1", REPORTING)
        cluster.write("check-node-2", GOOD)
        cluster.write("check-node-3", GOOD)
        cluster.waiting("pair", nodes=2)
        self.assertEqual(cluster.gang("pair"), ["node-2", "node-3"])
        job = cluster.job("pair")
        self.assertIn("2 uncorrectable ECC errors", json.dumps(job["faults"]))
        node = next(each for each in cluster.nodes() if each["name"] == "node-1")
        self.assertTrue(node["cordoned"], node)
        cluster.finish("pair")

    def test_a_job_ends_the_check_command_of_its_node(self):
        cluster = self.cluster(agents=1, limit=60)
        cluster.write("check-node-1", HANGING)
        check = cluster.begin_check()
        self.addCleanup(check.wait)
        local_run.await_that(lambda: cluster.running("sleep 1000") > 0, "the check command")
        cluster.waiting("alone", processes=1)
        cluster.gang("alone")
        out, _ = check.communicate(timeout=50)  # less than the limit of the command
        node = json.loads(out)["nodes"][0]
        self.assertEqual(node["evidence"], "not finished: a job began to use the node")
        self.assertEqual(cluster.running("sleep 1000"), 0)
        self.assertIn("node-1 runs jobs", cluster.call("check", "--nodes", "node-1", code=1))
        self.assertEqual(cluster.running("sleep 1000"), 0)
        cluster.finish("alone")


class OfThisMachine(unittest.TestCase):
    def check(self, *words, code=0, **environment):
        done = subprocess.run([sys.argv_programs[0], "check", *words], capture_output=True, text=True,
                              env={**os.environ, **environment}, timeout=60)
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, text)
        return text

    def test_it_is_shown_with_its_verdicts(self):
        text = self.check("--local", "--check-command", GOOD)
        self.assertRegex(text, r"cuda:0 product +600 TFLOP/s +good")
        text = self.check("--local", code=1, LONGHAUL_CHECK_COMMAND=REPORTING)
        self.assertRegex(text, r"cuda:3 +- +bad +2 uncorrectable ECC errors")
        result = json.loads(self.check("--local", "--json", "--check-command", FAILING, code=1))
        self.assertIn("fallen off the bus", result["devices"]["failure"])
        self.assertIn("line 1: it is not a JSON object: hello",
                      self.check("--local", "--check-command", "echo hello", code=1))
        self.assertIn("did not end within 1 s", self.check("--local", "--check-command", "sleep 1000",
                                                           "--check-command-limit", "1", code=1))

    def test_wrong_use_ends_with_code_2(self):
        for words, says in ((("--check-command", "true"), "requires"),
                            (("--check-command-limit", "5"), "requires"),
                            (("--local", "--check-command", "true", "--check-command-limit", "61"), "61"),
                            (("--local", "--check-command", "true", "--check-command-limit", "0"), "0")):
            self.assertIn(says, self.check(*words, code=2), words)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
