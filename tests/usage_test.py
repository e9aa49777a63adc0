"""A controller and agents of two device models: the accelerator-hours of two users' jobs.

usage: usage_test.py LONGHAUL
"""
import csv
import datetime
import io
import json
import signal
import subprocess
import sys
import unittest

import local_run
from properties_test import DeclaredCluster

CONFIG = """
cluster: cluster.yaml
queues: [{name: research}, {name: tests}]
default_queue: research
"""
TWO_MODELS = """
levels: [leaf]
models: {H100: {memory: 80GiB}, V100: {memory: 16GiB}}
kinds:
  new: {model: H100, devices: 2, cpu: 2, memory: 1GiB}
  old: {model: V100, devices: 2, cpu: 2, memory: 1GiB}
nodes:
  - {name: node-1, kind: new, at: {leaf: a}}
  - {name: node-2, kind: old, at: {leaf: a}}
  - {name: node-3, kind: new, at: {leaf: b}}
"""
# The answer has seconds in double precision; all times in it are whole nanoseconds.
TOLERANCE_S = 1e-6


def iso(at_ns):
    """The instant with all of its nanoseconds."""
    second = datetime.datetime.fromtimestamp(at_ns // 10**9, datetime.timezone.utc)
    return f"{second:%Y-%m-%dT%H:%M:%S}.{at_ns % 10**9:09d}Z"


class Usage(unittest.TestCase):
    def setUp(self):
        self.cluster = DeclaredCluster(sys.argv_programs, CONFIG, agents=3, cluster=TWO_MODELS)
        self.addCleanup(self.cluster.close)

    def start(self, name, user, device, project=None, processes=2):
        """A job of `user` that runs once this returns."""
        cluster = self.cluster
        cluster.write(f"{name}.yaml", json.dumps({
            "name": name, "command": ["sh", "-c", "while [ ! -e \"$0\" ]; do sleep 0.05; done",
                                      f"{cluster.folder}/finish-{name}"],
            "resources": {"nodes": 1, "processes_per_node": processes, "devices": device},
            "scheduling": {"project": project} if project else {}}))
        cluster.call("submit", f"{name}.yaml", *(["--user", user] if user else []))
        cluster.await_state(name, "running")

    def held_seconds(self, name):
        """From the moment at which the job got its nodes until its end, by its own status."""
        job = self.cluster.job(name)
        self.assertEqual(job["state"], "succeeded")
        seconds = (job["ended_at_ns"] - job["sizes"][0]["at_ns"]) / 1e9
        return seconds * job["job"]["processes_per_node"]

    def test_hours_are_the_time_for_which_jobs_held_their_nodes(self):
        cluster = self.cluster
        self.start("one", "ada", "H100", project="vision")
        self.start("two", "ada", "V100")
        self.start("three", "bob", "H100", processes=1)
        running = {row["job"]: row for row in cluster.ask("usage", "--by", "job")["rows"]}
        self.assertEqual(sorted(running), ["one-1", "three-1", "two-1"])
        for name in ("one", "two", "three"):
            cluster.finish(name)
        # A lost agent: the job holds its node until another one takes its place.
        self.start("four", "bob", "H100")
        killed = cluster.job("four")["gang"][0]
        cluster.agents[killed].send_signal(signal.SIGKILL)
        local_run.await_that(lambda: cluster.job("four")["attempt"] == 2 and
                             cluster.job("four")["state"] == "running", "the second attempt")
        cluster.finish("four")

        held = {name: self.held_seconds(name) for name in ("one", "two", "three", "four")}
        answer = cluster.ask("usage", "--by", "user,kind")
        rows = {(row["user"], row["kind"]): row for row in answer["rows"]}
        expected = {("ada", "H100"): held["one"], ("ada", "V100"): held["two"],
                    ("bob", "H100"): held["three"] + held["four"]}
        self.assertEqual(sorted(rows), sorted(expected))
        for key, seconds in expected.items():
            self.assertGreater(seconds, 0)
            self.assertAlmostEqual(rows[key]["accelerator_hours"] * 3600, seconds,
                                   delta=TOLERANCE_S, msg=str(key))
        self.assertEqual(rows[("bob", "H100")]["jobs"], 2)
        self.assertAlmostEqual(answer["total"]["accelerator_hours"] * 3600, sum(held.values()),
                               delta=4 * TOLERANCE_S)
        self.assertAlmostEqual(sum(row["share"] for row in answer["rows"]), 1.0)
        for row in answer["rows"]:
            parts = row["productive_hours"] + row["unreported_hours"] + row["lost_hours"]
            self.assertAlmostEqual(parts, row["accelerator_hours"])
            self.assertGreater(row["unreported_hours"], 0)  # the commands report no steps

        self.check_projects_and_windows(held)
        # A controller that is started again has replayed the log.
        cluster.controller.send_signal(signal.SIGKILL)
        cluster.controller.wait()
        cluster.start_controller(cluster.agents_address)
        again = cluster.ask("usage", "--by", "user,kind")
        self.assertEqual(again["rows"], answer["rows"])

    def check_projects_and_windows(self, held):
        cluster = self.cluster
        table = list(csv.DictReader(io.StringIO(cluster.call("usage", "--by", "project", "--csv"))))
        hours = {row["project"]: float(row["accelerator_hours"]) for row in table}
        self.assertAlmostEqual(hours["vision"] * 3600, held["one"], delta=1e-5)
        self.assertEqual(sorted(hours), ["none", "vision"])
        text = cluster.call("usage", "--by", "queue,project")
        self.assertIn("research  none", text)
        self.assertIn("total", text)
        # Two parts that meet within a stay sum to the whole.
        job = cluster.job("two")
        middle = (job["sizes"][0]["at_ns"] + job["ended_at_ns"]) // 2
        stamp = iso(middle)
        parts = [cluster.ask("usage", "--by", "job", *words)["rows"]
                 for words in (("--until", stamp), ("--since", stamp))]
        seconds = [[row["accelerator_hours"] * 3600 for row in part if row["job"] == "two-1"]
                   for part in parts]
        self.assertAlmostEqual(seconds[0][0], held["two"] / 2, delta=TOLERANCE_S)
        self.assertAlmostEqual(seconds[1][0], held["two"] / 2, delta=TOLERANCE_S)

    def test_bad_parameters_end_with_code_2_and_the_remedy(self):
        cluster = self.cluster
        for words, says in ((("--by", "usr"), "did you mean 'user'"),
                            (("--since", "yesterday"), "write a duration before now"),
                            (("--since", "1d", "--until", "2d"), "is not before until"),
                            (("--csv", "--json"), "excludes")):
            self.assertIn(says, cluster.call("usage", *words, code=2))
        cluster.write("job.yaml", "command: ['true']\nscheduling: {project: 'a b'}\n")
        self.assertIn("scheduling.project: 'a b' is not a name",
                      cluster.call("submit", "job.yaml", code=2))
        cluster.write("job.yaml", "command: ['true']\n")
        self.assertIn("'a b' is not a user's name",
                      cluster.call("submit", "job.yaml", "--user", "a b", code=2))


class SimulatedUsage(unittest.TestCase):
    def test_counts_each_node_that_the_job_holds(self):
        """Three of four nodes for 72 minutes, less the start; the fourth is a spare."""
        done = subprocess.run(
            [*sys.argv_programs, "simulate", "--nodes", "4", "--days", "0.05", "--seed", "7",
             "--fault-factor", "0", "--json"], capture_output=True, text=True, check=True)
        simulated = json.loads(done.stdout)
        used = simulated["usage_accelerator_seconds"]
        self.assertEqual(used, simulated["ledger_accelerator_seconds"])
        self.assertGreaterEqual(used, 3 * 6 * 0.9 * simulated["steps_taken"])
        self.assertLessEqual(used, 3 * 0.05 * 86400)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:2]
    unittest.main(argv=sys.argv[:1])
