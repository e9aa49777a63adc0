"""The rights that deploy/kubernetes/scheduler.yaml grants are those that the scheduler uses.

  rights_test.py LONGHAUL

The scheduler runs as its account under RBAC; the API server's audit log says what it called. Each
call must have been allowed, and each right must have been used.
"""

import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import account_rights
import scheduler_test
from api_server import programs_or_skip
from kubernetes_objects import (POD_GROUP_DEFINITION, gpu_node, gpu_pod, late_storage_class,
                                persistent_volume_claim, pod_group)

ACCOUNT = "longhaul-scheduler"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


class Rights(unittest.TestCase):
    def setUp(self):
        try:
            account_rights.manifests("scheduler.yaml")
        except ImportError:
            print("PyYAML is not installed")
            self.skipTest("PyYAML is not installed")
        self.binaries = programs_or_skip("kube-apiserver", "etcd")

    def start_server(self, *gates):
        server = account_rights.start_server(
            self, self.binaries, ["scheduler.yaml"], [ACCOUNT],
            flags=["--runtime-config=scheduling.k8s.io/v1beta1=true",
                   "--feature-gates=GenericWorkload=true" + "".join(gates)])
        server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                    POD_GROUP_DEFINITION)
        scheduler_test.wait_for(lambda: server.is_served("/apis/scheduling.x-k8s.io/v1alpha1"),
                                "the definition of PodGroups")
        self.kubeconfig = server.kubeconfig_of(ACCOUNT)
        return server

    def do_all_there_is(self, server):
        """A scheduler that binds, loses races, reports, preempts and gives a gang up."""
        def pods():
            return {pod["metadata"]["name"]: pod for pod in server.items(PODS)}

        server.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                    {"metadata": {"name": "high"}, "value": 1000})
        for i in range(8):
            server.call("POST", "/api/v1/nodes", gpu_node(f"n{i}"))
            server.call("PATCH", f"/api/v1/nodes/n{i}/status", {"status": gpu_node("")["status"]})
        for i in range(40):
            server.call("POST", PODS, gpu_pod(f"pod-{i}", 1))
        server.call("POST", PODS, gpu_pod("large", 16))
        # One pod of a gang is bound, and the other one is gone for ever.
        server.call("POST", GROUPS, pod_group("gang", 2))
        server.call("POST", PODS, gpu_pod("gang-0", 1, group="gang"))
        server.call("POST", PODS + "/gang-0/binding",
                    {"metadata": {"name": "gang-0"},
                     "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"}})
        # A pod whose volume is made for its node.
        server.call("POST", "/apis/storage.k8s.io/v1/storageclasses",
                    late_storage_class("late", "csi.example.com"))
        server.call("POST", scheduler_test.CLAIMS,
                    persistent_volume_claim("data", storage_class="late"))
        pod = gpu_pod("with-volume", 1)
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        server.call("POST", PODS, pod)
        words = ["--incomplete-patience", "1", "--report-period", "1"]
        # Two without an election lose binds to each other.
        alone = ["--no-leader-election", *words]
        with scheduler_test.Scheduler(server, *alone, kubeconfig=self.kubeconfig) as one, \
                scheduler_test.Scheduler(server, *alone, kubeconfig=self.kubeconfig) as other, \
                scheduler_test.Scheduler(server, "--lease-namespace", "longhaul", *words,
                                         kubeconfig=self.kubeconfig):
            scheduler_test.wait_for(
                lambda: all(pods()[f"pod-{i}"]["spec"].get("nodeName") for i in range(40)), "binds")
            scheduler_test.wait_for(
                lambda: self.has_called(server, "patch", "", "persistentvolumeclaims"),
                "a node for the volume")
            scheduler_test.wait_for(lambda: self.has_lost_a_race(server, one, other, pods),
                                    "a pod that was read after a lost race")
            # Before pods of a higher priority come, which would evict the pod of the gang.
            scheduler_test.wait_for(
                lambda: self.has_called(server, "delete", "", "pods"), "a deletion")
            for i in range(8):
                server.call("POST", PODS, gpu_pod(f"high-{i}", 8, priority="high"))
            scheduler_test.wait_for(
                lambda: self.has_called(server, "create", "", "pods/eviction"), "an eviction")
            scheduler_test.wait_for(
                lambda: pods()["large"]["status"].get("conditions"), "a condition")
            for verb in ("create", "patch"):
                scheduler_test.wait_for(
                    lambda: self.has_called(server, verb, "events.k8s.io", "events"),
                    f"the call to {verb} an event")
            scheduler_test.wait_for(
                lambda: self.has_called(server, "patch", "coordination.k8s.io", "leases"),
                "a leader")

    def has_lost_a_race(self, server, one, other, pods):
        """Both see the same new pods at the same instant. Says whether one had to read a pod."""
        for each in (one, other):
            each.process.send_signal(signal.SIGSTOP)
        names = [f"contested-{i}" for i in range(8)]
        for name in names:
            server.call("POST", PODS, gpu_pod(name, 1))
        for each in (one, other):
            each.process.send_signal(signal.SIGCONT)
        scheduler_test.wait_for(
            lambda: all(pods()[name]["spec"].get("nodeName") for name in names), "binds")
        for name in names:
            server.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        return self.has_called(server, "get", "", "pods")

    def has_called(self, server, *what):
        return any(call[:3] == what for call in server.calls(ACCOUNT))

    def test_each_call_is_allowed_and_each_right_is_used(self):
        used = set()
        # The second server refuses streaming lists, as older ones do.
        for gates in ([], [",WatchList=false"]):
            server = self.start_server(*gates)
            self.do_all_there_is(server)
            self.assertEqual(server.refused(ACCOUNT), [])
            used |= server.calls(ACCOUNT)
        granted = account_rights.rights(server.objects)
        self.assertEqual(account_rights.not_covered(granted, used), set(), "calls without a right")
        self.assertEqual(account_rights.unused(granted, used), set(), "rights that nothing uses")


if __name__ == "__main__":
    scheduler_test.LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
