"""A LonghaulJob on a real node: kubelet, containerd and runc, driven by kubectl.

  real_kubelet_test.py LONGHAUL BUILD_FOLDER | IMAGE.tar

The containers run this image, or the one that tools/package makes of BUILD_FOLDER. The test needs root, the
packages that real_kubelet.py names, the programs of tools/kubernetes_environment (kubelet, kubectl)
and a Debian mirror. It runs with LONGHAUL_TEST_KUBELET=1 only, and takes about three minutes.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import operator_case
import real_kubelet
from api_server import ROOT
from operator_case import OperatorCase, wait_for

BUILD = None
USER = 1000
LIMIT_S = 600
# Until the test has made a file.
COMMAND = ["sh", "-c", 'until test -e "$0/end"; do sleep 0.1; done; echo "rank $RANK ends"']


class RealKubeletTest(OperatorCase):
    IMAGE = None
    PROGRAMS = ("kube-apiserver", "etcd", "kubelet", "kubectl")

    @classmethod
    def setUpClass(cls):
        reason = ("set LONGHAUL_TEST_KUBELET=1 to build an image and start a node"
                  if os.environ.get("LONGHAUL_TEST_KUBELET") != "1"
                  else real_kubelet.reason_to_skip())
        if reason:
            print(reason)
            raise unittest.SkipTest(reason)
        super().setUpClass()

    @classmethod
    def start_nodes(cls):
        archive = BUILD if BUILD.suffix == ".tar" else cls.build_image()
        cls.IMAGE = f"localhost/longhaul:{archive.name.split('-')[2]}"
        cls.kubelet = cls.enterClassContext(
            real_kubelet.RealKubelet(cls.binaries, cls.server, "real-0", [archive]))

    @classmethod
    def build_image(cls):
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "tools" / "package", "image", "--from-packages",
             "--build", BUILD, "--output", cls.folder / "dist"],
            stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return pathlib.Path(done.stdout.strip())

    def kubectl(self, *words):
        done = subprocess.run(
            [self.binaries / "kubectl", "--kubeconfig", self.server.kubeconfig, *words],
            stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=60, check=False,
            env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def apply(self, name, workers):
        """Returns the folder of the job's storage, which its pods share."""
        storage = self.folder / name
        storage.mkdir()
        os.chown(storage, USER, USER)
        manifest = self.folder / f"{name}.json"
        manifest.write_text(json.dumps({
            "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "metadata": {"name": name},
            "spec": {"workers": {"desired": workers}, "runDirectory": "/data/run",
                     "job": {"command": [*COMMAND, "/data"]},
                     "template": {"spec": {
                         "securityContext": {"runAsUser": USER, "runAsNonRoot": True,
                                             "fsGroup": USER},
                         "containers": [{"name": "worker", "image": self.IMAGE, "volumeMounts": [
                             {"name": "data", "mountPath": "/data"}]}],
                         "volumes": [{"name": "data", "hostPath": {"path": str(storage)}}]}}}}))
        self.kubectl("apply", "-f", str(manifest))
        return storage

    def command(self, pod):
        """The process of the training in this pod; None: there is none."""
        for pid, words in self.kubelet.processes_in(pod, "worker").items():
            if words.startswith(b"sh\0-c\0until"):
                return pid
        return None

    def restarts(self, name):
        return self.job(name)["status"]["restarts"]

    def test_a_job_survives_deletion_and_sigkill_and_tells_its_story(self):
        storage = self.apply("story", 4)
        self.await_phase("story", "Running")
        workers = [f"story-worker-{index}-0" for index in range(4)]
        for pod in workers:
            wait_for(lambda pod=pod: self.command(pod), f"the command in {pod}")
        line = self.kubectl("get", "lhj", "story").splitlines()[1]
        self.assertIn("Running", line)

        os.kill(self.command(workers[2]), signal.SIGKILL)
        wait_for(lambda: self.restarts("story") == 1, "a restart")
        wait_for(lambda: self.command(workers[2]), "the command again")
        self.await_phase("story", "Running")

        self.kubectl("delete", "pod", workers[1], "--wait=false")
        wait_for(lambda: "story-worker-1-1" in {pod["metadata"]["name"] for pod in self.pods()},
                 "the worker's next life")
        wait_for(lambda: self.command("story-worker-1-1"), "its command")
        wait_for(lambda: self.restarts("story") == 2, "a second restart")
        self.await_phase("story", "Running")

        (storage / "end").touch()
        self.await_phase("story", "Succeeded")
        self.assertIn("Succeeded", self.kubectl("get", "lhj", "story"))
        wait_for(lambda: not self.pods("worker"), "the end of the workers")
        told = self.kubectl("describe", "lhj", "story")
        for word in ("Running", "Restarted", "SIGKILL", "Succeeded"):
            self.assertIn(word, told)
        self.assertTrue((storage / "run" / "report.json").is_file())

    def test_containers_of_a_job_have_the_least_rights(self):
        storage = self.apply("rights", 1)
        self.await_phase("rights", "Running")
        pid = wait_for(lambda: self.command("rights-worker-0-0"), "the command")
        status = dict(line.split(":", 1) for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        self.assertEqual(status["Uid"].split(), [str(USER)] * 4)
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Seccomp"].strip(), "2", "a filter")
        (storage / "end").touch()
        self.await_phase("rights", "Succeeded")


if __name__ == "__main__":
    operator_case.LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
