"""Arrays, dependencies and files of several jobs on a controller and two agents.

usage: arrays_test.py LONGHAUL LONGHAUL_TRAINER
"""
import json
import os
import signal
import sys
import unittest

import local_run
from queues_test import Cluster

PROGRAMS = sys.argv[1:3]
# Writes down what it is given, and ends when its file is there; an element may end with code 3.
ELEMENT = """
set -u
cd "$0"
printf '%s %s %s %s\\n' "$LONGHAUL_ARRAY_ID" "$LONGHAUL_ARRAY_INDEX" "$LONGHAUL_ARRAY_COUNT" \
  "${LONGHAUL_ARRAY_VALUE-none}" > "seen-$LONGHAUL_ARRAY_INDEX"
while [ ! -e "go-$LONGHAUL_ARRAY_INDEX" ]; do sleep 0.02; done
exit "$(cat "go-$LONGHAUL_ARRAY_INDEX")"
"""


def command(*words):
    return {"command": list(words), "max_restarts": 0,
            "resources": {"nodes": 1, "processes_per_node": 1}}


class Arrays(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(PROGRAMS, config="scheduling: {array_limit: 100}\n")
        self.addCleanup(self.cluster.close)

    def element(self, **more):
        return {**command("bash", "-c", ELEMENT, self.cluster.folder), **more}

    def go(self, index, code=0):
        self.cluster.write(f"part-{index}", str(code))
        os.rename(f"{self.cluster.folder}/part-{index}", f"{self.cluster.folder}/go-{index}")

    def seen(self, index):
        path = f"{self.cluster.folder}/seen-{index}"
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return file.read() or None

    def states(self, array):
        return [job["state"] for job in self.cluster.ask("status", array, "--elements")["jobs"]]

    def test_an_array_runs_element_by_element_over_a_controllers_death(self):
        cluster = self.cluster
        text = cluster.submit("sweep", self.element(array={"values": ["a", "b c", "d"],
                                                           "at_once": 2}))
        self.assertIn("submitted sweep-1: 3 elements", text)
        local_run.await_that(lambda: self.seen(1), "element 1")
        self.assertEqual(self.seen(1), "sweep-1 1 3 b c\n")
        self.assertIsNone(self.seen(2))
        self.assertEqual(self.states("sweep")[2], "queued")
        why = cluster.ask("status", "sweep-1_2", "--why")
        self.assertEqual(why["reason"], "array-limit")
        self.assertIn("array.at_once", why["sentence"])
        # One line in the list, unless asked for.
        self.assertEqual([job["job"]["id"] for job in cluster.ask("jobs")["jobs"]], ["sweep-1"])
        self.assertEqual(len(cluster.ask("jobs", "--elements")["jobs"]), 3)
        self.assertRegex(cluster.call("jobs"), r"sweep-1 +running .*1 queued, 2 running")

        cluster.controller.send_signal(signal.SIGKILL)
        cluster.controller.wait()
        cluster.controller = cluster.start_controller(cluster.agents_address)
        self.assertEqual(len(self.states("sweep")), 3)
        self.go(1)
        local_run.await_that(lambda: self.seen(2), "element 2")
        self.go(0)
        self.go(2)
        job = cluster.await_state("sweep", "succeeded")
        self.assertEqual(job["reason"], "3 of 3 elements succeeded")
        self.assertTrue(os.path.isdir(f"{cluster.folder}/state/sweep-1/2/logs"))

    def test_a_file_of_jobs_runs_in_its_order_and_ends_what_can_never_start(self):
        cluster = self.cluster
        cluster.write("jobs.yaml", json.dumps({"jobs": [
            {"name": "report", **command("true"), "after": {"jobs": ["sweep"], "when": "end"}},
            {"name": "after-all", **command("true"), "after": ["sweep", "first"]},
            {"name": "sweep", **self.element(array={"count": 2}), "after": ["first"]},
            {"name": "never", **command("true"), "after": ["after-all"]},
            {"name": "first", **command("sh", "-c", f"while [ ! -e {cluster.folder}/go-first ]; do "
                                        "sleep 0.02; done")}]}))
        text = cluster.call("submit", "jobs.yaml")
        self.assertLess(text.index("first-1"), text.index("sweep-1: 2 elements"))
        why = cluster.ask("status", "sweep", "--why")
        self.assertEqual(why["reason"], "dependency")
        self.assertEqual(why["sentence"], "waits for job first-1 to succeed")
        self.assertEqual(why["commands"], ["longhaul jobs release sweep-1"])
        self.assertEqual(cluster.job("after-all")["reason"],
                         "waits for array sweep-1, job first-1 to succeed")
        cluster.write("go-first", "")
        self.go(0)
        self.go(1, code=3)
        cluster.await_state("report", "succeeded")
        self.assertEqual(cluster.job("sweep")["state"], "failed")
        self.assertEqual(self.seen(0), "sweep-1 0 2 none\n")
        self.assertIn("never started: an element of array sweep-1 did not succeed",
                      cluster.job("after-all")["reason"])
        self.assertIn("never started: job after-all-1 did not succeed",
                      cluster.job("never")["reason"])
        # What has ended may still be named, unless in vain.
        cluster.submit("later", {**command("true"), "after": ["report"]})
        cluster.await_state("later", "succeeded")
        self.assertIn("array sweep-1 did not succeed, so a job that waits for it to succeed would",
                      cluster.submit("vain", {**command("true"), "after": ["sweep"]}, code=2))

    def test_an_array_is_stopped_and_released_as_a_whole(self):
        cluster = self.cluster
        cluster.waiter("first", processes=1)
        cluster.submit("sweep", self.element(array={"count": 6}, after=["first"]))
        cluster.follow("sweep")
        self.assertEqual(cluster.job("first")["state"], "running")
        local_run.await_that(lambda: self.states("sweep").count("running") == 3, "3 elements")
        self.assertIn("sweep-1 is an array: name one of its 6 elements, such as sweep-1_0",
                      cluster.call("logs", "sweep-1", code=1))
        cluster.call("stop", "sweep-1")
        local_run.await_that(lambda: self.states("sweep") == ["stopped"] * 6, "the stop")
        cluster.finish("first")

    def test_refuses_what_could_not_be_meant_and_submits_nothing(self):
        cluster = self.cluster
        for job, says in [
                ({"array": {"count": 1000000}},
                 "1,000,000 elements; this controller accepts at most 100 (scheduling.array_limit"),
                ({"array": {"count": 0}}, "array.count: 0 is out of range"),
                ({"array": {"count": -1}}, "array.count: -1 is out of range"),
                ({"array": {"count": 3, "values": ["a"]}}, "3 disagrees with the 1 of array.values"),
                ({"after": ["frist"]}, "no job with the id or name frist"),
                ({"after": ["bad"]}, "job 'bad' would wait for itself")]:
            self.assertIn(says, cluster.submit("bad", {**command("true"), **job}, code=2))
        cluster.write("cycle.yaml", json.dumps({"jobs": [
            {"name": "fine", **command("true")},
            {"name": "a", **command("true"), "after": ["b"]},
            {"name": "b", **command("true"), "after": ["a"]}]}))
        self.assertIn("a -> b -> a", cluster.call("submit", "cycle.yaml", code=2))
        cluster.write("twice.yaml", json.dumps({"jobs": [
            {"name": "a", **command("true")}, {"name": "a", **command("true")}]}))
        self.assertIn("has the same name", cluster.call("submit", "twice.yaml", code=2))
        # The last job of a file is refused by the controller.
        cluster.write("late.yaml", json.dumps({"jobs": [
            {"name": "a", **command("true")},
            {"name": "b", **command("true"), "array": {"count": 101}}]}))
        self.assertIn("101 elements", cluster.call("submit", "late.yaml", code=2))
        self.assertEqual(cluster.ask("jobs")["jobs"], [])
        cluster.submit("first", command("true"))
        cluster.await_state("first", "succeeded")
        self.assertIn("did you mean first",
                      cluster.submit("bad", {**command("true"), "after": ["frist"]}, code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
