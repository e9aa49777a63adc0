"""The runtime deploy/kubernetes/trainer-runtime.yaml with the real Kubeflow Trainer and JobSet.

  trainer_test.py LONGHAUL

Controllers of Trainer, JobSet and Kubernetes make the pods of TrainJobs, Longhaul's scheduler binds
them under the rights that `longhaul kube install` grants, and the stand-in of process_kubelet.py
runs their processes. Skipped, with a line, where tools/kubernetes_environment has not built the
programs: `tools/kubernetes_environment kube-controller-manager jobset trainer`.
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
import account_rights
from api_server import ApiServer, folder_for, programs_or_skip
from process_kubelet import ProcessKubelet, node
from trainer_server import PROGRAMS, HostNames, TrainerControllers, wait_for

LONGHAUL = None
RUNTIME = "trainer-runtime.yaml"
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
JOBS = f"{TRAINER}/namespaces/default/trainjobs"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
BATCH = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
STRICT = "?fieldValidation=Strict"
LEAF = "network.topology.nvidia.com/leaf"
INDEX = "batch.kubernetes.io/job-completion-index"
WORKER = pathlib.Path(__file__).resolve().parent / "trainer_worker.py"
NODES = 4
GPUS = 8
SHORT = 20  # steps
LONG = 100


class TrainerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            runtime, = account_rights.manifests(RUNTIME)
        except ImportError:
            print("PyYAML is not installed")
            raise unittest.SkipTest("PyYAML is not installed") from None
        binaries = programs_or_skip("kube-apiserver", "etcd", *PROGRAMS)
        cls.folder = folder_for(cls)
        cls.server = cls.enterClassContext(ApiServer(binaries, cls.folder, authorization="RBAC"))
        cls.controllers = cls.enterClassContext(TrainerControllers(binaries, cls.server))
        cls.kubelet = cls.enterClassContext(ProcessKubelet(cls.server, [
            node(f"n{i}", {LEAF: f"leaf{i // 2}"}, gpus=GPUS) for i in range(NODES)]))
        cls.names = cls.folder / "names.json"
        cls.enterClassContext(HostNames(cls.server, cls.names))
        cls.start_scheduler()
        cls.server.call("POST", f"{TRAINER}/clustertrainingruntimes{STRICT}", runtime)

    @classmethod
    def start_scheduler(cls):
        """The scheduler, as the account that is installed for it."""
        subprocess.run([LONGHAUL, "kube", "install", "--kubeconfig", cls.server.kubeconfig,
                        "--image", "longhaul:test"], check=True, stdout=subprocess.DEVNULL)
        account = "/api/v1/namespaces/longhaul/serviceaccounts/longhaul-scheduler"
        token = cls.server.call("POST", f"{account}/token", {"spec": {"expirationSeconds": 3600}})
        kubeconfig = cls.folder / "scheduler.kubeconfig"
        cls.server.write_kubeconfig(kubeconfig, token["status"]["token"], "longhaul")
        cls.scheduler_log = cls.folder / "scheduler.log"
        with open(cls.scheduler_log, "w") as log:
            process = subprocess.Popen(
                [LONGHAUL, "kube", "schedule", "--kubeconfig", kubeconfig, "--no-leader-election"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

    def tearDown(self):
        self.assertEqual(self.controllers.ended(), [], self.controllers.last_lines())
        if os.environ.get("LONGHAUL_TEST_SHOW"):
            self.show()
        for each in self.server.items(JOBS):
            self.server.call("DELETE", f"{JOBS}/{each['metadata']['name']}")
        wait_for(lambda: not self.server.items(PODS), "the end of the pods", self.last_lines)

    def show(self):
        """Prints what is known of the jobs, for the one who looks for a defect."""
        for path in (JOBS, JOB_SETS, GROUPS, BATCH, PODS):
            for each in self.server.items(path):
                each["metadata"].pop("managedFields", None)
                print(json.dumps(each, indent=1))
        print(self.last_lines())

    def last_lines(self):
        return self.controllers.last_lines() + self.scheduler_log.read_text()[-2000:]

    def make(self, name, nodes=NODES, steps=SHORT):
        """A TrainJob that needs all GPUs of each of its nodes; returns its folder."""
        folder = self.folder / name
        folder.mkdir()
        self.server.call("POST", JOBS + STRICT, {
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": name},
            "spec": {"runtimeRef": {"name": "longhaul-torch"}, "trainer": {
                "numNodes": nodes,
                "command": [sys.executable, "-B", str(WORKER), str(self.names), str(folder),
                            str(steps)],
                "resourcesPerNode": {"limits": {"nvidia.com/gpu": str(GPUS)}}}}})
        return folder

    def conditions(self, name):
        status = self.server.call("GET", f"{JOBS}/{name}").get("status", {})
        return {each["type"]: each["status"] for each in status.get("conditions", [])}

    def await_completion(self, name):
        def is_complete():
            conditions = self.conditions(name)
            self.assertNotIn("Failed", conditions, self.last_lines())
            return conditions.get("Complete") == "True"
        wait_for(is_complete, f"{name} is complete", self.last_lines)

    def pods(self, name):
        """The pods of a TrainJob by their rank."""
        found = {int(pod["metadata"]["annotations"][INDEX]): pod
                 for pod in self.server.items(PODS)
                 if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name}
        return [found[rank] for rank in sorted(found)]

    def places(self, name):
        return [pod["spec"].get("nodeName") for pod in self.pods(name)]

    def starts(self, folder):
        """What each process that has been started was given."""
        path = folder / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def step(self, folder):
        path = folder / "step"
        return int(path.read_text()) if path.exists() else 0

    def test_a_train_job_runs_as_one_gang_and_completes(self):
        folder = self.make("whole")
        self.await_completion("whole")
        self.assertEqual(self.step(folder), SHORT)
        self.assertEqual(sorted(self.places("whole")), ["n0", "n1", "n2", "n3"])
        for rank, pod in enumerate(self.pods("whole")):
            self.assertEqual(pod["spec"]["schedulerName"], "longhaul")
            self.assertEqual(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "whole")
            self.assertEqual(pod["metadata"]["annotations"]["longhaul.dev/rank"], str(rank))
        group = self.server.call("GET", f"{GROUPS}/whole")
        self.assertEqual(group["spec"]["minMember"], NODES)
        starts = sorted(self.starts(folder), key=lambda each: each["rank"])
        self.assertEqual([each["rank"] for each in starts], list(range(NODES)))
        for each in starts:
            self.assertEqual(each["environment"]["PET_NNODES"], str(NODES))
            self.assertEqual(each["environment"]["PET_NPROC_PER_NODE"], "auto")
            self.assertEqual(each["environment"]["PET_MASTER_ADDR"], "whole-node-0-0.whole")

    def test_a_small_gang_lies_under_one_switch(self):
        self.make("small", nodes=2)
        self.await_completion("small")
        self.assertEqual(len({int(place[1:]) // 2 for place in self.places("small")}), 1)

    def test_a_gang_that_does_not_fit_waits_unbound_and_its_pods_have_the_reason(self):
        cordon = {"spec": {"unschedulable": True}}
        self.server.call("PATCH", "/api/v1/nodes/n3", cordon)
        folder = self.make("waits")

        def reasons():
            return [each.get("message", "") for pod in self.pods("waits")
                    for each in pod["status"].get("conditions", [])
                    if each["type"] == "PodScheduled" and each["status"] == "False"]
        wait_for(lambda: len(reasons()) == NODES, "the reason of each pod", self.last_lines)
        self.assertEqual(set(reasons()), {"It waits: no room for 4 x 8 GPUs; 24 GPUs are free."})
        self.assertEqual(self.places("waits"), [None] * NODES)
        self.assertEqual(self.starts(folder), [])
        self.server.call("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": False}})
        self.await_completion("waits")
        self.assertEqual(self.step(folder), SHORT)

    def restarted(self, name, disturb):
        """Disturbs a TrainJob in its midst; returns the status of its JobSet at the end."""
        folder = self.make(name, steps=LONG)
        wait_for(lambda: self.step(folder) > 5, "the first steps", self.last_lines)
        before = self.pods(name)
        disturb(before[2])
        self.await_completion(name)
        self.assertEqual(self.step(folder), LONG)
        # All pods are other ones, and each rank was started twice.
        after = self.pods(name)
        uids = {pod["metadata"]["uid"] for pod in before + after}
        self.assertEqual((len(after), len(uids)), (NODES, 2 * NODES))
        self.assertEqual(sorted(self.places(name)), ["n0", "n1", "n2", "n3"])
        ranks = sorted(each["rank"] for each in self.starts(folder))
        self.assertEqual(ranks, sorted(2 * list(range(NODES))))
        return self.server.call("GET", f"{JOB_SETS}/{name}")["status"]

    def test_a_killed_worker_restarts_the_whole_gang(self):
        status = self.restarted("killed", lambda pod: self.kubelet.kill_container(pod, "node"))
        self.assertEqual((status["restarts"], status["restartsCountTowardsMax"]), (1, 1))

    def test_an_evicted_pod_restarts_the_gang_without_counting(self):
        def signal_others(pod, number):
            for other in self.pods("evicted"):
                if other["metadata"]["uid"] != pod["metadata"]["uid"]:
                    for pid in self.kubelet.processes(other):
                        os.kill(pid, number)

        def has_failed():
            job = self.server.call("GET", f"{BATCH}/evicted-node-0")
            return any(each["type"] == "FailureTarget" and each["reason"] == "PodFailurePolicy"
                       for each in job["status"].get("conditions", []))

        def evict(pod):
            # The restart would count if another pod failed before the evicted one had ended.
            signal_others(pod, signal.SIGSTOP)
            name = pod["metadata"]["name"]
            self.server.call("POST", f"{PODS}/{name}/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
            wait_for(has_failed, "the end of the Job", self.last_lines)
            signal_others(pod, signal.SIGCONT)
        status = self.restarted("evicted", evict)
        self.assertEqual((status["restarts"], status.get("restartsCountTowardsMax", 0)), (1, 0))


if __name__ == "__main__":
    LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
