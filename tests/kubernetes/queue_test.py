"""LonghaulJobs in a queue of Kueue, with the real kube-apiserver.

  queue_test.py LONGHAUL [ScriptedQueueTest | RealQueueTest | RealTopologyTest]

With the real Kueue where tools/kubernetes_environment has built it (tools/kubernetes_environment
kueue), and everywhere with the small one of scripted_kueue.py. The kubelets are the stand-in of
process_kubelet.py.
"""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import operator_case
from kueue_server import Kueue
from operator_case import JOBS, LONG, PODS, STEPS, OperatorCase, wait_for
from scripted_kueue import GROUP, ScriptedKueue, is_true

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
WORKLOADS = f"{GROUP}/namespaces/default/workloads"
# Of a job with two workers: what its pods request, with a controller pod.
PODS_OF_A_JOB = 3
WORKER = {"spec": {"containers": [{"name": "worker", "image": "train:test", "resources": {
    "requests": {"cpu": "1", "memory": "100Mi"}}}]}}


class QueueCase:
    """The tests, for either Kueue."""

    def make_in_queue(self, name, steps, priority):
        return self.make(name, workers=2, steps=steps, labels={QUEUE: "team", PRIORITY: priority},
                         template=WORKER)

    def workload(self, name):
        """The Workload of this job, or None."""
        status, found = self.server.send("GET", f"{WORKLOADS}/longhaul-{name}")
        return found if status == 200 else None

    def condition(self, name, kind):
        conditions = self.job(name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def pods_of(self, name):
        return [pod for pod in self.pods() if pod["metadata"]["labels"]["longhaul.dev/job"] == name
                and pod["status"].get("phase") not in ("Succeeded", "Failed")]

    def test_a_job_waits_is_admitted_evicted_and_admitted_again(self):
        expected = self.undisturbed(LONG, workers=2)
        run = self.make_in_queue("long", LONG, "low")
        self.await_phase("long", "Running")
        self.assertEqual({pod["spec"]["nodeSelector"]["pool"] for pod in self.pods()}, {"a"})
        wait_for(lambda: is_true(self.workload("long"), "PodsReady"), "PodsReady")
        wait_for(lambda: self.step(run) > 50, "the first steps")

        # There is quota for one job.
        self.make_in_queue("waits", STEPS, "low")
        wait_for(lambda: "insufficient" in self.condition("waits", "Suspended").get("message", ""),
                 "the reason")
        self.assertEqual(self.condition("waits", "Suspended")["reason"], "WaitsForQuota")
        self.assertEqual(self.pods_of("waits"), [])

        # One of higher priority takes the place of the first one, when its pods have ended.
        self.make_in_queue("urgent", STEPS, "high")
        wait_for(lambda: "Preempted" in json.dumps(self.workload("long")["status"]),
                 "the eviction")
        wait_for(lambda: is_true(self.workload("urgent"), "Admitted"), "the admission")
        # Until the urgent one has ended. Pods are read first: if it has not ended afterwards, it
        # held the quota at that time too.
        def has_ended():
            pods = self.pods_of("long")
            if is_true(self.workload("urgent"), "Finished"):
                return True
            self.assertEqual(pods, [], "quota was given back too early")
            return False

        wait_for(has_ended, "the end of the urgent job")
        self.await_phase("urgent", "Succeeded")

        # Both of the others have their turn, one after the other.
        for name in ("long", "waits"):
            self.await_phase(name, "Succeeded")
        losses = self.losses(run)
        self.assertEqual(losses, {step: expected[step] for step in losses})
        self.assertEqual(max(losses), LONG)
        told = [note for reason, note in self.events("long") if reason == "Suspended"]
        self.assertTrue(any("reempt" in note or "to make room" in note for note in told), told)

    def test_a_restart_is_a_recovery_in_the_queue(self):
        # Kueue's recoveryTimeout counts for the reason WaitForRecovery alone.
        def await_ready(status, reason):
            wait_for(lambda: (status, reason) in [
                (each["status"], each["reason"])
                for each in self.workload("again")["status"].get("conditions", [])
                if each["type"] == "PodsReady"], f"PodsReady is {status}: {reason}")

        self.make_in_queue("again", 100 * LONG, "low")
        self.await_phase("again", "Running")
        await_ready("True", "Started")
        # The worker's next life finds no node until the interruption has been reported.
        self.cordon(True)
        self.addCleanup(self.cordon, False)
        self.server.call("DELETE", f"{PODS}/{self.names('worker')[0]}")
        await_ready("False", "WaitForRecovery")
        self.cordon(False)
        await_ready("True", "Recovered")

    def test_a_deactivated_job_returns_when_it_is_made_active_again(self):
        expected = self.undisturbed(LONG + 1, workers=2)
        run = self.make_in_queue("off", LONG + 1, "low")
        self.await_phase("off", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        # What Kueue writes when a Workload has been queued again too often.
        conditions = self.workload("off")["status"]["conditions"] + [{
            "type": "DeactivationTarget", "status": "True", "reason": "RequeuingLimitExceeded",
            "message": "too often", "lastTransitionTime": "2026-01-31T08:00:00Z"}]
        self.server.call("PATCH", f"{WORKLOADS}/longhaul-off/status",
                         {"status": {"conditions": conditions}})
        wait_for(lambda: self.condition("off", "Suspended").get("reason") == "Deactivated",
                 "the deactivation")
        self.assertEqual(self.pods_of("off"), [], "quota was given back too early")
        self.assertIn("spec.active of the Workload longhaul-off",
                      self.condition("off", "Suspended")["message"])
        self.server.call("PATCH", f"{WORKLOADS}/longhaul-off", {"spec": {"active": True}})
        self.await_phase("off", "Running", "Succeeded")
        self.await_phase("off", "Succeeded")
        losses = self.losses(run)
        self.assertEqual(losses, {step: expected[step] for step in losses})

    def test_a_suspended_job_leaves_its_queue_and_a_deleted_one_too(self):
        self.make_in_queue("stops", LONG, "low")
        self.await_phase("stops", "Running")
        self.server.call("PATCH", f"{JOBS}/stops", {"spec": {"suspend": True}})
        wait_for(lambda: not self.workload("stops"), "the end of the Workload")
        self.assertEqual(self.pods_of("stops"), [], "quota was given back too early")
        self.assertEqual(self.condition("stops", "Suspended")["status"], "True")
        self.server.call("PATCH", f"{JOBS}/stops", {"spec": {"suspend": False}})
        self.await_phase("stops", "Running")
        self.delete("stops")
        self.assertIsNone(self.workload("stops"))

    def test_a_job_that_is_made_larger_asks_anew(self):
        self.make_in_queue("grows", LONG, "low")
        self.await_phase("grows", "Running")
        before = self.workload("grows")["metadata"]["uid"]
        self.server.call("PATCH", f"{JOBS}/grows", {"spec": {"workers": {"desired": 1}}})
        wait_for(lambda: self.workload("grows") and
                 self.workload("grows")["metadata"]["uid"] != before, "another Workload")
        sets = {each["name"]: each["count"] for each in self.workload("grows")["spec"]["podSets"]}
        self.assertEqual(sets, {"controller": 1, "workers": 1})
        self.await_phase("grows", "Running")
        wait_for(lambda: len(self.pods("worker")) == 1, "one worker")


class ScriptedQueueTest(QueueCase, OperatorCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        kueue = cls.enterClassContext(ScriptedKueue(cls.server, PODS_OF_A_JOB, {"pool": "a"}))
        kueue.add_priority("low", 0)
        kueue.add_priority("high", 100)


class RealQueueTest(QueueCase, OperatorCase):
    PROGRAMS = ("kube-apiserver", "etcd", "kueue")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Two workers of one CPU each, and the controller's 0.1.
        cls.kueue = cls.enterClassContext(Kueue(
            cls.binaries, cls.server, {"cpu": "3", "memory": "4Gi"}, {"pool": "a"}))
        cls.kueue.add_priority("low", 0)
        cls.kueue.add_priority("high", 100)

    def tearDown(self):
        self.assertIsNone(self.kueue.process.poll(), self.kueue.last_lines())


class RealTopologyTest(OperatorCase):
    """Kueue chooses the nodes, too."""

    PROGRAMS = ("kube-apiserver", "etcd", "kueue")
    HOST = "kubernetes.io/hostname"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.enterClassContext(Kueue(cls.binaries, cls.server, {"cpu": "200", "memory": "40Gi"},
                                    {"pool": "a"}, [cls.HOST]))

    def test_workers_are_on_the_nodes_that_kueue_has_chosen(self):
        # Only one worker fits a node with 64 CPUs.
        template = {"metadata": {"annotations": {
            "kueue.x-k8s.io/podset-preferred-topology": self.HOST}},
            "spec": {"containers": [{"name": "worker", "image": "train:test", "resources": {
                "requests": {"cpu": "40", "memory": "100Mi"}}}]}}
        self.make("chosen", workers=2, steps=LONG, labels={QUEUE: "team"}, template=template)
        self.await_phase("chosen", "Running")
        workload = self.server.call("GET", f"{WORKLOADS}/longhaul-chosen")
        self.assertIn("topologyAssignment", json.dumps(workload["status"]["admission"]))
        places = {pod["spec"]["nodeName"]: pod["spec"]["nodeSelector"][self.HOST]
                  for pod in self.pods("worker")}
        self.assertEqual(len(places), 2)
        self.assertEqual(list(places), list(places.values()))


if __name__ == "__main__":
    operator_case.LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
