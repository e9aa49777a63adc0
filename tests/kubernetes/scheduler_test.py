"""`longhaul kube schedule` with the real kube-apiserver.

  scheduler_test.py LONGHAUL

LONGHAUL is the built program; longhaul-kube is beside it. Nodes are objects of the API, pods are
never run. Skipped, with a line, where tools/kubernetes_environment has not built the programs.
LONGHAUL_KUBERNETES_SEEDS says with how many seeds the scheduler is killed (standard: 4).
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, ApiServer, folder_for, programs_or_skip
from faulty_proxy import FaultyProxy
from kubernetes_objects import (POD_GROUP_DEFINITION, gpu_node, gpu_pod, late_storage_class,
                                persistent_volume, persistent_volume_claim, pod_group)

LONGHAUL = None
GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WAIT_SECONDS = 60


def wait_for(done, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {WAIT_SECONDS} s")
        time.sleep(0.05)


class Scheduler:
    """The scheduler as a process; its output is in a file."""

    def __init__(self, server, *words, kubeconfig=None):
        self.log = server.folder / f"scheduler-{time.monotonic_ns()}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [LONGHAUL, "kube", "schedule", "--kubeconfig", kubeconfig or server.kubeconfig,
                 *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, error, *unused):
        self.process.kill()
        self.process.wait()
        if error is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-60:]
            print(f"{self.log.name} ends with:", *lines, sep="\n  ", file=sys.stderr)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)


class SchedulerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.server = cls.enterClassContext(ApiServer(
            binaries, folder_for(cls), flags=["--runtime-config=scheduling.k8s.io/v1beta1=true",
                                          "--feature-gates=GenericWorkload=true"]))
        cls.server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                        POD_GROUP_DEFINITION)
        wait_for(lambda: cls.server.is_served("/apis/scheduling.x-k8s.io/v1alpha1"),
                 "the definition of PodGroups")

    def setUp(self):
        self.addCleanup(self.remove_all)

    def remove_all(self):
        for pod in self.pods().values():
            self.server.call("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}",
                             {"gracePeriodSeconds": 0}, allowed=(200, 404))
        for group in self.server.items("/apis/scheduling.x-k8s.io/v1alpha1/podgroups"):
            self.server.call("DELETE", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/"
                             f"podgroups/{group['metadata']['name']}")
        for node in self.server.items("/api/v1/nodes"):
            self.server.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")

    def add_nodes(self, count, **more):
        for i in range(count):
            self.server.call("POST", "/api/v1/nodes", gpu_node(f"n{i}", leaf=f"leaf{i // 2}"))
            self.server.call("PATCH", f"/api/v1/nodes/n{i}/status",
                             {"status": gpu_node(f"n{i}", **more)["status"]})

    def add_pod(self, name, gpus=1, **more):
        self.server.call("POST", "/api/v1/namespaces/default/pods", gpu_pod(name, gpus, **more))

    def add_gang(self, name, size, gpus=1):
        self.server.call("POST", GROUPS, pod_group(name, size))
        for i in range(size):
            self.add_pod(f"{name}-{i}", gpus, group=name)

    def pods(self):
        return {pod["metadata"]["name"]: pod
                for pod in self.server.items("/api/v1/namespaces/default/pods")}

    def node_of(self, name):
        return self.pods()[name]["spec"].get("nodeName", "")

    def wait_for_node(self, *names):
        def bound():
            pods = self.pods()
            return all(pods[name]["spec"].get("nodeName") for name in names)
        wait_for(bound, f"binding of {', '.join(names)}")

    def message(self, name):
        for condition in self.pods()[name]["status"].get("conditions", []):
            if condition["type"] == "PodScheduled":
                return condition.get("message", "")
        return ""

    def test_binds_pods_and_gangs_and_says_why_others_wait(self):
        self.add_nodes(4)
        self.add_gang("gang", 4, gpus=4)
        self.add_pod("single", gpus=8)
        self.add_pod("large", gpus=16)
        self.add_pod("foreign", gpus=1, scheduler="default-scheduler")
        with Scheduler(self.server, "--no-leader-election") as scheduler:
            self.wait_for_node("gang-0", "gang-1", "gang-2", "gang-3", "single")
            leaves = {int(self.node_of(f"gang-{i}")[1:]) // 2 for i in range(4)}
            self.assertEqual(len(leaves), 1)
            wait_for(lambda: self.message("large"), "a message")
            self.assertIn("Longhaul cannot place it", self.message("large"))
            self.assertEqual(self.node_of("foreign"), "")
            ranks = [self.pods()[f"gang-{i}"]["metadata"]["annotations"]["longhaul.dev/rank"]
                     for i in range(4)]
            self.assertEqual(ranks, ["0", "1", "2", "3"])
            self.assertEqual(scheduler.end(), 0, scheduler.log.read_text())

    def test_pods_in_the_network_of_their_hosts_do_not_share_a_port(self):
        self.add_nodes(2)
        for name in ("one", "two", "three"):
            pod = gpu_pod(name)
            pod["spec"]["hostNetwork"] = True  # the server makes host ports of the container's
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 29500}]
            self.server.call("POST", "/api/v1/namespaces/default/pods", pod)
        with Scheduler(self.server, "--no-leader-election"):
            def waiting():
                return [name for name in ("one", "two", "three") if self.message(name)]
            wait_for(waiting, "a message")
            bound = {"one", "two", "three"} - set(waiting())
            self.wait_for_node(*bound)
            self.assertEqual({self.node_of(name) for name in bound}, {"n0", "n1"})
            self.assertIn("host port 29500/TCP", self.message(waiting()[0]))

    def events(self, reason):
        """The events of this reason since the test began, as `kubectl describe` finds them."""
        return {event["involvedObject"]["name"]: event
                for event in self.server.items("/api/v1/namespaces/default/events")
                if event["reason"] == reason}

    def test_events_tell_what_happened_to_pods(self):
        self.add_nodes(2)
        self.add_gang("told", 2, gpus=8)
        with Scheduler(self.server, "--no-leader-election", "--report-period", "1"):
            self.wait_for_node("told-0", "told-1")
            wait_for(lambda: "told-0" in self.events("Scheduled"), "an event")
            note = self.events("Scheduled")["told-0"]["message"]
            self.assertEqual(note, "Successfully assigned default/told-0 to "
                             f"{self.node_of('told-0')}, with 1 more pod of PodGroup default/told "
                             "on 2 nodes")
            self.assertNotIn("told-1", self.events("Scheduled"))
            self.add_pod("waits", gpus=8)
            wait_for(lambda: "waits" in self.events("FailedScheduling"), "an event")
            first = self.events("FailedScheduling")["waits"]
            self.assertIn("It waits: ", first["message"])
            self.assertEqual(first["type"], "Warning")

            def times():
                series = self.events("FailedScheduling")["waits"].get("series", {})
                return series.get("count", 1)
            wait_for(lambda: times() >= 3, "a series")
            again = self.events("FailedScheduling")["waits"]
            self.assertEqual(again["metadata"]["uid"], first["metadata"]["uid"])

    def test_preempts_through_the_eviction_interface(self):
        self.server.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                         {"metadata": {"name": "high"}, "value": 1000}, allowed=(201, 409))
        self.add_nodes(1)
        self.add_pod("low", gpus=8)
        with Scheduler(self.server, "--no-leader-election"):
            self.wait_for_node("low")
            self.add_pod("high", gpus=8, priority="high")
            # No kubelet ends the pod: the API server waits for one, as for a real one.
            wait_for(lambda: "deletionTimestamp" in self.pods()["low"]["metadata"], "eviction")
            low = self.pods()["low"]
            self.assertIn("DisruptionTarget",
                          [each["type"] for each in low["status"]["conditions"]])
            self.assertEqual(self.node_of("high"), "")
            wait_for(lambda: "low" in self.events("Preempted"), "an event")
            self.assertEqual(self.events("Preempted")["low"]["message"],
                             "Preempted by pod default/high")
            self.server.call("DELETE", "/api/v1/namespaces/default/pods/low",
                             {"gracePeriodSeconds": 0})
            self.wait_for_node("high")

    def add_class(self, storage_class):
        path = "/apis/storage.k8s.io/v1/storageclasses"
        self.server.call("POST", path, storage_class)
        self.addCleanup(self.remove, f"{path}/{storage_class['metadata']['name']}")

    def add_pod_with_claim(self, pod, claim):
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        self.server.call("POST", "/api/v1/namespaces/default/pods", pod)

    def add_claim(self, name, volume="", storage_class=""):
        self.server.call("POST", CLAIMS, persistent_volume_claim(name, volume, storage_class))
        self.addCleanup(self.remove, f"{CLAIMS}/{name}")

    def add_volume(self, name, zone):
        path = "/api/v1/persistentvolumes"
        self.server.call("POST", path, persistent_volume(name, zone))
        self.addCleanup(self.remove, f"{path}/{name}")

    def remove(self, path):
        """Without the controllers that wait until nothing uses the object."""
        self.server.call("PATCH", path, {"metadata": {"finalizers": None}}, (200, 404))
        self.server.call("DELETE", path, None, (200, 404))

    def test_volumes_restrict_nodes_and_hold_pods_back(self):
        self.add_nodes(2)
        self.server.call("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"zone": "b"}}})
        self.add_class(late_storage_class("local", "kubernetes.io/no-provisioner"))
        self.add_volume("pv-b", "b")
        for name in ("data", "local"):
            self.add_pod_with_claim(gpu_pod(name), name)
        with Scheduler(self.server, "--no-leader-election", "--report-period", "1"):
            wait_for(lambda: "claim 'data' does not exist" in self.message("data"), "a message")
            self.add_claim("data", "pv-b")
            self.add_claim("local", storage_class="local")
            wait_for(lambda: "'data' is not bound yet" in self.message("data"), "a message")
            wait_for(lambda: "'local' makes no volumes" in self.message("local"), "a message")
            # What the controller of volumes does.
            self.server.call("PATCH", f"{CLAIMS}/data/status", {"status": {"phase": "Bound"}})
            self.wait_for_node("data")
            self.assertEqual(self.node_of("data"), "n1")
            self.assertEqual(self.node_of("local"), "")

    def selected_node(self, name):
        annotations = self.server.call("GET", f"{CLAIMS}/{name}")["metadata"].get("annotations", {})
        return annotations.get("volume.kubernetes.io/selected-node")

    def provision(self, name, zone):
        """What a provisioner and the controller of volumes do for a claim with a node."""
        self.add_volume(f"pv-{name}", zone)
        self.server.call("PATCH", f"{CLAIMS}/{name}", {"spec": {"volumeName": f"pv-{name}"}})
        self.server.call("PATCH", f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})

    def test_a_gang_is_bound_when_the_volumes_of_its_pods_have_been_made(self):
        self.add_nodes(3)
        for name, zone in (("n0", "a"), ("n1", "b"), ("n2", "b")):
            self.server.call("PATCH", f"/api/v1/nodes/{name}",
                             {"metadata": {"labels": {"zone": zone}}})
        self.add_class(late_storage_class("late", "csi.example.com", ["b"]))
        for i in range(2):
            self.add_claim(f"data-{i}", storage_class="late")
            pod = gpu_pod(f"member-{i}", gpus=8, group="gang")
            self.add_pod_with_claim(pod, f"data-{i}")
        self.server.call("POST", GROUPS, pod_group("gang", 2))
        with Scheduler(self.server, "--no-leader-election", "--report-period", "1"):
            for i in range(2):
                wait_for(lambda i=i: self.selected_node(f"data-{i}"), "a node for the volume")
            nodes = [self.selected_node(f"data-{i}") for i in range(2)]
            self.assertEqual(sorted(nodes), ["n1", "n2"], "the class permits the zone b only")
            wait_for(lambda: "which is being made" in self.message("member-0"), "a message")
            # The provisioner gives up once, and is asked again.
            self.server.call("PATCH", f"{CLAIMS}/data-0", {"metadata": {
                "annotations": {"volume.kubernetes.io/selected-node": None}}})
            wait_for(lambda: self.selected_node("data-0"), "a node for the volume once more")
            self.provision("data-1", "b")
            time.sleep(1)
            self.assertEqual([self.node_of(f"member-{i}") for i in range(2)], ["", ""])
            self.provision("data-0", "b")
            for i in range(2):
                self.wait_for_node(f"member-{i}")
                self.assertEqual(self.node_of(f"member-{i}"), self.selected_node(f"data-{i}"))

    def test_schedules_gangs_of_kubernetes_own_groups(self):
        self.add_nodes(4)
        groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
        key = "network.topology.nvidia.com/leaf"
        self.server.call("POST", groups, {
            "metadata": {"name": "own"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}},
                     "schedulingConstraints": {"topology": [{"key": key}]}}})
        self.addCleanup(self.server.call, "PATCH", f"{groups}/own",
                        {"metadata": {"finalizers": None}}, (200, 404))
        self.addCleanup(self.server.call, "DELETE", f"{groups}/own", None, (200, 404))
        for i in range(3):
            pod = gpu_pod(f"own-{i}", gpus=3)
            pod["spec"]["schedulingGroup"] = {"podGroupName": "own"}
            self.server.call("POST", "/api/v1/namespaces/default/pods", pod)
        with Scheduler(self.server, "--no-leader-election"):
            wait_for(lambda: "3 of the 4 pods" in self.message("own-0"), "a message")
            pod = gpu_pod("own-3", gpus=3)
            pod["spec"]["schedulingGroup"] = {"podGroupName": "own"}
            self.server.call("POST", "/api/v1/namespaces/default/pods", pod)
            names = [f"own-{i}" for i in range(4)]
            self.wait_for_node(*names)
            self.assertEqual(len({int(self.node_of(name)[1:]) // 2 for name in names}), 1)

    def test_schedules_the_pods_of_jobs_and_deployments(self):
        programs_or_skip("kube-controller-manager")
        self.add_nodes(2)
        self.server.run("kube-controller-manager", f"--kubeconfig={self.server.kubeconfig}",
                        "--leader-elect=false", "--authentication-skip-lookup",
                        "--secure-port=0",
                        "--controllers=job-controller,deployment-controller,replicaset-controller")
        _, manager = self.server.processes.pop()
        self.addCleanup(manager.wait)
        self.addCleanup(manager.kill)
        template = {"metadata": {"labels": {"app": "web"}}, "spec": gpu_pod("", 2)["spec"]}
        self.server.call("POST", "/apis/apps/v1/namespaces/default/deployments", {
            "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                     "template": template}})
        job = json.loads(json.dumps(template))
        job["metadata"]["labels"] = {"app": "job"}
        job["spec"]["restartPolicy"] = "Never"
        self.server.call("POST", "/apis/batch/v1/namespaces/default/jobs", {
            "metadata": {"name": "job"},
            "spec": {"parallelism": 2, "completions": 2, "template": job}})

        def bound(app):
            return [pod["metadata"]["name"] for pod in self.pods().values()
                    if pod["metadata"]["labels"]["app"] == app and pod["spec"].get("nodeName")
                    and "deletionTimestamp" not in pod["metadata"]]
        with Scheduler(self.server, "--no-leader-election"):
            wait_for(lambda: len(bound("web")) == 3 and len(bound("job")) == 2, "binds")
            lost = bound("web")[0]
            self.server.call("DELETE", f"/api/v1/namespaces/default/pods/{lost}",
                             {"gracePeriodSeconds": 0})
            wait_for(lambda: len(bound("web")) == 3 and lost not in bound("web"), "the replacement")
        for path in ("apps/v1/namespaces/default/deployments/web",
                     "batch/v1/namespaces/default/jobs/job"):
            self.server.call("DELETE", f"/apis/{path}", {"propagationPolicy": "Orphan"})

    def test_of_two_instances_the_second_takes_over(self):
        self.add_nodes(1)
        with Scheduler(self.server) as first:
            wait_for(lambda: "this instance leads" in first.log.read_text(), "a leader")
            with Scheduler(self.server) as second:
                self.add_pod("one")
                self.wait_for_node("one")
                self.assertNotIn("leads", second.log.read_text())
                self.assertEqual(first.end(), 0)
                self.add_pod("two")
                self.wait_for_node("two")
                self.assertIn("this instance leads", second.log.read_text())

    def test_no_gang_is_partly_bound_after_kills(self):
        first = int(os.environ.get("LONGHAUL_KUBERNETES_SEED", "1"))
        for seed in range(first, first + int(os.environ.get("LONGHAUL_KUBERNETES_SEEDS", "4"))):
            with self.subTest(seed=seed):
                self.run_with_kills(random.Random(seed))
                self.remove_all()

    def run_with_kills(self, rng):
        nodes = rng.randint(3, 6)
        self.add_nodes(nodes)
        gangs = {f"g{i}": rng.randint(2, 8) for i in range(rng.randint(4, 8))}
        gpus = {name: rng.choice([1, 2, 4, 8]) for name in gangs}
        for name, size in gangs.items():
            self.add_gang(name, size, gpus[name])
        # Two schedulers at a time, as when a paused leader goes on: the server decides.
        with Scheduler(self.server, "--no-leader-election") as other:
            for _ in range(rng.randint(1, 4)):
                with Scheduler(self.server, "--no-leader-election") as scheduler:
                    time.sleep(rng.uniform(0, 0.25))
                    scheduler.process.kill()
                if rng.random() < 0.5:
                    other.process.kill()
            if rng.random() < 0.25:
                self.server.restart_server()
        with Scheduler(self.server, "--no-leader-election"):
            self.wait_until_at_rest()
            self.check_at_rest(gangs)

    def test_no_gang_is_partly_bound_under_refused_and_lost_calls(self):
        counts = collections.Counter()
        first = int(os.environ.get("LONGHAUL_KUBERNETES_SEED", "1"))
        for seed in range(first, first + int(os.environ.get("LONGHAUL_KUBERNETES_SEEDS", "3"))):
            with self.subTest(seed=seed):
                try:
                    counts.update(self.run_with_faults(random.Random(seed)))
                finally:
                    self.remove_all()
        print(f"calls that went wrong: {dict(counts)}")
        for kind in (409, 429, 500, "lost", "watch"):
            self.assertGreater(counts[kind], 0, kind)

    def run_with_faults(self, rng):
        nodes = rng.randint(3, 6)
        self.add_nodes(nodes)
        gangs = {f"g{i}": rng.randint(2, 8) for i in range(rng.randint(4, 8))}
        gpus = {name: rng.choice([1, 2, 4, 8]) for name in gangs}
        names = list(gangs)
        rng.shuffle(names)
        with FaultyProxy(self.server, rng) as proxy:
            # Two at a time, as when a paused leader goes on.
            words = ("--no-leader-election", "--incomplete-patience", "2")
            with Scheduler(self.server, *words, kubeconfig=proxy.kubeconfig) as other:
                with Scheduler(self.server, *words, kubeconfig=proxy.kubeconfig):
                    for name in names:
                        self.add_gang(name, gangs[name], gpus[name])
                        time.sleep(rng.uniform(0, 0.5))
                    time.sleep(rng.uniform(1, 3))
                    if rng.random() < 0.5:
                        other.process.kill()
                    time.sleep(rng.uniform(1, 3))
                    proxy.faults.calm = True
                    self.wait_until_whole(gangs)
            self.check_one_scheduler_alone(gangs)
            return proxy.faults.counts

    def check_one_scheduler_alone(self, gangs):
        """Whatever happened before, one that is alone gives no node more than it has."""
        late = {"late0": 3, "late1": 2}
        with Scheduler(self.server, "--no-leader-election", "--incomplete-patience", "2"):
            rejected = self.rejected()
            for name, size in late.items():
                self.add_gang(name, size)
            self.wait_until_whole({**gangs, **late})
            self.assertEqual(self.rejected(), rejected)

    def live_pods(self):
        """By node, those that are bound, in the order in which they were bound."""
        found = collections.defaultdict(list)
        for name, pod in self.pods().items():
            node = pod["spec"].get("nodeName")
            if node and pod["status"].get("phase") != "Failed":
                since = [each["lastTransitionTime"] for each in pod["status"].get("conditions", [])
                         if each["type"] == "PodScheduled"]
                limits = pod["spec"]["containers"][0]["resources"]["limits"]
                found[node].append((since, name, int(limits[GPU])))
        return {node: sorted(pods) for node, pods in found.items()}

    def reject_what_does_not_fit(self):
        """What a kubelet does. Two schedulers may choose the same place at the same moment."""
        for node, pods in self.live_pods().items():
            used = 0
            for _, name, gpus in pods:
                if used + gpus <= 8:
                    used += gpus
                    continue
                status = {"phase": "Failed", "reason": f"OutOf{GPU}"}
                self.server.call("PATCH", f"/api/v1/namespaces/default/pods/{name}/status",
                                 {"status": status}, allowed=(200, 404))
                print(f"node {node} has no room for {name}", file=sys.stderr)

    def rejected(self):
        return {name for name, pod in self.pods().items() if pod["status"].get("phase") == "Failed"}

    def wait_until_at_rest(self):
        """No pod has changed for two seconds."""
        last, since = None, time.monotonic()
        deadline = time.monotonic() + 2 * WAIT_SECONDS
        while time.monotonic() - since < 2:
            self.assertLess(time.monotonic(), deadline, "the pods do not come to rest")
            self.reject_what_does_not_fit()
            now = {name: (pod["spec"].get("nodeName"), pod["metadata"].get("deletionTimestamp"))
                   for name, pod in self.pods().items()}
            # What the kubelet would do with an evicted pod.
            for name, (_, ending) in now.items():
                if ending:
                    self.server.call("DELETE", f"/api/v1/namespaces/default/pods/{name}",
                                     {"gracePeriodSeconds": 0}, allowed=(200, 404))
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.1)

    def wait_until_whole(self, gangs):
        """At rest, when also the last bind that was refused has been sent again."""
        deadline = time.monotonic() + 2 * WAIT_SECONDS
        while True:
            self.wait_until_at_rest()
            try:
                return self.check_at_rest(gangs)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def check_at_rest(self, gangs):
        live = self.live_pods()
        bound = collections.Counter(name.rsplit("-", 1)[0]
                                    for pods in live.values() for _, name, _ in pods)
        # The owner of a pod that a kubelet has rejected would make another one.
        rejected = {name.rsplit("-", 1)[0] for name in self.rejected()}
        for name, size in gangs.items():
            if name not in rejected:
                self.assertIn(bound[name], (0, size), f"{name} of {size} is partly bound")
        used = {node: sum(gpus for _, _, gpus in pods) for node, pods in live.items()}
        over = {node: sum_ for node, sum_ in used.items() if sum_ > 8}
        self.assertEqual(over, {}, "nodes with more than their eight accelerators")

    def test_wrong_credentials_are_an_error_of_one_line(self):
        wrong = self.server.folder / "wrong"
        wrong.write_text("nothing: here\n")
        done = subprocess.run([LONGHAUL, "kube", "schedule", "--kubeconfig", wrong],
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(str(wrong), done.stderr)


if __name__ == "__main__":
    LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
