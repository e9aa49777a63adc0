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
LONG = 1500
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
        self.end()

    def end(self):
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
        self.operator = self.start_operator()
        self.addCleanup(lambda: self.operator.end())
        self.addCleanup(self.remove_jobs)

    def start_operator(self):
        return Program(self.server, "operate", "--image", "longhaul:test", "--lost-patience", "5")

    def remove_jobs(self):
        if os.environ.get("LONGHAUL_TEST_SHOW"):
            self.show()
        for job in self.server.items(JOBS):
            self.delete(job["metadata"]["name"])

    def show(self):
        """What is known of the jobs, for the one who looks for a defect."""
        if True:
            print(self.operator.log.read_text()[-4000:])
            for pod in self.pods():
                print(json.dumps(pod["status"])[:1500])
            for job in self.server.items(JOBS):
                print(json.dumps(job.get('status'), indent=1))
            for log in sorted(self.folder.glob("runs/*/cluster/controller.log")):
                print(log, log.read_text()[-3000:])
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
        """The process of the training in this pod, which the fork server has made last."""
        trainers = []
        for pid in self.kubelet.processes(pod):
            try:
                if os.readlink(f"/proc/{pid}/exe").endswith("/longhaul-trainer"):
                    trainers.append(pid)
            except OSError:
                continue  # it has ended
        return max(trainers) if len(trainers) > 1 else None

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

    def undisturbed(self, steps):
        """The losses of the same job in a local run."""
        folder = self.folder / f"local-{steps}"
        folder.mkdir()
        (folder / "job.yaml").write_text(json.dumps({
            **MODEL, "name": "local", "train": {**MODEL["train"], "steps": steps},
            "resources": {"nodes": 4, "processes_per_node": 1}}))
        subprocess.run([LONGHAUL, "run", "--quiet", "job.yaml"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS)
        return self.losses(folder / "runs" / "local")

    def restart_operator(self):
        self.operator.end()
        self.operator = self.start_operator()

    def names(self, role=None):
        return sorted(pod["metadata"]["name"] for pod in self.pods(role)
                      if "deletionTimestamp" not in pod["metadata"])

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
        self.assertIn("succeeded", self.kubelet.log("plain-controller-0", "controller"))
        self.delete("plain")
        self.assertEqual(self.pods(), [])

    def test_losses_stay_those_of_an_undisturbed_run_whatever_is_killed(self):
        expected = self.undisturbed(LONG)
        run = self.make("hurt", steps=LONG)
        self.await_phase("hurt", "Running")
        wait_for(lambda: self.step(run) > 100, "the first steps")
        os.kill(wait_for(lambda: self.worker_process("hurt-worker-2-0"), "a worker"),
                signal.SIGKILL)
        wait_for(lambda: self.job("hurt")["status"]["restarts"] == 1, "a restart")
        self.server.call("DELETE", f"{PODS}/hurt-worker-1-0")
        wait_for(lambda: "hurt-worker-1-1" in self.names(), "the worker's next life")
        wait_for(lambda: self.job("hurt")["status"]["restarts"] == 2, "a second restart")
        # The workers do not notice these two.
        before = wait_for(lambda: self.worker_process("hurt-worker-3-0"), "a worker")
        self.restart_operator()
        self.kubelet.kill_container("hurt-controller-0", "controller", signal.SIGKILL)
        step = self.step(run)
        wait_for(lambda: self.step(run) > step + 50, "further steps")
        self.assertEqual(self.worker_process("hurt-worker-3-0"), before)
        self.await_phase("hurt", "Succeeded")
        status = self.job("hurt")["status"]
        self.assertEqual(status["restarts"], 2)
        losses = self.losses(run)
        self.assertEqual(losses, {step: expected[step] for step in losses})
        # The report of a step may be lost with the controller, not the step.
        self.assertGreaterEqual(len(losses), LONG - 2)
        self.assertEqual(max(losses), LONG)
        events = self.events("hurt")
        told = [reason for reason, _ in events]
        for reason in ("Queued", "Running", "Restarted", "Succeeded"):
            self.assertIn(reason, told)
        self.assertIn("SIGKILL", " ".join(note for _, note in events))

    def test_a_suspended_job_has_no_pods_and_continues_from_its_checkpoint(self):
        expected = self.undisturbed(LONG - 1)
        run = self.make("pause", steps=LONG - 1)
        self.await_phase("pause", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        self.server.call("PATCH", f"{JOBS}/pause", {"spec": {"suspend": True}})
        self.await_phase("pause", "Suspended")
        wait_for(lambda: not self.pods(), "the end of all pods")
        reached = self.step(run)
        self.assertLess(reached, LONG - 1)
        self.server.call("PATCH", f"{JOBS}/pause", {"spec": {"suspend": False}})
        self.await_phase("pause", "Succeeded")
        losses = self.losses(run)
        self.assertGreaterEqual(min(losses), reached, "it did not begin again")
        self.assertEqual(losses, {step: expected[step] for step in losses})

    def test_a_worker_of_a_dead_node_is_replaced_on_another_one(self):
        run = self.make("node", workers=2, steps=LONG)
        self.await_phase("node", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        dead, = (pod["spec"]["nodeName"] for pod in self.pods("worker")
                 if pod["metadata"]["name"] == "node-worker-1-0")
        controller, = self.pods("controller")
        if controller["spec"]["nodeName"] == dead:
            self.skipTest("the controller is on that node, too")
        self.kubelet.kill_node(dead)
        try:
            wait_for(lambda: "node-worker-1-1" in self.names(), "the worker's next life")
            self.await_phase("node", "Succeeded")
            self.assertGreaterEqual(self.job("node")["status"]["restarts"], 1)
        finally:
            self.kubelet.resume(dead)

    def test_a_wrong_job_is_explained(self):
        self.make("wrong", template={"spec": {"containers": [
            {"name": "worker", "image": "train:test", "args": ["x"]}]}})
        self.await_phase("wrong", "Failed")
        conditions = {each["type"]: each for each in self.job("wrong")["status"]["conditions"]}
        self.assertIn("args of the worker container", conditions["Failed"]["message"])
        self.make("wrong-file", workers=1, job={"train": {"stpes": 3}})
        self.await_phase("wrong-file", "Failed")
        self.assertIn("stpes", self.kubelet.log("wrong-file-controller-0", "controller"))

    def test_a_command_writes_into_the_logs_of_its_pods(self):
        self.make("words", workers=2, job={
            "command": ["/bin/sh", "-c", "echo node $GROUP_RANK of $WORLD_SIZE says $WORD; exit $CODE"],
            "environment": {"WORD": "hello", "CODE": "0"}})
        self.await_phase("words", "Succeeded")
        for rank in range(2):
            self.assertIn(f"[rank {rank}] node {rank} of 2 says hello",
                          "".join(self.kubelet.log(f"words-worker-{index}-0", "worker")
                                  for index in range(2)))
        # A command that fails ends the job, and the status says why.
        self.make("fails", workers=1, job={
            "command": ["/bin/sh", "-c", "exit 7"], "max_restarts": 0})
        self.await_phase("fails", "Failed")
        conditions = {each["type"]: each for each in self.job("fails")["status"]["conditions"]}
        self.assertIn("7", conditions["Failed"]["message"])

    def test_why_a_job_waits_is_in_its_status(self):
        self.make("wide", workers=2, devices={"resource": "nvidia.com/gpu", "perWorker": 9})
        wait_for(lambda: "9 GPUs" in json.dumps(self.job("wide").get("status", {})),
                 "the reason")
        self.assertEqual(self.phase("wide"), "Queued")
        self.delete("wide")


if __name__ == "__main__":
    LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
