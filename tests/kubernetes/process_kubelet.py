"""The kubelets of several nodes in one process: pods run as processes of this machine.

  with ProcessKubelet(server, nodes=["a", node("b", gpus=8)],
                      programs={"/opt/longhaul": "build/install"}) as kubelet:
      server.call("POST", "/api/v1/namespaces/default/pods", {... "nodeName": "a" ...})
      ...
      kubelet.kill_container("worker-0", "worker", signal.SIGKILL)

It makes the Node objects, watches the pods that are bound to them, runs their containers and
reports their status to a real API server (api_server.py) as the kubelet does. A thread does this,
and the test goes on meanwhile. No root and no container runtime is required.

What differs from a container:
- There is no mount namespace. A path that a program has built in is the path of this machine. In
  command, args, workingDir and the values of env, these paths are replaced where they begin a path:
  each mountPath by the folder of the volume, each key of `programs` by its value, and the
  terminationMessagePath by a file. So a program has to take such a path from its command line or
  its environment. Contents of files are not changed, and readOnly is not enforced.
- There is no image: a container needs a command. Its environment is that of its spec and
  `variables`, and without workingDir it starts in an empty folder.
- There is no network namespace. Each pod has an address of 127.0.0.0/8 of its own. A server has to
  listen on that address, because all pods share 0.0.0.0.
- There are no cgroups and no users: limits and securityContext are not applied, and nothing is
  OOMKilled unless a test does it (`kill_container`). SIGTERM goes to the process group.
- No events, probes, hooks, Leases or static pods. A ConfigMap is read once.
- A field that is not implemented is refused: phase Failed, reason Unsupported, and its name.

Processes find themselves by the variable LONGHAUL_TEST_POD=UID, which each of them inherits. When
the stand-in stops, no process that still has it remains.
"""

import dataclasses
import itertools
import os
import pathlib
import random
import signal
import socket
import tempfile
import threading
import traceback

from kubernetes_client import Client, Refused, Unavailable, Watch
from pod_container import kill_marked, marked_processes, timestamp
from pod_fields import quantity, requests, unsupported
from pod_runner import PodRunner, name_of

STRATEGIC = "application/strategic-merge-patch+json"
BOUND = "fieldSelector=spec.nodeName%21%3D"  # spec.nodeName!=
WATCH_SECONDS = 300
RETRY_SECONDS = 0.1
STOP_SECONDS = 30


@dataclasses.dataclass
class Node:
    """A node, with the state of its kubelet: running, paused or dead."""
    name: str
    labels: dict
    allocatable: dict
    state: str = "running"
    address: str = ""


