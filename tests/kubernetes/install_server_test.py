"""`longhaul kube install` and `uninstall`, with the real kube-apiserver.

  install_server_test.py LONGHAUL

Skipped, with a line, where tools/kubernetes_environment has not built the programs.
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import account_rights
from api_server import ApiServer, folder_for, programs_or_skip

LONGHAUL = None
IMAGE = "registry.test/longhaul:7"
JOBS = "/apis/longhaul.dev/v1/namespaces/default/longhauljobs"
DEPLOYMENT = "/apis/apps/v1/namespaces/longhaul/deployments/longhaul-operator"
FILES = ["crd/longhauljob.yaml", "scheduler.yaml", "operator.yaml"]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.shipped = [each for name in FILES for each in account_rights.manifests(name)]
        except ImportError:
            print("PyYAML is not installed")
            raise unittest.SkipTest("PyYAML is not installed") from None
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.server = cls.enterClassContext(ApiServer(binaries, folder_for(cls)))

    def kube(self, command, *words, code=0):
        done = subprocess.run([LONGHAUL, "kube", command, "--kubeconfig", self.server.kubeconfig,
                               *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def get(self, each):
        status, found = self.server.send(
            "GET", f"{account_rights.collection(each)}/{each['metadata']['name']}")
        return found if status == 200 else None

    def tearDown(self):
        self.kube("uninstall")

    def test_a_dry_run_prints_the_manifests_with_their_reasons_and_makes_nothing(self):
        import yaml
        text = self.kube("install", "--image", IMAGE, "--dry-run")
        self.assertIn("# The decision itself.", text)
        self.assertNotIn("registry.example", text)
        printed = [each for each in yaml.safe_load_all(text) if each]
        self.assertEqual([(each["kind"], each["metadata"]["name"]) for each in printed],
                         [(each["kind"], each["metadata"]["name"]) for each in self.shipped])
        listed = json.loads(self.kube("install", "--image", IMAGE, "--dry-run", "--json"))
        self.assertEqual(listed["items"], printed)
        self.assertIsNone(self.get(self.shipped[1]))

    def test_everything_is_made_brought_up_to_date_and_removed_but_the_jobs(self):
        output = self.kube("install", "--image", IMAGE)
        self.assertIn("ClusterRole longhaul-operator applied", output)
        for each in self.shipped:
            found = self.get(each)
            self.assertIsNotNone(found, each)
            if "rules" in each:
                self.assertEqual(found["rules"], each["rules"])
        job = {"apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "metadata": {"name": "a"},
               "spec": {"workers": {"desired": 1}, "job": {"command": ["true"]}}}
        self.server.call("POST", JOBS, job)

        # A rule that was taken away comes back, and a new image is used.
        role, = [each for each in self.shipped if each["kind"] == "ClusterRole"
                 and each["metadata"]["name"] == "longhaul-operator"]
        self.kube("install", "--image", "registry.test/longhaul:8")
        container, = self.server.call("GET", DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["image"], "registry.test/longhaul:8")
        self.assertIn("registry.test/longhaul:8", json.dumps(container["env"]))

        # What somebody else has set is not taken over silently.
        patch = json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                            "metadata": {"name": "longhaul-operator"}, "rules": []})
        status, answer = self.server.send(
            "PATCH", f"{account_rights.collection(role)}/longhaul-operator?fieldManager=admin"
            "&force=true", patch, "application/apply-patch+yaml")
        self.assertEqual(status, 200, answer)
        refused = self.kube("install", "--image", IMAGE, code=1)
        self.assertIn("ClusterRole longhaul-operator", refused)
        self.assertIn("conflict", refused)
        self.kube("install", "--image", IMAGE, "--force")
        self.assertEqual(self.get(role)["rules"], role["rules"])

        results = json.loads(self.kube("uninstall", "--json"))["objects"]
        self.assertEqual({each["result"] for each in results}, {"removed", "absent"})
        for each in self.shipped:
            stays = each["kind"] in ("CustomResourceDefinition", "Namespace")
            self.assertEqual(self.get(each) is not None, stays, each)
        self.assertEqual(len(self.server.items(JOBS)), 1)
        self.assertNotIn("removed", self.kube("uninstall"))

    def test_parts_are_chosen(self):
        output = self.kube("install", "--image", IMAGE, "--only", "scheduler", "--flow-schema")
        self.assertIn("FlowSchema longhaul applied", output)
        self.assertNotIn("operator applied", output)
        self.assertIn("scheduler", self.kube("uninstall"))

    def test_the_health_of_nodes_is_installed_when_asked_for_and_removed(self):
        self.kube("install", "--image", IMAGE)
        self.assertNotIn("node-health", self.kube("install", "--image", IMAGE))
        output = self.kube("install", "--image", IMAGE, "--node-health")
        self.assertIn("Deployment longhaul-node-health applied", output)
        # Its events are in the namespace of nodes' events.
        self.assertIn("Role longhaul-node-health-events applied", output)
        output = self.kube("uninstall")
        self.assertIn("Deployment longhaul-node-health removed", output)
        self.assertIn("Role longhaul-node-health-events removed", output)

    def test_a_wrong_image_is_refused_before_any_call(self):
        done = self.kube("install", "--image", "a b", code=2)
        self.assertIn("'a b' is no name of an image", done)


if __name__ == "__main__":
    LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
