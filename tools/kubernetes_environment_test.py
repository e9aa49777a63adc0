"""tools/kubernetes_environment builds each program once, completely, and keeps it.

Go is a stand-in that writes down how it was called, so that nothing is downloaded or compiled.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent / "kubernetes_environment"
STAND_IN = r"""#!/bin/bash
if [[ $1 == version ]]; then
  echo "go version ${GO_VERSION:-go1.26.8} linux/amd64"
  exit
fi
echo "$*" >>"$CALLS"
sleep "${SLOW:-0}"
[[ -z ${FAILS:-} ]] || { echo "module not served" >&2; exit 1; }
if [[ "$1 $2" == "mod download" ]]; then
  echo "{\"Dir\": \"$MODULES\", \"Version\": \"v1.2.3\"}"
  exit
fi
while [[ $1 != -o ]]; do shift; done
echo program >"$2"
"""


class KubernetesEnvironment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        go = self.top / "bin" / "go"
        go.parent.mkdir()
        go.write_text(STAND_IN)
        go.chmod(0o755)
        self.calls = self.top / "calls"
        self.calls.write_text("")

    def start(self, *words, **environment):
        return subprocess.Popen(
            [sys.executable, "-B", TOOL, *words], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "XDG_CACHE_HOME": str(self.top / "cache"), "CALLS": str(self.calls),
                 "MODULES": str(self.top / "module"),
                 "PATH": f"{self.top / 'bin'}:{os.environ['PATH']}", **environment})

    def run_tool(self, *words, **environment):
        child = self.start(*words, **environment)
        output, error = child.communicate(timeout=60)
        return child.returncode, output, error

    def built(self):
        return [line.rsplit("./", 1)[1] for line in self.calls.read_text().splitlines()
                if line.startswith("build")]

    def make_file(self, path):
        """A file of the downloaded module."""
        file = self.top / "module" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("definition")

    def test_kueue_is_built_in_its_own_module_with_its_definitions(self):
        self.make_file("config/components/crd/bases/workloads.yaml")
        code, output, error = self.run_tool("kueue")
        self.assertEqual(code, 0, error)
        folder = pathlib.Path(output.strip())
        self.assertTrue((folder / "kueue").exists())
        self.assertEqual((folder / "kueue-definitions" / "workloads.yaml").read_text(),
                         "definition")
        self.assertIn(f"build -C {self.top / 'module'}", self.calls.read_text())
        self.assertEqual(self.run_tool("kueue"), (0, output, ""))
        self.assertEqual(self.built(), ["cmd/kueue"])

    def test_node_problem_detector_is_built_without_what_no_test_uses(self):
        code, output, error = self.run_tool("node-problem-detector")
        self.assertEqual(code, 0, error)
        self.assertTrue((pathlib.Path(output.strip()) / "node-problem-detector").exists())
        self.assertEqual(self.built(), ["cmd/nodeproblemdetector"])
        self.assertIn("-tags disable_stackdriver_exporter,disable_system_stats_monitor ",
                      self.calls.read_text())

    def test_trainer_is_built_with_the_definitions_and_webhooks_of_its_modules(self):
        code, _, error = self.run_tool("trainer")
        self.assertEqual(code, 1)
        self.assertIn("trainer/v2 v1.2.3 has no file manifests/base/crds/", error)
        for path in ("manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
                     "manifests/base/crds/kustomization.yaml",
                     "manifests/base/webhook/manifests.yaml",
                     "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"):
            self.make_file(path)
        code, output, error = self.run_tool("trainer")
        self.assertEqual(code, 0, error)
        folder = pathlib.Path(output.strip())
        self.assertTrue((folder / "trainer").exists())
        self.assertEqual({each.name for each in (folder / "trainer-definitions").iterdir()}, {
            "trainer.kubeflow.org_trainjobs.yaml", "manifests.yaml",
            "scheduling.x-k8s.io_podgroups.yaml"})
        calls = self.calls.read_text()
        self.assertIn("github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager\n", calls)
        self.assertEqual(self.run_tool("trainer"), (0, output, ""))
        self.assertEqual(self.calls.read_text(), calls)

    def test_programs_are_built_once_and_their_folder_is_printed(self):
        code, output, error = self.run_tool()
        self.assertEqual(code, 0, error)
        folder = pathlib.Path(output.strip())
        self.assertTrue(folder.name.startswith("kubernetes-"))
        self.assertTrue((folder / "etcd").exists())
        self.assertEqual(self.run_tool(), (0, output, ""))
        self.assertEqual(self.built(), ["kube-apiserver", "etcd"])
        self.assertIn("component-base/version.gitVersion=v1.37.2", self.calls.read_text())

    def test_a_further_program_is_added(self):
        self.run_tool("etcd")
        self.run_tool("etcd", "kube-scheduler")
        self.assertEqual(self.built(), ["etcd", "kube-scheduler"])

    def test_another_go_builds_into_another_folder(self):
        outputs = {self.run_tool("etcd", GO_VERSION=version)[1] for version in
                   ("go1.26.8", "go1.26.9")}
        self.assertEqual(len(outputs), 2)

    def test_a_failed_program_is_built_again(self):
        code, output, error = self.run_tool("etcd", FAILS="1")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("module not served (log: ", error.splitlines()[-1])
        self.assertEqual(self.run_tool("etcd")[0], 0)
        self.assertEqual(self.built(), ["etcd", "etcd"])

    def test_two_at_once_build_it_once(self):
        children = [self.start("etcd", SLOW="0.3") for _ in range(2)]
        outputs = [child.communicate(timeout=60)[0] for child in children]
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(self.built(), ["etcd"])

    def test_if_made_builds_nothing(self):
        code, output, error = self.run_tool("--if-made")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("kube-apiserver and etcd of Kubernetes v1.37.2 are not built: build them "
                      "with tools/kubernetes_environment kube-apiserver etcd", error)
        self.assertEqual(self.built(), [])
        self.run_tool("etcd")
        self.assertEqual(self.run_tool("etcd", "--if-made")[0], 0)

    def test_an_old_go_is_refused(self):
        code, _, error = self.run_tool(GO_VERSION="go1.19.8")
        self.assertEqual(code, 1)
        self.assertIn("is go1.19.8, expected Go 1.26 or newer", error)

    def test_wrong_use_names_the_value_and_what_is_expected(self):
        code, _, error = self.run_tool("kubeadm")
        self.assertEqual(code, 2)
        self.assertIn("PROGRAM is 'kubeadm', expected one of kube-apiserver, etcd", error)


if __name__ == "__main__":
    unittest.main()
