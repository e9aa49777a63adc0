"""A small Kueue for tests, where Kueue itself has not been built (kueue_server.py starts it).

It has one queue, whose quota is a number of pods. It admits the Workload of the highest priority
that has room, evicts those of lower priority for it, and says of the others that they wait. One
that is not active is evicted, and waits again when it is made active. The definitions are the least
that the API server needs to store the objects.
"""

import threading
import time

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
KINDS = {"Workload": ("workloads", "Namespaced"), "ResourceFlavor": ("resourceflavors", "Cluster"),
         "WorkloadPriorityClass": ("workloadpriorityclasses", "Cluster")}
TURN_SECONDS = 0.2


def definitions():
    """The definitions of Kueue's resources that the operator reads and writes."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {
        "spec": anything, "status": anything, "value": {"type": "integer"}}}
    for kind, (plural, scope) in KINDS.items():
        yield {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": f"{plural}.kueue.x-k8s.io"},
               "spec": {"group": "kueue.x-k8s.io", "scope": scope,
                        "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                        "versions": [{"name": "v1beta2", "served": True, "storage": True,
                                      "subresources": {"status": {}},
                                      "schema": {"openAPIV3Schema": schema}}]}}


def condition(workload, kind):
    """The condition of this type, or an empty object."""
    return next((each for each in workload.get("status", {}).get("conditions", [])
                 if each["type"] == kind), {})


def is_true(workload, kind):
    return condition(workload, kind).get("status") == "True"


def is_active(workload):
    return workload["spec"].get("active", True)


def pods_of(workload):
    return sum(each["count"] for each in workload["spec"]["podSets"])


def priority_of(workload):
    return workload["spec"].get("priority", 0)


class ScriptedKueue:
    """A context manager. `node_labels`: of the nodes that its quota stands for."""

    def __init__(self, server, pods, node_labels=None):
        self.server = server
        self.pods = pods
        self.node_labels = node_labels or {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.failure = None

    def __enter__(self):
        for each in definitions():
            self.server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each,
                             allowed=(201, 409))
        while not all(self.server.is_served(f"{GROUP}/{plural}") for plural, _ in KINDS.values()):
            time.sleep(TURN_SECONDS)
        self.server.call("POST", f"{GROUP}/resourceflavors", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
            "metadata": {"name": "default"}, "spec": {"nodeLabels": self.node_labels}})
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stopped.set()
        self.thread.join()
        if self.failure:
            raise self.failure

    def add_priority(self, name, value):
        self.server.call("POST", f"{GROUP}/workloadpriorityclasses", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
            "metadata": {"name": name}, "value": value})

    def run(self):
        try:
            while not self.stopped.wait(TURN_SECONDS):
                self.turn(self.server.items(f"{GROUP}/workloads"))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def turn(self, workloads):
        live = [each for each in workloads if not is_true(each, "Finished")
                and "deletionTimestamp" not in each["metadata"]]
        holding = [each for each in live if each.get("status", {}).get("admission")]
        for each in holding:
            if not is_true(each, "QuotaReserved"):
                raise AssertionError(f"an admission without quota: {each['status']}")
        free = self.pods - sum(pods_of(each) for each in holding)
        for each in live:
            self.tend(each)
        waiting = [each for each in live if each not in holding and is_active(each)
                   and condition(each, "Requeued").get("status") != "False"]
        if not waiting:
            return
        first = max(waiting, key=priority_of)
        if pods_of(first) <= free:
            self.admit(first)
            return
        self.write(first, {}, QuotaReserved=("False", "Pending", "insufficient unused quota"))
        for each in holding:
            if priority_of(each) < priority_of(first) and not is_true(each, "Evicted"):
                self.write(each, {}, Evicted=("True", "Preempted", "to make room for "
                                              f"{first['metadata']['name']}"))

    def tend(self, workload):
        """Deactivates a Workload, or lets it wait again, as Kueue does it."""
        target = is_true(workload, "DeactivationTarget")
        if not is_active(workload):
            if not is_true(workload, "Evicted"):
                reason = "DeactivatedDueToRequeuingLimitExceeded" if target else "Deactivated"
                self.write(workload, {}, Evicted=("True", reason, "The workload is deactivated"))
        elif target:
            self.patch(workload, "", {"spec": {"active": False}})
        elif condition(workload, "Requeued").get("reason") == "Deactivated":
            self.write(workload, {}, Requeued=("True", "Reactivated", "it is active again"))

    def admit(self, workload):
        sets = [{"name": each["name"], "count": each["count"], "flavors": {"cpu": "default"}}
                for each in workload["spec"]["podSets"]]
        self.write(workload, {"admission": {"clusterQueue": "all", "podSetAssignments": sets}},
                   QuotaReserved=("True", "QuotaReserved", "there is quota"),
                   Admitted=("True", "Admitted", "it is admitted"),
                   Evicted=("False", "QuotaReserved", "there is quota"))

    def write(self, workload, status, **conditions):
        """Writes the status, unless the Workload has changed or would not."""
        before = {each["type"]: each for each in workload.get("status", {}).get("conditions", [])}
        after = dict(before)
        for kind, (value, reason, message) in conditions.items():
            after[kind] = {"type": kind, "status": value, "reason": reason, "message": message,
                           "lastTransitionTime": "2026-01-31T08:00:00Z"}
        if after == before and not status:
            return
        self.patch(workload, "/status", {"status": {
            **status, "conditions": list(after.values())}})

    def patch(self, workload, subresource, change):
        """Sends a change, which is refused where the Workload has changed."""
        meta = workload["metadata"]
        self.server.call(
            "PATCH", f"{GROUP}/namespaces/{meta['namespace']}/workloads/{meta['name']}{subresource}",
            {"metadata": {"resourceVersion": meta["resourceVersion"]}, **change},
            allowed=(200, 404, 409))
