"""What tests of whole LonghaulJobs share: a server, nodes, the scheduler and the operator.

The kubelets are the stand-in of process_kubelet.py, which runs the pods' containers as processes.
"""

import json
import os
import pathlib
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
OPERATOR = ROOT / "deploy" / "kubernetes" / "operator.yaml"
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


class OperatorCase(unittest.TestCase):
    """A server, four nodes, the scheduler and the operator; the jobs are removed after each test.

    LONGHAUL of this module must be set to the path of the program.
    """

    IMAGE = "longhaul:test"
    PROGRAMS = ("kube-apiserver", "etcd")

    @classmethod
    def setUpClass(cls):
        binaries = cls.binaries = programs_or_skip(*cls.PROGRAMS)
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
        cls.add_priority_class()
        cls.start_nodes()
        cls.enterClassContext(Program(cls.server, "schedule"))

    @classmethod
    def add_priority_class(cls):
        """That of extra workers, as it is installed."""
        manifest, = [each for each in OPERATOR.read_text().split("\n---\n")
                     if "kind: PriorityClass" in each]
        status, answer = cls.server.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                                         manifest, "application/yaml")
        assert status == 201, answer

    @classmethod
    def start_nodes(cls):
        """Nodes that run the containers as processes of this machine."""
        # What an image of Longhaul has at /opt/longhaul.
        program = cls.folder / "program"
        (program / "bin").mkdir(parents=True)
        for name in ("longhaul", "longhaul-kube", "longhaul-trainer"):
            (program / "bin" / name).symlink_to(pathlib.Path(LONGHAUL).resolve().parent / name)
        cls.kubelet = cls.enterClassContext(ProcessKubelet(
            cls.server, [node(f"n{i}", {"pool": "a" if i < 3 else "b"}, gpus=8) for i in range(4)],
            programs={"/opt/longhaul": program}))

    def setUp(self):
        self.operator = self.start_operator()
        self.addCleanup(lambda: self.operator.end())
        self.addCleanup(self.remove_jobs)

    def start_operator(self):
        return Program(self.server, "operate", "--image", self.IMAGE, "--lost-patience", "5")

    def remove_jobs(self):
        if os.environ.get("LONGHAUL_TEST_SHOW"):
            self.show()
        for job in self.server.items(JOBS):
            self.delete(job["metadata"]["name"])

    def show(self):
        """Prints what is known of the jobs, for the one who looks for a defect."""
        print(self.operator.log.read_text()[-4000:])
        for pod in self.pods():
            print(json.dumps(pod["status"])[:1500])
        for job in self.server.items(JOBS):
            print(json.dumps(job.get("status"), indent=1))
        for log in sorted(self.folder.glob("runs/*/cluster/controller.log")):
            print(log, log.read_text()[-3000:])
            told = subprocess.run([LONGHAUL, "explain", log.parent.parent], capture_output=True,
                                  text=True)
            print(told.stdout + told.stderr)

    def cordon(self, unschedulable, *names):
        for name in names or [each["metadata"]["name"]
                              for each in self.server.items("/api/v1/nodes")]:
            self.server.call("PATCH", f"/api/v1/nodes/{name}",
                             {"spec": {"unschedulable": unschedulable}})

    def pods(self, role=None):
        selector = "longhaul.dev/job" + (f",longhaul.dev/role={role}" if role else "")
        return self.server.items(f"{PODS}?labelSelector={selector.replace('/', '%2F')}")

    def job(self, name):
        return self.server.call("GET", f"{JOBS}/{name}")

    def phase(self, name):
        return self.job(name).get("status", {}).get("phase")

    def make(self, name, workers=4, steps=STEPS, labels=None, **spec):
        """A job of the built-in trainer. `workers`: how many, or spec.workers."""
        run = self.folder / "runs" / name
        job = {**MODEL, "train": {**MODEL["train"], "steps": steps}}
        self.server.call("POST", JOBS, {
            "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"workers": workers if isinstance(workers, dict) else {"desired": workers},
                     "job": job, "runDirectory": str(run),
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
                if each.get("regarding", {}).get("name") == name]  # some events name no object

    def delete(self, name):
        self.server.call("DELETE", f"{JOBS}/{name}")
        wait_for(lambda: self.server.send("GET", f"{JOBS}/{name}")[0] == 404, f"the end of {name}")

    def undisturbed(self, steps, workers=4):
        """The losses of the same job in a local run."""
        folder = self.folder / f"local-{steps}"
        folder.mkdir()
        (folder / "job.yaml").write_text(json.dumps({
            **MODEL, "name": "local", "train": {**MODEL["train"], "steps": steps},
            "resources": {"nodes": workers, "processes_per_node": 1}}))
        subprocess.run([LONGHAUL, "run", "--quiet", "job.yaml"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS)
        return self.losses(folder / "runs" / "local")

    def restart_operator(self):
        self.operator.end()
        self.operator = self.start_operator()

    def names(self, role=None):
        return sorted(pod["metadata"]["name"] for pod in self.pods(role)
                      if "deletionTimestamp" not in pod["metadata"])
