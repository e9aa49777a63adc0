"""What the operator relies on of the real Kueue, tried with Workloads that no job owns.

  kueue_test.py [WorkloadTest | ReadinessTest | DeactivationTest]

The statuses that the test writes are those of src/engines/kubernetes/jobs/kueue/job_queue.cc. It
needs the kueue of tools/kubernetes_environment, and is skipped where that has not been built.
"""

import datetime
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ApiServer, folder_for, programs_or_skip
from kueue_server import GROUP, Kueue, wait_for

WORKLOADS = f"{GROUP}/namespaces/default/workloads"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [
    {"name": "worker", "image": "train:test", "resources": {"requests": {"cpu": "1"}}}]}}
RETURNING = ("Preempted", "NodeFailures")


def conditions_of(workload):
    return {each["type"]: each for each in workload.get("status", {}).get("conditions", [])}


class KueueCase(unittest.TestCase):
    """A server and Kueue with quota for two pods; the Workloads are removed after each test."""

    CONFIGURATION = None

    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd", "kueue")
        cls.server = cls.enterClassContext(ApiServer(binaries, folder_for(cls)))
        cls.kueue = cls.enterClassContext(Kueue(binaries, cls.server, {"cpu": "2"}, {"pool": "a"},
                                                configuration=cls.CONFIGURATION))
        cls.kueue.add_priority("low", 0)
        cls.kueue.add_priority("high", 100)

    def tearDown(self):
        for each in self.server.items(WORKLOADS):
            name = each["metadata"]["name"]
            self.server.call("DELETE", f"{WORKLOADS}/{name}")
            wait_for(lambda name=name: self.server.send("GET", f"{WORKLOADS}/{name}")[0] == 404,
                     f"the end of {name}")
        self.assertIsNone(self.kueue.process.poll(), self.kueue.last_lines())

    def make(self, name, pods=2, minimum=None, priority=("low", 0)):
        workers = {"name": "workers", "count": pods, "template": TEMPLATE}
        if minimum:
            workers["minCount"] = minimum
        self.server.call("POST", WORKLOADS, {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name},
            "spec": {"queueName": "team", "podSets": [workers], "priority": priority[1],
                     "priorityClassRef": {"group": "kueue.x-k8s.io",
                                          "kind": "WorkloadPriorityClass", "name": priority[0]}}})

    def get(self, name):
        return self.server.call("GET", f"{WORKLOADS}/{name}")

    def condition(self, name, kind):
        """The status, the reason and the message; empty without the condition."""
        found = conditions_of(self.get(name)).get(kind, {})
        return tuple(found.get(each, "") for each in ("status", "reason", "message"))

    def since(self, name, kind):
        """The time of the condition's last transition, in seconds."""
        text = conditions_of(self.get(name))[kind]["lastTransitionTime"]
        return datetime.datetime.fromisoformat(text).timestamp()

    def await_condition(self, name, kind, status="True"):
        wait_for(lambda: self.condition(name, kind)[0] == status, f"{name}: {kind} = {status}",
                 self.kueue.last_lines)

    def set_conditions(self, name, status=None, removed=(), **changes):
        """Writes conditions and more of the status at once, as the operator does."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

        def write():
            workload = self.get(name)
            conditions = conditions_of(workload)
            for kind, (value, reason) in changes.items():
                conditions[kind] = {"type": kind, "status": value, "reason": reason,
                                    "message": "by the test", "lastTransitionTime": now}
            for kind in removed:
                conditions.pop(kind, None)
            code, answer = self.server.send("PATCH", f"{WORKLOADS}/{name}/status", {
                "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
                "status": {**(status or {}), "conditions": list(conditions.values())}},
                "application/merge-patch+json")
            self.assertIn(code, (200, 409), answer)
            return code == 200  # else Kueue has written since
        wait_for(write, f"a write of {name}")

    def release(self, name):
        """Gives the quota of an evicted Workload back."""
        reason = self.condition(name, "Evicted")[1]
        removed = ()
        if reason.startswith("Deactivated"):
            reason = "Deactivated"
            removed = ("DeactivationTarget",)
        changes = {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation"),
                   "Requeued": ("True" if reason in RETURNING else "False", reason)}
        if self.condition(name, "PodsReady")[0]:
            changes["PodsReady"] = ("False", "WaitForStart")
        self.set_conditions(name, {"admission": None}, removed, **changes)

    def activate(self, name):
        self.server.call("PATCH", f"{WORKLOADS}/{name}", {"spec": {"active": True}})


class WorkloadTest(KueueCase):
    def test_quota_of_a_preempted_workload_is_free_after_one_write(self):
        self.make("first")
        self.await_condition("first", "Admitted")
        assignment, = self.get("first")["status"]["admission"]["podSetAssignments"]
        self.assertEqual((assignment["name"], assignment["count"], assignment["flavors"]),
                         ("workers", 2, {"cpu": "default"}))

        self.make("urgent", priority=("high", 100))
        self.await_condition("first", "Evicted")
        self.assertEqual(self.condition("first", "Evicted")[1], "Preempted")
        # Kueue leaves the quota with the pods that still run.
        self.assertEqual(self.condition("first", "Admitted")[0], "True")
        self.assertIn("admission", self.get("first")["status"])
        wait_for(lambda: "insufficient unused" in self.condition("urgent", "QuotaReserved")[2],
                 "a reason to wait")
        self.assertNotEqual(self.condition("urgent", "Admitted")[0], "True")

        self.release("first")
        self.await_condition("urgent", "Admitted")
        self.assertNotIn("admission", self.get("first")["status"])
        self.set_conditions("urgent", Finished=("True", "Succeeded"))
        self.await_condition("first", "Admitted")
        self.assertEqual(self.condition("first", "Evicted")[0], "False")

    def test_fewer_pods_are_admitted_where_the_workload_allows_it(self):
        self.make("small", pods=4, minimum=1)
        self.await_condition("small", "Admitted")
        assignment, = self.get("small")["status"]["admission"]["podSetAssignments"]
        self.assertEqual(assignment["count"], 2)

    def test_a_stopped_workload_comes_back_when_it_is_let(self):
        workload = f"{WORKLOADS}/stops"
        queues = {"ClusterQueueStopped": f"{GROUP}/clusterqueues/all",
                  "LocalQueueStopped": f"{GROUP}/namespaces/default/localqueues/team"}
        cases = [("Deactivated", workload, {"active": False}, {"active": True})] + [
            (reason, path, {"stopPolicy": "HoldAndDrain"}, {"stopPolicy": "None"})
            for reason, path in queues.items()]
        self.make("stops")
        for reason, path, stop, start in cases:
            with self.subTest(reason):
                self.await_condition("stops", "Admitted")
                self.server.call("PATCH", path, {"spec": stop})
                self.await_condition("stops", "Evicted")
                self.assertEqual(self.condition("stops", "Evicted")[1], reason)
                self.release("stops")
                self.assertEqual(self.condition("stops", "Requeued")[:2], ("False", reason))
                self.server.call("PATCH", path, {"spec": start})
                self.await_condition("stops", "Admitted")
                self.assertEqual(self.condition("stops", "Requeued")[0], "True")


class ReadinessTest(KueueCase):
    """With waitForPodsReady, whose timeouts depend on the reasons that the operator writes."""

    CONFIGURATION = {"waitForPodsReady": {
        "timeout": "4s", "recoveryTimeout": "2s", "blockAdmission": False,
        "requeuingStrategy": {"backoffBaseSeconds": 1}}}

    def interrupt(self, name, reason):
        """A Workload whose pods were ready and are not any more."""
        self.make(name, pods=1)
        self.await_condition(name, "Admitted")
        self.set_conditions(name, PodsReady=("True", "Started"))
        self.set_conditions(name, PodsReady=("False", reason))

    def test_recovery_has_a_timeout_with_its_own_reason_only(self):
        self.interrupt("ignored", "NotRunning")
        self.interrupt("recovers", "WaitForRecovery")
        self.await_condition("recovers", "Evicted")
        self.assertEqual(self.condition("recovers", "Evicted")[1], "PodsReadyTimeout")
        self.assertNotEqual(self.condition("ignored", "Evicted")[0], "True")

    def test_an_evicted_workload_has_the_whole_timeout_of_a_start_again(self):
        self.interrupt("again", "WaitForRecovery")
        self.await_condition("again", "Evicted")
        self.release("again")
        self.await_condition("again", "Admitted")
        self.await_condition("again", "Evicted")
        # A WaitForRecovery that had stayed would count from the interruption on, and evict at once.
        # The times of the conditions are whole seconds.
        self.assertGreater(self.since("again", "Evicted") - self.since("again", "Admitted"), 2)


class DeactivationTest(KueueCase):
    """With a limit of attempts, after which Kueue deactivates a Workload by itself."""

    CONFIGURATION = {"waitForPodsReady": {
        "timeout": "2s", "blockAdmission": False,
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 0}}}
    CAUSE = "DeactivatedDueToRequeuingLimitExceeded"

    def make_deactivated(self, name):
        self.make(name, pods=1)
        self.await_condition(name, "Admitted")
        self.await_condition(name, "Evicted")
        self.assertEqual(self.condition(name, "Evicted")[1], self.CAUSE)
        self.assertIs(self.get(name)["spec"]["active"], False)

    def test_a_workload_returns_for_the_reason_deactivated_alone(self):
        self.make_deactivated("limited")
        changes = {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation")}
        self.set_conditions("limited", {"admission": None}, **changes,
                            Requeued=("False", self.CAUSE))
        self.activate("limited")
        # The other one is admitted meanwhile.
        self.make("other", pods=1)
        self.await_condition("other", "Admitted")
        time.sleep(1)
        self.assertEqual(self.condition("limited", "Requeued")[:2], ("False", self.CAUSE))
        self.assertNotEqual(self.condition("limited", "Admitted")[0], "True")
        self.set_conditions("limited", Requeued=("False", "Deactivated"))
        self.await_condition("limited", "Admitted")

    def test_a_request_that_stays_deactivates_a_workload_again(self):
        self.make_deactivated("stays")
        self.release("stays")
        # Kueue leaves what it has not written itself, and what an evicted Workload has.
        self.set_conditions("stays", DeactivationTarget=("True", "RequeuingLimitExceeded"))
        self.activate("stays")
        wait_for(lambda: self.get("stays")["spec"]["active"] is False, "the deactivation")
        self.assertEqual(self.condition("stays", "DeactivationTarget")[0], "True")
        self.set_conditions("stays", removed=("DeactivationTarget",))
        self.activate("stays")
        self.await_condition("stays", "Admitted")


if __name__ == "__main__":
    unittest.main()
