"""The Helm chart makes the objects that `longhaul kube install` makes.

  helm_test.py LONGHAUL

With the real Helm and the real kube-apiserver; skipped, with a line, where
tools/kubernetes_environment (helm) has not built them.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import account_rights
from api_server import ROOT, ApiServer, folder_for, programs_or_skip

LONGHAUL = None
CHART = ROOT / "deploy" / "helm" / "longhaul"
IMAGE = "registry.test/longhaul:7"
STAYS = ("CustomResourceDefinition",)


class HelmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binaries = programs_or_skip("kube-apiserver", "etcd", "helm")
        cls.folder = folder_for(cls)
        cls.server = cls.enterClassContext(ApiServer(cls.binaries, cls.folder))

    def run_program(self, *words, code=0):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False, env={
                                  **os.environ, "HOME": str(self.folder),
                                  "KUBECONFIG": str(self.server.kubeconfig)})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def helm(self, *words, code=0):
        return self.run_program(self.binaries / "helm", *words, code=code)

    def test_a_release_makes_what_the_program_installs_and_its_end_leaves_the_definition(self):
        wanted = json.loads(self.run_program(
            LONGHAUL, "kube", "install", "--image", IMAGE, "--flow-schema", "--node-health",
            "--dry-run", "--json"))["items"]
        self.helm("install", "longhaul", CHART, "--set", 
                  f"image={IMAGE},flowSchema=true,nodeHealth=true")
        for each in wanted:
            path = f"{account_rights.collection(each)}/{each['metadata']['name']}"
            found = self.server.call("GET", path)
            for part in ("rules", "subjects", "roleRef"):
                self.assertEqual(found.get(part), each.get(part), path)
            if each["kind"] == "Deployment":
                container, = found["spec"]["template"]["spec"]["containers"]
                self.assertEqual(container["image"], IMAGE)
        self.helm("uninstall", "longhaul")
        for each in wanted:
            # A namespace ends when the controller of namespaces has emptied it, and none runs here.
            if each["metadata"].get("namespace") or each["kind"] == "Namespace":
                continue
            path = f"{account_rights.collection(each)}/{each['metadata']['name']}"
            status, _ = self.server.send("GET", path)
            self.assertEqual(status, 200 if each["kind"] in STAYS else 404, path)

    def test_an_image_is_required(self):
        self.assertIn("set image to the name", self.helm("template", "longhaul", CHART, code=1))
        without = self.helm("template", "longhaul", CHART, "--set", f"image={IMAGE}")
        self.assertNotIn("FlowSchema", without)
        self.assertNotIn("node-health", without)


if __name__ == "__main__":
    LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
