"""`longhaul kube node-health` with the real kube-apiserver, as its own account under RBAC.

  node_health_test.py LONGHAUL

It cordons nodes with the evidence, uncordons them afterwards, and leaves alone what others do. The
rights that deploy/kubernetes/node-health.yaml grants are those that it uses.
"""

import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import account_rights
from api_server import programs, programs_or_skip
from kubernetes_objects import gpu_node, gpu_pod

LONGHAUL = None
ACCOUNT = "longhaul-node-health"
WAIT_SECONDS = 60
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
DEVICES = "/apis/resource.k8s.io/v1"
ANNOTATION = "longhaul.dev/cordoned"
TAINT = "longhaul.dev/unhealthy"


def wait_for(done, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {WAIT_SECONDS} s")
        time.sleep(0.1)


class Cluster:
    """Nodes in a server with the program, and what people and detectors do to them."""

    def __init__(self, test, longhaul, binaries, *gates):
        self.server = account_rights.start_server(
            test, binaries, ["scheduler.yaml", "node-health.yaml"], [ACCOUNT],
            flags=["--feature-gates=" + ",".join(gates)] if gates else [])
        for name in ("n0", "n1", "n2", "n3"):
            self.server.call("POST", NODES, gpu_node(name))
        # Two instances, of which one leads.
        kubeconfig = self.server.kubeconfig_of(ACCOUNT)
        for i in range(2):
            log = open(self.server.folder / f"node-health-{i}.log", "w")
            test.addCleanup(log.close)
            process = subprocess.Popen(
                [longhaul, "kube", "node-health", "--kubeconfig", kubeconfig,
                 "--lease-namespace", "longhaul", "--confirm", "1", "--release", "2",
                 "--most-cordoned", "3", "--taint"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            test.addCleanup(process.wait)
            test.addCleanup(process.kill)

    def set_condition(self, node, status, name="KernelDeadlock"):
        answer = self.server.send(
            "PATCH", f"{NODES}/{node}/status",
            {"status": {"conditions": [{"type": name, "status": status, "message": "task blocked"}]}},
            "application/strategic-merge-patch+json")
        assert answer[0] == 200, answer

    def set_device(self, pod, node, health):
        if not self.server.is_served(f"{PODS}/{pod}"):
            each = gpu_pod(pod)
            each["spec"]["nodeName"] = node
            self.server.call("POST", PODS, each)
        self.server.call("PATCH", f"{PODS}/{pod}/status", {"status": {
            "phase": "Running", "containerStatuses": [
                {"name": "main", "image": "none", "imageID": "none", "ready": True,
                 "restartCount": 0, "allocatedResourcesStatus": [
                     {"name": "nvidia.com/gpu",
                      "resources": [{"resourceID": "GPU-1", "health": health}]}]}]}})

    def add_tainted_device(self, node):
        self.server.call("POST", f"{DEVICES}/resourceslices", {
            "metadata": {"name": "slice"},
            "spec": {"driver": "gpu.example.com", "nodeName": node,
                     "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                     "devices": [{"name": "gpu-0"}]}})
        self.server.call("POST", f"{DEVICES}/devicetaintrules", {
            "metadata": {"name": "rule"},
            "spec": {"deviceSelector": {"driver": "gpu.example.com", "device": "gpu-0"},
                     "taint": {"key": "example.com/ecc", "effect": "NoExecute"}}})

    def set_cordon(self, node, cordon):
        self.server.call("PATCH", f"{NODES}/{node}", {"spec": {"unschedulable": cordon}})

    def node(self, name):
        return self.server.call("GET", f"{NODES}/{name}")

    def is_cordoned(self, name):
        return self.node(name)["spec"].get("unschedulable", False)

    def record(self, name):
        text = self.node(name)["metadata"].get("annotations", {}).get(ANNOTATION)
        return text and json.loads(text)

    def has_taint(self, name):
        return any(taint["key"] == TAINT for taint in self.node(name)["spec"].get("taints", []))

    def health(self, name):
        """The status and the reason of the condition of our type."""
        return next(((each["status"], each["reason"]) for each in
                     self.node(name)["status"]["conditions"]
                     if each["type"] == "longhaul.dev/Healthy"), None)

    def events(self, node):
        return [each["reason"] for each in self.server.items(EVENTS)
                if each["regarding"]["name"] == node]

    def wait_for_health(self, node, status, reason):
        wait_for(lambda: self.health(node) == (status, reason),
                 f"the condition of {node}: {status}, {reason}")


class NodeHealthTest(unittest.TestCase):
    def setUp(self):
        try:
            account_rights.manifests("node-health.yaml")
        except ImportError:
            print("PyYAML is not installed")
            self.skipTest("PyYAML is not installed")
        self.binaries = programs_or_skip("kube-apiserver", "etcd")

    def check_describe(self, cluster):
        """kubectl shows evidence and event, where it has been built."""
        folder, _ = programs("kubectl")
        if folder is None:
            return
        done = subprocess.run(
            [folder / "kubectl", "--kubeconfig", cluster.server.kubeconfig, "describe", "node",
             "n0"], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"longhaul.dev/Healthy +False .*Cordoned")
        self.assertRegex(done.stdout, r"Warning +Cordoned .* cordoned: KernelDeadlock=True")

    def check_cordon(self, cluster):
        """All kinds of evidence, and a node that somebody has cordoned before."""
        cluster.set_cordon("n2", True)
        cluster.set_condition("n0", "True")
        cluster.set_device("pod", "n1", "Unhealthy")
        cluster.set_condition("n2", "True")
        cluster.add_tainted_device("n3")
        for node in ("n0", "n1", "n3"):
            cluster.wait_for_health(node, "False", "Cordoned")
            self.assertTrue(cluster.is_cordoned(node) and cluster.has_taint(node))
        cluster.wait_for_health("n2", "False", "CordonedByOthers")
        self.assertIsNone(cluster.record("n2"))
        self.assertEqual(cluster.record("n0")["evidence"], ["KernelDeadlock=True"])
        self.assertEqual(cluster.record("n1")["evidence"], ["device nvidia.com/gpu GPU-1"])
        self.assertEqual(cluster.record("n3")["evidence"],
                         ["device taint gpu.example.com/n3/gpu-0 example.com/ecc:NoExecute"])
        wait_for(lambda: cluster.events("n0") == ["Cordoned"], "the event of n0")
        self.check_describe(cluster)

    def check_release(self, cluster):
        cluster.set_condition("n0", "False")
        cluster.set_device("pod", "n1", "Healthy")
        cluster.set_condition("n2", "False")
        cluster.server.call("DELETE", f"{DEVICES}/devicetaintrules/rule")
        for node in ("n0", "n1", "n2", "n3"):
            cluster.wait_for_health(node, "True", "NoEvidence")
        for node in ("n0", "n1", "n3"):
            self.assertFalse(cluster.is_cordoned(node) or cluster.has_taint(node))
            self.assertIsNone(cluster.record(node))
        self.assertTrue(cluster.is_cordoned("n2"))
        wait_for(lambda: sorted(cluster.events("n0")) == ["Cordoned", "Uncordoned"],
                 "the second event of n0")

    def check_people(self, cluster):
        """Somebody uncordons n0, and uncordons and cordons n1, while the evidence lasts."""
        for node in ("n0", "n1"):
            cluster.set_condition(node, "True")
            cluster.wait_for_health(node, "False", "Cordoned")
        cluster.set_cordon("n0", False)
        cluster.set_cordon("n1", False)
        cluster.set_cordon("n1", True)
        cluster.wait_for_health("n0", "False", "UncordonedByOthers")
        cluster.wait_for_health("n1", "False", "CordonedByOthers")
        time.sleep(2)
        self.assertFalse(cluster.is_cordoned("n0"))
        for node in ("n0", "n1"):
            cluster.set_condition(node, "False")
            cluster.wait_for_health(node, "True", "NoEvidence")
            self.assertIsNone(cluster.record(node))
        self.assertFalse(cluster.is_cordoned("n0"))
        self.assertTrue(cluster.is_cordoned("n1"))

    def test_it_cordons_and_uncordons_with_exactly_the_rights_of_its_account(self):
        used = set()
        # The second server refuses streaming lists, as older ones do.
        for gates in ([], ["WatchList=false"]):
            cluster = Cluster(self, LONGHAUL, self.binaries, *gates)
            self.check_cordon(cluster)
            self.check_release(cluster)
            self.check_people(cluster)
            self.assertEqual(cluster.server.refused(ACCOUNT), [])
            used |= cluster.server.calls(ACCOUNT)
        granted = account_rights.rights(account_rights.manifests("node-health.yaml"))
        self.assertEqual(account_rights.not_covered(granted, used), set(), "calls without a right")
        self.assertEqual(account_rights.unused(granted, used), set(), "rights that nothing uses")


if __name__ == "__main__":
    LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
