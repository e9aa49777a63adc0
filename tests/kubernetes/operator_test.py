"""`longhaul kube operate`: whole LonghaulJobs with the real kube-apiserver.

  operator_test.py LONGHAUL

LONGHAUL is the built program; longhaul-kube and longhaul-trainer are beside it. The operator and
the scheduler are those of the product. The kubelets are the stand-in of process_kubelet.py, which
runs the pods' containers as processes. Skipped, with a line, where tools/kubernetes_environment
has not built the programs.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, ApiServer, folder_for, programs_or_skip
from process_kubelet import ProcessKubelet, node

LONGHAUL = None
WAIT_SECONDS = 100
DEFINITION = ROOT / "deploy" / "kubernetes" / "crd" / "longhauljob.yaml"
JOBS = "/apis/longhaul.dev/v1/namespaces/default/longhauljobs"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
STEPS = 60
MODEL = {"model": {"layers": 1, "hidden": 32, "heads": 2, "sequence": 32},
         "data": {"include": [str(ROOT / "src" / "base" / "*.h")]},
         "train": {"global_batch": 8, "seed": 7, "evaluate_every": 0}}


def wait_for(done, what, seconds=WAIT_SECONDS):
    deadline = time.monotonic() + seconds
    while True:
        value = done()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


class Program:
    """A command of longhaul kube as a process; its output is in a file."""

    def __init__(self, server, command, *words):
        self.log = server.folder / f"{command}-{time.monotonic_ns()}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [LONGHAUL, "kube", command, "--kubeconfig", server.kubeconfig,
                 "--no-leader-election", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()


class OperatorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        folder = folder_for(cls)
        cls.folder = folder
        cls.server = cls.enterClassContext(ApiServer(binaries, folder))
        status, answer = cls.server.send(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            DEFINITION.read_text(), "application/yaml")
        assert status == 201, answer
        wait_for(lambda: cls.server.is_served(JOBS), "the definition of LonghaulJob")
        # No controller of service accounts runs here.
        cls.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "longhaul"}})
        for namespace, name in (("default", "default"), ("longhaul", "longhaul-operator")):
            cls.server.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts",
                            {"metadata": {"name": name}})
        # What an image of Longhaul has at /opt/longhaul.
        program = folder / "program"
        (program / "bin").mkdir(parents=True)
        for name in ("longhaul", "longhaul-kube", "longhaul-trainer"):
            (program / "bin" / name).symlink_to(pathlib.Path(LONGHAUL).resolve().parent / name)
        cls.kubelet = cls.enterClassContext(ProcessKubelet(
            cls.server, [node(f"n{i}", gpus=8) for i in range(4)],
            programs={"/opt/longhaul": program}))
        cls.enterClassContext(Program(cls.server, "schedule"))

    def setUp(self):
        self.operator = self.enterContext(Program(
            self.server, "operate", "--image", "longhaul:test", "--lost-patience", "10"))
        self.addCleanup(self.show)

    def show(self):
        if True:
            print(self.operator.log.read_text()[-4000:])
            for pod in self.pods():
                print(json.dumps(pod["status"])[:1500])
            for job in self.server.items(JOBS):
                print(json.dumps(job.get('status'), indent=1))
            for log in sorted(self.kubelet.folder.glob("*/*.log")) if hasattr(
                    self.kubelet, "folder") else []:
                print(log, log.read_text()[-1500:])

    def pods(self, role=None):
        selector = "longhaul.dev/job" + (f",longhaul.dev/role={role}" if role else "")
        return self.server.items(f"{PODS}?labelSelector={selector.replace('/', '%2F')}")

    def job(self, name):
        return self.server.call("GET", f"{JOBS}/{name}")

    def phase(self, name):
        return self.job(name).get("status", {}).get("phase")

    def make(self, name, workers=4, steps=STEPS, **spec):
        """A job of the built-in trainer."""
        run = self.folder / "runs" / name
        job = {**MODEL, "train": {**MODEL["train"], "steps": steps}}
        self.server.call("POST", JOBS, {
            "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "metadata": {"name": name},
            "spec": {"workers": {"desired": workers}, "job": job, "runDirectory": str(run),
                     "template": {"spec": {"containers": [{"name": "worker", "image": "train:test"}]}},
                     **spec}})
        return run

    def await_phase(self, name, *phases):
        def done():
            phase = self.phase(name)
            if phase == "Failed" and "Failed" not in phases:
                raise AssertionError(self.job(name)["status"])
            return phase in phases
        wait_for(done, f"{name}: {phases}")

    def step(self, run):
        """The newest step that the report of the run's events has."""
        steps = [json.loads(line).get("step", {}).get("step", 0)
                 for line in (run / "events.jsonl").read_text().splitlines() if '"step"' in line]
        return max(steps, default=0)

    def worker_process(self, pod):
        """A process of the training in this pod: a child of the fork server."""
        for pid in self.kubelet.processes(pod):
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                if os.readlink(f"/proc/{stat[1]}/exe").endswith("/longhaul-trainer"):
                    return pid
            except OSError:
                continue  # it has ended
        return None

    def losses(self, run):
        """The loss of each step, from the run's metrics; of a step done twice the last one."""
        lines = (run / "metrics.csv").read_text().splitlines()
        names = lines[0].split(",")
        rows = [dict(zip(names, line.split(","))) for line in lines[1:]]
        return {int(row["step"]): row["loss"] for row in rows}

    def events(self, name):
        return [(each["reason"], each.get("note", "")) for each in self.server.items(EVENTS)
                if each["regarding"]["name"] == name]

    def delete(self, name):
        self.server.call("DELETE", f"{JOBS}/{name}")
        wait_for(lambda: self.server.send("GET", f"{JOBS}/{name}")[0] == 404, f"the end of {name}")

    def test_a_job_goes_from_apply_to_succeeded(self):
        run = self.make("plain")
        self.await_phase("plain", "Succeeded")
        status = self.job("plain")["status"]
        self.assertEqual(status["restarts"], 0)
        self.assertGreater(status["goodput"], 0)
        self.assertEqual(len(self.losses(run)), STEPS)
        wait_for(lambda: not self.pods("worker"), "the end of the workers")
        controller, = self.pods("controller")
        self.assertEqual(controller["status"]["phase"], "Succeeded", "it stays for its log")
        self.delete("plain")
        self.assertEqual(self.pods(), [])

    def test_losses_stay_those_of_an_undisturbed_run_through_deleted_pods_and_killed_workers(self):
        steps = 6000
        run = self.make("hurt", steps=steps)
        self.await_phase("hurt", "Running")
        wait_for(lambda: self.step(run) > 100, "the first steps")
        pid = wait_for(lambda: self.worker_process("hurt-worker-2-0"), "a worker")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.job("hurt")["status"]["restarts"] >= 1, "a restart")
        self.server.call("DELETE", f"{PODS}/hurt-worker-1-0")
        wait_for(lambda: any(pod["metadata"]["name"] == "hurt-worker-1-1" for pod in self.pods()),
                 "the worker's next life")
        self.await_phase("hurt", "Running")
        self.await_phase("hurt", "Succeeded")
        print(self.events("hurt"), self.job("hurt")["status"])


if __name__ == "__main__":
    LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
