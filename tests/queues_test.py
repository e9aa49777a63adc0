"""A controller with queues and two agents, as a user runs them: who runs where, who makes room, why.

usage: queues_test.py LONGHAUL LONGHAUL_TRAINER
"""
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

import local_run

CONFIG = """
cluster: cluster.yaml
queues:
  - {name: research, guarantee: {accelerators: 4}}
  - {name: small, parent: research, limit: {accelerators: 1}}
default_queue: research
priorities: {low: -100, high: 100}
"""
CLUSTER = """
levels: [leaf]
models: {CPU: {memory: 1GiB}}
kinds: {host: {model: CPU, devices: 2, cpu: 2, memory: 4GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: a}}
  - {name: node-2, kind: host, at: {leaf: a}}
"""
STEPS = 120
# Ends when its file is there; says so by its exit code.
WAITER = ["sh", "-c", "while [ ! -e \"$0\" ]; do sleep 0.05; done"]
OVER = ("succeeded", "failed", "stopped")


class Cluster:
    """Programs in a folder of their own, and what they are asked."""

    def __init__(self, programs, config=CONFIG, agents=2, slots=2, cluster=CLUSTER):
        self.lab = local_run.Lab(programs)
        self.folder = self.lab.folder
        self.children = []
        self.agents = {}  # processes by node
        key, value = self.lab.marker.split("=")
        self.environment = {**os.environ, key: value,
                            "LONGHAUL_ENDPOINT": f"{self.folder}/state/endpoint.json"}
        self.write("controller.yaml", config)
        self.write("cluster.yaml", cluster)
        self.controller = self.start_controller("127.0.0.1:0")
        with open(f"{self.folder}/state/endpoint.json") as file:
            self.agents_address = json.load(file)["agents"]
        for number in range(1, agents + 1):
            self.agents[f"node-{number}"] = self.start(
                "agent", "--controller", self.agents_address, "--token-file", "state/token",
                "--node", f"node-{number}", "--slots", str(slots), "--state-dir", f"agent-{number}",
                "--allow-root")
        local_run.await_that(lambda: len(self.nodes()) == agents, "all nodes")

    def close(self):
        for pid in self.lab.processes():
            os.kill(pid, signal.SIGKILL)
        for child in self.children:
            child.wait()
            child.stdout.close()
        local_run.await_that(lambda: not self.lab.processes(), "the end of all processes")
        self.lab.close()

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    def start(self, *words):
        self.children.append(subprocess.Popen(
            ["./longhaul", *words], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return self.children[-1]

    def start_controller(self, agents):
        process = self.start("controller", "--state-dir", "state", "--config", "controller.yaml",
                             "--agents", agents)
        line = process.stdout.readline()
        assert line.startswith("controller ready"), line
        return process

    def call(self, *words, code=0):
        """Runs a client command; returns what it printed."""
        done = subprocess.run(["./longhaul", *words], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=60)
        text = done.stdout + done.stderr
        assert done.returncode == code, f"{words}: exit code {done.returncode}\n{text}"
        return text

    def ask(self, *words):
        return json.loads(self.call(*words, "--json"))

    def submit(self, name, job, code=0):
        self.write(f"{name}.yaml", json.dumps({"name": name, **job}))
        return self.call("submit", f"{name}.yaml", code=code)

    def waiter(self, name, nodes=1, processes=2, **scheduling):
        """A command that ends once finish(NAME) is called."""
        self.submit(name, {"command": [*WAITER, f"{self.folder}/finish-{name}"],
                           "resources": {"nodes": nodes, "processes_per_node": processes},
                           "scheduling": scheduling})

    def finish(self, name):
        self.write(f"finish-{name}", "")
        self.await_state(name, "succeeded")

    def trainer(self, name, **scheduling):
        self.submit(name, {
            "model": {"layers": 1, "hidden": 32, "heads": 2, "sequence": 32},
            "data": {"include": [f"{self.folder}/data/*.txt"], "held_out": 0.1},
            "train": {"steps": STEPS, "global_batch": 8, "warmup_steps": 5, "evaluate_every": 0,
                      "evaluate_sequences": 8},
            "resources": {"nodes": 2, "processes_per_node": 2}, "scheduling": scheduling})

    def job(self, name):
        return self.ask("status", name)

    def await_state(self, name, *states):
        def reached():
            job = self.job(name)
            if job["state"] in states:
                return job
            assert job["state"] not in OVER, f"{name}: {job['state']}: {job['reason']}"
            return None
        return local_run.await_that(reached, f"{name} is {states}")

    def follow(self, name):
        """Runs the commands that are said to start a job; returns them once it runs."""
        why = self.ask("status", name, "--why")
        text = self.call("status", name, "--why")
        commands = [why["at_once"]] if "at_once" in why else why["commands"]
        for command in commands:
            assert command in text, text
            words = shlex.split(command)
            assert words[0] == "longhaul", command
            self.call(*words[1:])
        self.await_state(name, "running")
        return commands

    def nodes(self):
        return self.ask("nodes")["nodes"]

    def weights(self, job):
        found = [json.loads(text) for text in job["results"]]
        return [result["weights_hash"] for result in found if "weights_hash" in result]


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(sys.argv_programs)
        cls.addClassCleanup(cls.cluster.close)

    def test_a_victim_takes_a_snapshot_waits_and_ends_with_equal_weights(self):
        cluster = self.cluster
        cluster.trainer("plain")
        plain = cluster.await_state("plain", "succeeded")
        cluster.trainer("victim", priority="low")
        local_run.await_that(lambda: cluster.job("victim")["step"] > 20, "steps")
        cluster.waiter("urgent", priority="high")
        cluster.await_state("urgent", "running")
        victim = cluster.job("victim")
        self.assertEqual(victim["state"], "queued")
        self.assertGreater(victim["memory_step"], 20)
        self.assertEqual(victim["preemptions"], 1)
        stopped_at = victim["memory_step"]

        why = cluster.ask("status", "victim", "--why")
        self.assertEqual(why["state"], "queued")
        self.assertEqual(why["reason"], "no-room")
        # It has begun with two nodes and keeps them. Evicted alone, the other one would come back
        # first, and stop it again.
        self.assertEqual(why["fix"], ["put it before all other jobs", "stop urgent-1"])
        self.assertEqual(why["at_once"], """longhaul apply '[{"expedite":"victim-1"},"""
                                         """{"evict":"urgent-1"}]'""")
        self.assertGreater(why["expected_start_ns"], 0)
        self.assertIn("would start it:", cluster.call("status", "victim", "--why"))

        cluster.finish("urgent")
        victim = cluster.await_state("victim", "succeeded")
        self.assertEqual(victim["step"], STEPS)
        self.assertEqual(victim["restarts"], 0)
        self.assertEqual(victim["faults"], [])
        self.assertGreater(stopped_at, 0)
        self.assertEqual(len(cluster.weights(plain)), 1)
        self.assertEqual(cluster.weights(victim), cluster.weights(plain))

    def test_queues_and_why_say_who_uses_what(self):
        cluster = self.cluster
        cluster.waiter("one", processes=1, queue="small")
        cluster.await_state("one", "running")
        cluster.waiter("two", processes=1, queue="small")
        queues = {queue["name"]: queue for queue in cluster.ask("queues")["queues"]}
        self.assertEqual(set(queues), {"cluster", "research", "small"})
        self.assertEqual(queues["small"]["parent"], "research")
        self.assertEqual(queues["small"]["usage"]["accelerators"], 1)
        self.assertEqual(queues["small"]["borrowed"]["accelerators"], 1)
        self.assertEqual((queues["small"]["running"], queues["small"]["waiting"]), (1, 1))
        self.assertEqual(queues["research"]["usage"]["accelerators"], 1)
        self.assertEqual(queues["research"]["guarantee"]["accelerators"], 4)
        self.assertIn("small", cluster.call("queues"))
        why = cluster.ask("status", "two", "--why")
        self.assertEqual(why["reason"], "quota")
        self.assertEqual(why["fix"], ["raise the limit of queue 'small' from 1 accelerators to 2 accelerators"])
        cluster.finish("one")
        cluster.await_state("two", "running")
        cluster.finish("two")

    def test_each_stated_command_starts_its_job(self):
        cluster = self.cluster
        cluster.waiter("ones", processes=1, queue="small")
        cluster.await_state("ones", "running")
        cluster.waiter("twos", processes=1, queue="small")
        said = cluster.follow("twos")
        self.assertEqual(len(said), 1)
        self.assertTrue(said[0].startswith("longhaul queues limit small --accelerators 2"), said)
        for name in ("ones", "twos"):
            cluster.finish(name)
        cluster.call("queues", "limit", "small", "--accelerators", "1")

        cluster.waiter("whole", preemption="never")
        taken = cluster.await_state("whole", "running")["gang"][0]
        cluster.waiter("narrow", nodes=2)
        self.assertEqual(cluster.follow("narrow"), ["longhaul jobs change narrow-1 --nodes 1"])
        self.assertEqual(cluster.job("narrow")["job"]["nodes"], 1)
        cluster.finish("narrow")

        other = "node-2" if taken == "node-1" else "node-1"
        cluster.call("nodes", "cordon", other)
        cluster.waiter("shut")
        self.assertEqual(cluster.follow("shut"), [f"longhaul nodes uncordon {other}"])
        cluster.waiter("last")
        # It starts while the evicted job stops, so that one does not come back first.
        self.assertEqual(cluster.follow("last"), ["longhaul jobs evict shut-1"])
        cluster.finish("last")
        cluster.await_state("shut", "running")
        for name in ("shut", "whole"):
            cluster.finish(name)
        said = cluster.call("jobs", "expedite", "shut", code=1)
        self.assertIn("does not wait", said)
        self.assertIn("did you mean", cluster.call("apply", '[{"evcit": "a"}]', code=2))

    def test_cordon_drain_and_uncordon(self):
        cluster = self.cluster
        cluster.waiter("stays", processes=1)
        node = cluster.await_state("stays", "running")["gang"][0]
        other = "node-2" if node == "node-1" else "node-1"
        self.assertIn("cordoned", cluster.call("nodes", "cordon", other, "--reason", "a test"))
        cluster.waiter("wide", nodes=2, processes=1)
        self.assertEqual(cluster.job("wide")["state"], "queued")
        self.assertEqual(cluster.job("stays")["state"], "running")
        cluster.call("nodes", "uncordon", other)
        cluster.await_state("wide", "running")
        cluster.finish("wide")
        text = cluster.call("nodes", "drain", node, "--timeout", "30s")
        self.assertIn(f"{node} is empty", text)
        stays = cluster.await_state("stays", "running")
        self.assertEqual(stays["gang"], [other])
        self.assertEqual(stays["moves"], 1)
        drained = next(each for each in cluster.nodes() if each["name"] == node)
        self.assertEqual((drained["condition"], drained["jobs"]), ("draining", []))
        # No place is left for it: the drain waits in vain and says what it waits for.
        text = cluster.call("nodes", "drain", other, "--timeout", "0.2s", code=1)
        self.assertIn(f"{other} still runs stays-1 after 0.2s", text)
        for each in (node, other):
            cluster.call("nodes", "uncordon", each)
        cluster.finish("stays")

    def test_a_killed_controller_remembers_who_runs_and_who_waits(self):
        cluster = self.cluster
        cluster.waiter("holds", nodes=2, priority="high")
        cluster.await_state("holds", "running")
        cluster.waiter("behind", priority="low")
        cluster.waiter("first", priority="5")
        before = [job["job"]["id"] for job in cluster.ask("jobs")["jobs"]]
        cluster.controller.send_signal(signal.SIGKILL)
        cluster.controller.wait()
        cluster.controller = cluster.start_controller(cluster.agents_address)
        self.assertEqual([job["job"]["id"] for job in cluster.ask("jobs")["jobs"]], before)
        local_run.await_that(lambda: all(node["connected"] for node in cluster.nodes()),
                             "the agents are back")
        holds = cluster.job("holds")
        self.assertEqual((holds["state"], holds["attempt"], holds["faults"]), ("running", 1, []))
        self.assertEqual(cluster.job("behind")["state"], "queued")
        cluster.call("nodes", "cordon", "node-2")
        cluster.finish("holds")
        cluster.await_state("first", "running")
        self.assertEqual(cluster.job("behind")["state"], "queued")
        cluster.finish("first")
        cluster.await_state("behind", "running")
        cluster.finish("behind")
        cluster.call("nodes", "uncordon", "node-2")

    @unittest.skipUnless(os.geteuid() == 0, "not root: an agent of another user is never root")
    def test_an_agent_is_not_started_as_root_unless_said(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.argv_programs[0], "agent", "--controller", "127.0.0.1:1",
                 "--token-file", "none", "--node", "node-1", "--state-dir", f"{folder}/agent"],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("add --run-as USER or --allow-root", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_bad_input_is_refused_with_exit_code_2(self):
        cluster = self.cluster
        job = {"command": ["true"], "resources": {"nodes": 1, "processes_per_node": 1}}
        said = cluster.submit("lost", {**job, "scheduling": {"queue": "nowhere"}}, code=2)
        self.assertIn("there is no queue 'nowhere'", said)
        said = cluster.submit("urgent", {**job, "scheduling": {"priority": "now"}}, code=2)
        self.assertIn("no priority named 'now'", said)
        said = cluster.submit("often", {**job, "scheduling": {"preemption": "often"}}, code=2)
        self.assertIn("'often' is not never, shrink, suspend or requeue", said)
        said = cluster.submit("far", {**job, "scheduling": {"topology": "block"}}, code=2)
        self.assertIn("no level 'block'; there is leaf", said)
        for text, says in (
                ("queues: [{name: a, parent: b}, {name: b, parent: a}]", "circle"),
                ("cluster: cluster.yaml\nqueues: [{name: a, guarantee: {accelerators: 5}}]", "5 accelerators"),
                ("queues: [{name: a, gurantee: {accelerators: 5}}]", "did you mean 'guarantee'?"),
                ("cluster: none.yaml", "none.yaml")):
            cluster.write("bad.yaml", text)
            said = cluster.call("controller", "--state-dir", "other", "--config", "bad.yaml",
                                code=1 if "none" in text else 2)
            self.assertIn(says, said)


class AbsentNodes(unittest.TestCase):
    def test_a_job_waits_for_a_node_of_the_cluster_file_that_is_absent(self):
        cluster = Cluster(sys.argv_programs, agents=1)
        self.addCleanup(cluster.close)
        cluster.waiter("both", nodes=2)
        self.assertEqual(cluster.job("both")["state"], "queued")
        refused = cluster.submit("three", {"command": ["true"], "resources": {
            "nodes": 3, "processes_per_node": 2}}, code=2)
        self.assertIn("the job wants 3 nodes, the cluster has 2 nodes", refused)
        cluster.start("agent", "--controller", cluster.agents_address, "--token-file",
                      "state/token", "--node", "node-2", "--slots", "2", "--state-dir", "agent-2",
                      "--allow-root")
        cluster.await_state("both", "running")
        cluster.finish("both")


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
