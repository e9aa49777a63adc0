"""The rights that deploy/kubernetes grants are those that Longhaul uses, no more and no less.

  rights_test.py LONGHAUL

The scheduler runs as its account under RBAC; the API server's audit log says what it called. Each
call must have been allowed, and each right must have been used.
"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scheduler_test
from api_server import ROOT, ApiServer, programs_or_skip
from kubernetes_objects import POD_GROUP_DEFINITION, gpu_node, gpu_pod, pod_group

ACCOUNT = "system:serviceaccount:longhaul:longhaul-scheduler"
TOKEN = "scheduler-token"
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
          "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}]}
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


def manifests(path):
    """The objects of a file. Its YAML is read by the API server's own rules: as JSON where it can,
    else by PyYAML."""
    import yaml
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def granted(objects):
    """(verb, group, resource) of each right, with the namespace of roles that have one."""
    rights = set()
    for each in objects:
        if each["kind"] not in ("ClusterRole", "Role"):
            continue
        for rule in each["rules"]:
            rights |= {(verb, group, resource) for verb in rule["verbs"]
                       for group in rule["apiGroups"] for resource in rule["resources"]}
    return rights


COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
}


class Rights(unittest.TestCase):
    def setUp(self):
        try:
            self.objects = manifests(ROOT / "deploy" / "kubernetes" / "scheduler.yaml")
        except ImportError:
            print("PyYAML is not installed")
            self.skipTest("PyYAML is not installed")
        self.binaries = programs_or_skip("kube-apiserver", "etcd")

    def start_server(self, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.audit = pathlib.Path(folder.name) / "audit.log"
        policy = pathlib.Path(folder.name) / "policy.json"
        policy.write_text(json.dumps(POLICY))
        server = self.enterContext(ApiServer(
            self.binaries, folder.name, authorization="RBAC",
            flags=[f"--audit-log-path={self.audit}", f"--audit-policy-file={policy}",
                   "--runtime-config=scheduling.k8s.io/v1beta1=true",
                   "--feature-gates=GenericWorkload=true" + "".join(flags)],
            tokens=[f'{TOKEN},{ACCOUNT},2,"system:serviceaccounts"']))
        for each in self.objects:
            namespace = each["metadata"].get("namespace", "")
            server.call("POST", COLLECTIONS[each["kind"]].format(namespace=namespace), each)
        server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                    POD_GROUP_DEFINITION)
        scheduler_test.wait_for(lambda: server.is_served("/apis/scheduling.x-k8s.io/v1alpha1"),
                                "the definition of PodGroups")
        self.kubeconfig = pathlib.Path(folder.name) / "scheduler"
        self.kubeconfig.write_text(server.kubeconfig.read_text().replace(
            "token: test-token", f"token: {TOKEN}"))
        return server

    def calls(self):
        """(verb, group, resource) of each call of the account; those that were refused apart."""
        done, refused = set(), []
        for line in self.audit.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # it is being written
            event = json.loads(line)
            # Which APIs there are is open to every account.
            if "objectRef" not in event:
                continue
            of = event["objectRef"]
            resource = of["resource"] + ("/" + of["subresource"] if "subresource" in of else "")
            call = (event["verb"], of.get("apiGroup", ""), resource)
            if event.get("responseStatus", {}).get("code") == 403:
                refused.append((call, event.get("annotations")))
            done.add(call)
        return done, refused

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
        words = ["--incomplete-patience", "1"]
        # Two without an election lose binds to each other.
        alone = ["--no-leader-election", *words]
        with scheduler_test.Scheduler(server, *alone, kubeconfig=self.kubeconfig), \
                scheduler_test.Scheduler(server, *alone, kubeconfig=self.kubeconfig), \
                scheduler_test.Scheduler(server, "--lease-namespace", "longhaul", *words,
                                         kubeconfig=self.kubeconfig):
            scheduler_test.wait_for(
                lambda: all(pods()[f"pod-{i}"]["spec"].get("nodeName") for i in range(40)), "binds")
            # Until one of them has lost a race and has read the pod.
            for i in range(40, 60):
                if ("get", "", "pods") in self.calls()[0]:
                    break
                server.call("POST", PODS, gpu_pod(f"pod-{i}", 1))
                scheduler_test.wait_for(
                    lambda name=f"pod-{i}": pods()[name]["spec"].get("nodeName"), "a bind")
            for i in range(8):
                server.call("POST", PODS, gpu_pod(f"high-{i}", 8, priority="high"))
            scheduler_test.wait_for(
                lambda: sum("deletionTimestamp" in pod["metadata"] for pod in pods().values()) > 8,
                "evictions")
            scheduler_test.wait_for(
                lambda: pods()["large"]["status"].get("conditions"), "a condition")
            scheduler_test.wait_for(
                lambda: "deletionTimestamp" in pods()["gang-0"]["metadata"], "a deletion")
            scheduler_test.wait_for(
                lambda: ("patch", "coordination.k8s.io", "leases") in self.calls()[0], "a leader")

    def test_each_call_is_allowed_and_each_right_is_used(self):
        used = set()
        # The second server refuses streaming lists, as older ones do.
        for flags in ([], [",WatchList=false"]):
            self.do_all_there_is(self.start_server(*flags))
            done, refused = self.calls()
            self.assertEqual(refused, [])
            used |= done
        self.assertEqual(used - granted(self.objects), set(), "calls without a right")
        self.assertEqual(granted(self.objects) - used, set(), "rights that nothing uses")


if __name__ == "__main__":
    scheduler_test.LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
