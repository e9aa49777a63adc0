"""A controller whose queue limits its users: who may submit, how much each has, how long jobs run.

usage: user_limits_test.py LONGHAUL
"""
import getpass
import json
import subprocess
import sys
import unittest

from properties_test import DeclaredCluster

CONFIG = """
cluster: cluster.yaml
queues:
  - {name: lab, users: [ada, bob], per_user: {jobs: 3, running: 1}}
  - {name: short, max_run_time: 2s}
default_queue: short
"""
CLUSTER = """
levels: [leaf]
models: {CPU: {memory: 1GiB}}
kinds: {host: {model: CPU, devices: 4, cpu: 4, memory: 4GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: a}}
"""


class UserLimits(unittest.TestCase):
    def setUp(self):
        self.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=1, slots=4,
                                       cluster=CLUSTER)
        self.addCleanup(self.cluster.close)

    def submit(self, name, user=None, queue="lab", code=0, **keys):
        self.cluster.write(f"{name}.yaml", json.dumps({
            "name": name, "command": ["sh", "-c", "sleep 600"],
            "resources": {"nodes": 1, "processes_per_node": 1},
            "scheduling": {"queue": queue, **keys}}))
        return self.cluster.call("submit", f"{name}.yaml", *(["--user", user] if user else []),
                                 code=code)

    def test_a_queue_admits_its_users_and_limits_what_each_has(self):
        cluster = self.cluster
        said = self.submit("c1", "carol", code=1)
        self.assertIn("user 'carol' may not submit to queue 'lab'", said)
        for name in ("a1", "a2", "a3"):
            self.submit(name, "ada")
        said = self.submit("a4", "ada", code=1)
        self.assertIn("user 'ada' has 3 live jobs in queue 'lab', which allows each user 3", said)
        self.submit("b1", "bob")
        cluster.await_state("a1", "running")
        cluster.await_state("b1", "running")
        self.assertEqual(cluster.job("a2")["state"], "queued")
        why = cluster.ask("status", "a2", "--why")
        self.assertEqual(why["reason"], "quota")
        self.assertIn("user 'ada' runs 1 job, and queue 'lab' allows each user 1 at a time",
                      why["sentence"])

        lab = next(each for each in cluster.ask("queues")["queues"] if each["name"] == "lab")
        self.assertEqual(lab["users"], ["ada", "bob"])
        self.assertEqual((lab["per_user"]["jobs"], lab["per_user"]["running"]), (3, 1))
        self.assertEqual([(each["user"], each["jobs"], each["running"]) for each in lab["held"]],
                         [("ada", 3, 1), ("bob", 1, 1)])
        text = cluster.call("queues")
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(["lab", "ada", "3/3", "1/1", "1/-", "0/-", "0/-"], rows)
        self.assertIn("lab: users: ada, bob", text)
        self.assertIn("short: longest run: 2 s", text)

        cluster.call("stop", "a1")
        cluster.await_state("a2", "running")

    def test_a_job_ends_when_it_has_run_for_long_enough(self):
        cluster = self.cluster
        said = self.submit("long", queue="short", code=2, expected_duration="1h")
        self.assertIn("queue 'short' ends jobs that have run for", said)
        self.submit("job", queue="short")
        job = cluster.await_state("job", "stopped")
        self.assertIn("it has run for 2 s, the longest that queue 'short' allows", job["reason"])

    def test_run_sends_the_name_of_the_account(self):
        cluster = self.cluster
        with open(f"{cluster.folder}/state/endpoint.json") as file:
            rest = json.load(file)["rest"]
        done = subprocess.run(
            ["./longhaul", "run", "--controller", rest, "--token-file", "state/token", "--nodes", "1",
             "--procs", "1", "--", "true"],
            cwd=cluster.folder, env=cluster.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = cluster.ask("usage", "--by", "user")["rows"]
        self.assertEqual([row["user"] for row in rows], [getpass.getuser()])


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