def node(name, labels=None, cpu="64", memory="512Gi", pods=110, gpus=0):
    """A node for ProcessKubelet."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return Node(name, {"kubernetes.io/hostname": name, **(labels or {})}, allocatable)


def reserve_network():
    """A block 127.N.0.0/16 that no other stand-in of this machine uses, and what reserves it."""
    for block in random.sample(range(64, 128), 64):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0longhaul-process-kubelet-127.{block}")
            return f"127.{block}", reservation
        except OSError:
            reservation.close()
    raise RuntimeError("all blocks 127.64.0.0/16 to 127.127.0.0/16 are in use")


class ProcessKubelet:
    """A context manager. Its methods may be called by any thread.

    nodes: names, or nodes made by `node`.
    programs: for a path in the containers, the path of this machine.
    folder: where logs and volumes lie, else a temporary folder.
    volume_period: the seconds until a changed annotation is in its file.
    token_renewal: the part of a token's life after which it is renewed.
    first_back_off, largest_back_off: seconds before a container is restarted.
    variables: what the images would add to the environment.
    A pod is given as NAME in the namespace default, as NAMESPACE/NAME, or as its object.
    """

    def __init__(self, server, nodes, programs=None, folder=None, volume_period=0.5,
                 token_renewal=0.8, first_back_off=0.2, largest_back_off=5, variables=None):
        self.server = server
        self.nodes = {each.name: each for each in
                      (node(each) if isinstance(each, str) else each for each in nodes)}
        self.programs = {path: str(pathlib.Path(place).resolve())
                         for path, place in (programs or {}).items()}
        self.given_folder = folder
        self.volume_period = volume_period
        self.token_renewal = token_renewal
        self.first_back_off = first_back_off
        self.largest_back_off = largest_back_off
        self.variables = dict(variables or {})
        self.errors = []  # bugs of the stand-in and refused reports: raised at the end
        self.is_stopping = False
        self.lock = threading.RLock()
        self.runners = {}  # by the uid of the pod
        self.pods_begun = 0
        self.numbers = itertools.count(256)  # of the addresses of pods
        self.watch = None

    # Start and stop.

    def __enter__(self):
        if self.given_folder is None:
            self.temporary = tempfile.TemporaryDirectory(prefix="kubelet-")
            self.folder = pathlib.Path(self.temporary.name)
        else:
            self.folder = pathlib.Path(self.given_folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        self.network, self.reservation = reserve_network()
        self.client = Client(self.server)
        for i, each in enumerate(self.nodes.values()):
            each.address = f"{self.network}.0.{i + 1}"
            self.make_node(each)
        self.follower = threading.Thread(target=self.follow, daemon=True, name="process kubelet")
        self.follower.start()
        return self

    def __exit__(self, kind, *unused):
        self.is_stopping = True
        with self.lock:
            if self.watch is not None:
                self.watch.close()
            runners = list(self.runners.values())
        for runner in runners:
            runner.look()
        for thread in [self.follower, *(each for each in runners if each.ident is not None)]:
            thread.join(STOP_SECONDS)
            if thread.is_alive():
                self.errors.append(f"thread {thread.name} does not end")
        kill_marked(set(self.runners))
        self.client.close()
        self.reservation.close()
        if self.given_folder is None:
            self.temporary.cleanup()
        if self.errors and kind is None:
            raise AssertionError("\n".join(self.errors))

    def make_node(self, each):
        """Makes the Node object, or takes over the one that is there."""
        try:
            self.client.call("POST", "/api/v1/nodes", {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": each.name, "labels": each.labels}})
        except Refused as refusal:
            if refusal.status != 409:
                raise
            self.client.call("PATCH", f"/api/v1/nodes/{each.name}",
                             {"metadata": {"labels": each.labels}}, STRATEGIC)
        self.client.call("PATCH", f"/api/v1/nodes/{each.name}/status", {"status": {
            "capacity": each.allocatable, "allocatable": each.allocatable,
            "addresses": [{"type": "InternalIP", "address": each.address}]}}, STRATEGIC)
        self.set_ready(each.name, "True")

    # The pods.

    def follow(self):
        """Lists and watches pods until the stand-in stops."""
        client = Client(self.server)
        version = None
        while not self.is_stopping:
            try:
                if version is None:
                    version = self.list_pods(client)
                version = self.watch_pods(version)
            except Unavailable:
                version = None
                threading.Event().wait(RETRY_SECONDS)
            except Exception:  # a bug of this file: the test has to see it
                self.errors.append(traceback.format_exc())
                break
        client.close()

    def list_pods(self, client):
        answer = client.call("GET", f"/api/v1/pods?{BOUND}")
        with self.lock:
            gone = set(self.runners) - {pod["metadata"]["uid"] for pod in answer["items"]}
            for uid in gone:
                self.vanish(uid)
            for pod in sorted(answer["items"],
                              key=lambda pod: pod["metadata"]["creationTimestamp"]):
                self.take(pod)
        return answer["metadata"]["resourceVersion"]

    def watch_pods(self, version):
        """Follows one watch. Returns the version to go on from, or None to list again."""
        with self.lock:
            self.watch = Watch(self.server, f"/api/v1/pods?{BOUND}&watch=1&allowWatchBookmarks=true"
                               f"&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}")
        for event in self.watch.events():
            if self.is_stopping or event["type"] == "ERROR":
                return None
            version = event["object"]["metadata"]["resourceVersion"]
            with self.lock:
                if event["type"] == "DELETED":
                    self.vanish(event["object"]["metadata"]["uid"])
                elif event["type"] != "BOOKMARK":
                    self.take(event["object"])
        return version

    def take(self, pod):
        """A pod as it is now. The lock is held."""
        uid = pod["metadata"]["uid"]
        runner = self.runners.get(uid)
        if runner is not None:
            runner.newest = pod
            runner.look()
            return
        its_node = self.nodes.get(pod["spec"]["nodeName"])
        is_over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if its_node is None or is_over or self.is_stopping:
            return
        runner = self.runners[uid] = PodRunner(self, its_node, pod)
        if its_node.state == "running":
            self.admit(runner)

    def vanish(self, uid):
        runner = self.runners.get(uid)
        if runner is not None:
            runner.newest = None
            runner.look()

    def admit(self, runner):
        """Starts a pod, or rejects one that is unsupported or that the node has no room for."""
        if runner.newest is not None:
            fields = unsupported(runner.newest)
            if fields:
                runner.refuse("Unsupported", "the process kubelet does not implement "
                              + ", ".join(fields))
            else:
                self.reject_without_room(runner)
        runner.start()
        runner.look()

    def reject_without_room(self, runner):
        used = {}
        for other in self.runners.values():
            if other.node is runner.node and other.is_alive() and not other.is_finished():
                for name, amount in requests(other.pod).items():
                    used[name] = used.get(name, 0) + amount
        for name, amount in requests(runner.pod).items():
            capacity = quantity(runner.node.allocatable.get(name, "0"))
            if name != "ephemeral-storage" and amount > capacity - used.get(name, 0):
                runner.refuse(f"OutOf{name}", "Pod was rejected: Node didn't have enough resource: "
                              f"{name}, requested: {float(amount):g}, used: "
                              f"{float(used.get(name, 0)):g}, capacity: {float(capacity):g}")
                return

    def new_pod_folder(self):
        """A short path, because a socket's path has at most 107 bytes."""
        self.pods_begun += 1
        return self.folder / f"pod-{self.pods_begun}"

    def new_pod_ip(self):
        number = next(self.numbers)
        return f"{self.network}.{number // 256}.{number % 256}"

    # What a test does and sees.

    def set_ready(self, name, status):
        """Sets the condition Ready of a node to True, False or Unknown, as the node controller
        does when a kubelet no longer reports."""
        reason, message = {"True": ("KubeletReady", "kubelet is posting ready status"),
                           "False": ("KubeletNotReady", "the test has set it"),
                           "Unknown": ("NodeStatusUnknown", "Kubelet stopped posting node status.")
                           }[status]
        with self.lock:
            self.client.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [
                {"type": "Ready", "status": status, "reason": reason, "message": message,
                 "lastTransitionTime": timestamp()}]}}, STRATEGIC)

    def on_node(self, name):
        with self.lock:
            return [each for each in self.runners.values() if each.node.name == name]

    def finish_steps(self, runners):
        """Returns when no runner is in the middle of a step. None begins another one unless the
        state of its node is running."""
        for runner in runners:
            with runner.lock:
                pass

    def kill_node(self, name):
        """The node loses its power: its processes are killed, and nothing is reported. The node
        becomes NotReady: its condition Ready is Unknown."""
        self.nodes[name].state = "dead"
        runners = self.on_node(name)
        self.finish_steps(runners)
        kill_marked({each.uid for each in runners})
        for runner in runners:
            runner.lose_power()
        self.set_ready(name, "Unknown")

    def pause_node(self, name):
        """The kubelet of the node dies: processes run on, and nothing is reported or seen. Ready
        stays as it is; `set_ready` changes it."""
        self.nodes[name].state = "paused"
        self.finish_steps(self.on_node(name))

    def resume(self, name):
        """A paused kubelet or a dead node is there again, and Ready. A dead node has lost its
        processes: their exit code is 255, and the restart policy decides."""
        each = self.nodes[name]
        was_dead = each.state == "dead"
        self.set_ready(name, "True")
        with self.lock:
            each.state = "running"
            for runner in self.on_node(name):
                if runner.ident is None:
                    self.admit(runner)
                elif was_dead:
                    runner.boot()
                runner.look()

    def runner(self, pod):
        """The newest pod of this name that was bound to a node of the stand-in."""
        if isinstance(pod, dict):
            pod = name_of(pod)
        key = pod if "/" in pod else f"default/{pod}"
        with self.lock:
            found = [each for each in self.runners.values() if each.key == key]
        if not found:
            raise KeyError(f"no pod {key} was bound to {', '.join(self.nodes)}")
        return found[-1]

    def kill_container(self, pod, container, number=signal.SIGKILL, reason=None):
        """Sends a signal to the first process of a container. `reason` is what the status gives
        when it ends by that, such as OOMKilled."""
        for each in self.runner(pod).all_containers:
            if each.name == container:
                if not each.is_running():
                    raise AssertionError(f"container {container} of {pod} does not run")
                each.kill_reason = reason
                if number == signal.SIGKILL:
                    # The kernel ends a PID namespace together with its first process, which
                    # must not see the others end.
                    os.kill(each.process.pid, signal.SIGSTOP)
                    kill_marked([self.runner(pod).uid], container, spared=each.process.pid)
                os.kill(each.process.pid, number)
                return
        raise KeyError(f"pod {pod} has no container {container}")

    def processes(self, pod, container=None):
        """The pids of the living processes of a pod, or of one of its containers."""
        return marked_processes([self.runner(pod).uid], container)

    def log(self, pod, container):
        """What all starts of a container have written so far."""
        path = self.runner(pod).place.logs / f"{container}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def volume(self, pod, name):
        """The folder of a volume on this machine."""
        return self.runner(pod).volumes.path(name)
