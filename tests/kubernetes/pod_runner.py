"""Runs one pod that is bound to a node of the process kubelet, in a thread of its own."""

import shutil
import signal
import threading
import time
import traceback

from kubernetes_client import Client, Refused, Unavailable
from pod_container import (MESSAGE_BYTES, POD_MESSAGE_BYTES, Container, Place, kill_marked,
                           signal_group, timestamp)
from pod_volumes import Volumes

RETRY_SECONDS = 0.2
STRATEGIC = "application/strategic-merge-patch+json"


def name_of(pod):
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


class PodRunner(threading.Thread):
    """Other threads set `newest` and call `look`; what else they call takes `lock`."""

    def __init__(self, kubelet, node, pod):
        super().__init__(daemon=True, name=name_of(pod))
        self.kubelet = kubelet
        self.node = node
        self.newest = pod  # the object as it is now, or None once it is gone
        self.pod = pod  # the object that this step looks at
        self.uid = pod["metadata"]["uid"]
        self.key = name_of(pod)
        self.path = f"/api/v1/namespaces/{self.key.replace('/', '/pods/')}"
        self.lock = threading.RLock()
        self.event = threading.Event()
        self.is_over = False
        self.client = Client(kubelet.server)
        self.failure = None  # reason and message of a pod that the node refuses
        self.phase = "Pending"
        self.start_time = timestamp()
        self.conditions = {}
        self.reported = None
        self.is_mounted = False
        self.next_update = 0
        self.grace_end = None
        self.make_containers()
        folder = kubelet.new_pod_folder()
        self.volumes = Volumes(folder / "volumes", self.client, node, kubelet.token_renewal)
        self.place = Place(folder, kubelet.folder / f"{self.key.replace('/', '_')}_{self.uid}", {},
                           node.allocatable, kubelet.programs, kubelet.variables)

    def make_containers(self):
        spec = self.pod["spec"]
        count = len(spec["containers"]) + len(spec.get("initContainers", []))
        share = min(MESSAGE_BYTES, POD_MESSAGE_BYTES // count)
        self.init_containers = [Container(each, share) for each in spec.get("initContainers", [])]
        self.containers = [Container(each, share) for each in spec["containers"]]
        if self.init_containers:
            for each in self.init_containers + self.containers:
                each.state = {"waiting": {"reason": "PodInitializing"}}
        self.all_containers = self.init_containers + self.containers

    def look(self):
        """Makes the thread look at the pod again."""
        self.event.set()

    def run(self):
        timeout = None
        while not self.is_over:
            self.event.wait(timeout)
            self.event.clear()
            with self.lock:
                if self.kubelet.is_stopping or self.is_over:
                    break
                try:
                    timeout = self.step() if self.node.state == "running" else None
                except Unavailable:
                    timeout = RETRY_SECONDS
                except Exception:  # a bug of this file: the test has to see it
                    self.kubelet.errors.append(traceback.format_exc())
                    self.is_over = True
        self.client.close()

    def step(self):
        """Does what is due; returns after how many seconds there is more to do, or None."""
        newest = self.newest
        if newest is None:
            self.end()
            return None
        self.pod = newest
        for container in self.all_containers:
            if container.has_ended():
                container.record_end(self.uid)
        if "deletionTimestamp" in self.pod["metadata"]:
            return self.terminate()
        if self.is_finished():
            self.report()
            return None
        wait = self.advance()
        self.phase = self.current_phase()
        if self.is_finished():
            self.volumes.remove()
            wait = None
        self.report()
        return wait

    def is_finished(self):
        return self.phase in ("Succeeded", "Failed")

    def refuse(self, reason, message):
        self.failure = (reason, message)
        self.phase = "Failed"

    # Starting and restarting.

    def advance(self):
        now = time.monotonic()
        if not self.place.addresses:
            self.place.addresses = {"podIP": self.kubelet.new_pod_ip(), "hostIP": self.node.address}
        waits = [self.update_volumes(now)]
        if self.is_mounted:
            waits += self.advance_containers(now)
        waits = [each for each in waits if each is not None]
        return max(min(waits), 0) if waits else None

    def update_volumes(self, now):
        """Makes the volumes, and later follows changes; returns when that is due again."""
        if self.is_mounted and not self.volumes.changes(self.pod):
            return None
        if now >= self.next_update:
            self.next_update = now + self.kubelet.volume_period
            try:
                self.volumes.update(self.pod)
                self.is_mounted = True
            except (Unavailable, Refused) as error:
                # The real kubelet writes an event. A volume that was made before stays as it is.
                if not self.is_mounted:
                    message = f"MountVolume.SetUp failed: {error}"
                    for container in self.all_containers:
                        container.state.get("waiting", {})["message"] = message
        return self.next_update - now

    def advance_containers(self, now):
        """Starts what is to run now; returns the waits until others are."""
        policy = self.pod["spec"]["restartPolicy"]
        for container in self.init_containers:
            if not container.is_done:
                # With Always, an init container that succeeded is not restarted.
                wait = self.advance_container(
                    container, "OnFailure" if policy == "Always" else policy, now)
                if not container.is_done or container.exit_code() != 0:
                    return [wait]
        return [self.advance_container(each, policy, now) for each in self.containers]

    def advance_container(self, container, policy, now):
        if container.exit_code() is not None and not container.is_done:
            if policy == "Never" or policy == "OnFailure" and container.exit_code() == 0:
                container.is_done = True
            else:
                container.restart_later(now, self.kubelet.first_back_off,
                                        self.kubelet.largest_back_off, f"{self.key}({self.uid})")
        if "waiting" not in container.state:
            return None
        if now >= container.not_before:
            self.place.logs.mkdir(exist_ok=True)
            container.start(self.pod, self.place, self.look)
            return None if "running" in container.state else 0
        return container.not_before - now

    # Ending.

    def terminate(self):
        """The deletion of the pod: SIGTERM, SIGKILL after the grace, the last status, DELETE."""
        now = time.monotonic()
        alive = [each for each in self.all_containers if each.is_running()]
        if self.grace_end is None:
            self.grace_end = float("inf")
            for container in alive:
                signal_group(container.process, signal.SIGTERM)
        # A second deletion can shorten the grace.
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds", 0)
        self.grace_end = min(self.grace_end, now + grace)
        if alive:
            if now >= self.grace_end:
                kill_marked([self.uid])
            self.report()
            return max(self.grace_end - now, 0.01)
        if not self.is_finished():
            for container in self.all_containers:
                if container.exit_code() is None and "terminated" in container.last_state:
                    container.state = container.last_state
                elif container.exit_code() is None:
                    container.end_without_process(
                        137, "ContainerStatusUnknown",
                        "The container could not be located when the pod was terminated")
            codes = {each.exit_code() for each in self.containers}
            self.phase = "Succeeded" if codes == {0} else "Failed"
        self.report()
        try:
            self.client.call("DELETE", self.path, {
                "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "preconditions": {"uid": self.uid}})
        except Refused as refusal:
            if refusal.status not in (404, 409):  # it is gone, or another pod has its name
                raise
        self.end()
        return None

    def end(self):
        """Nothing of the pod is left on the node, except its logs."""
        kill_marked([self.uid])
        shutil.rmtree(self.place.folder, ignore_errors=True)
        self.is_over = True

    def lose_power(self):
        """The node is dead: how the processes ended will never be known."""
        with self.lock:
            kill_marked([self.uid])
            for container in self.all_containers:
                if "running" in container.state:
                    container.process.wait()
                    container.end_without_process(255, "Unknown")

    def boot(self):
        """The node is there again after lose_power: a new sandbox, so with a new address and with
        the init containers once more, unless the pod never restarts anything."""
        with self.lock:
            if self.newest is None or self.is_finished() or not self.is_mounted:
                return
            if self.pod["spec"]["restartPolicy"] != "Never":
                self.place.addresses = {}
                self.volumes.clear_memory(self.pod)
                self.next_update = 0
                self.is_mounted = False
                for container in self.init_containers:
                    container.run_again()

    # Reporting.

    def is_initialized(self):
        return all(each.is_done and each.exit_code() == 0 for each in self.init_containers)

    def current_phase(self):
        if self.failure:
            return "Failed"
        if any(each.is_done and each.exit_code() != 0 for each in self.init_containers):
            return "Failed"
        if all(each.is_done for each in self.containers):
            codes = {each.exit_code() for each in self.containers}
            return "Succeeded" if codes == {0} else "Failed"
        has_begun = [each.starts > 0 for each in self.containers]
        return "Running" if all(has_begun) else "Pending"

    def condition(self, kind, is_true, reason="", message=""):
        """A condition; its time is that of the last change of its status."""
        status = "True" if is_true else "False"
        old = self.conditions.get(kind, {})
        changed = old["lastTransitionTime"] if old.get("status") == status else timestamp()
        new = {"type": kind, "status": status, "lastTransitionTime": changed}
        if not is_true or reason:
            new |= {"reason": reason, "message": message}
        else:
            new |= {"reason": None, "message": None}  # a patch removes the old ones
        self.conditions[kind] = new

    def update_conditions(self):
        unready = [each.name for each in self.containers if "running" not in each.state]
        missing = [each.name for each in self.init_containers
                   if not (each.is_done and each.exit_code() == 0)]
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(self.phase)
        if self.phase == "Succeeded":
            self.condition("Initialized", True, "PodCompleted")
        elif missing:
            self.condition("Initialized", False, "ContainersNotInitialized",
                           f"containers with incomplete status: [{' '.join(missing)}]")
        else:
            self.condition("Initialized", True)
        message = f"containers with unready status: [{' '.join(unready)}]"
        is_ready = not unready and not missing and reason is None
        for kind in ("Ready", "ContainersReady"):
            self.condition(kind, is_ready, "" if is_ready else reason or "ContainersNotReady",
                           "" if is_ready or reason else message)

    def status(self):
        self.update_conditions()
        status = {"phase": self.phase, "startTime": self.start_time,
                  "observedGeneration": self.pod["metadata"].get("generation", 1),
                  "conditions": list(self.conditions.values())}
        if self.failure:
            reason, message = self.failure
            return {**status, "reason": reason, "message": message}
        status["hostIP"] = self.node.address
        status["hostIPs"] = [{"ip": self.node.address}]
        if self.place.addresses:
            status["podIP"] = self.place.addresses["podIP"]
            # Lists of addresses are merged: the directive removes an older address.
            status["podIPs"] = [{"ip": status["podIP"]}, {"$patch": "replace"}]
        status["containerStatuses"] = [each.status("running" in each.state)
                                       for each in self.containers]
        if self.init_containers:
            status["initContainerStatuses"] = [
                each.status(each.is_done and each.exit_code() == 0)
                for each in self.init_containers]
        return status

    def report(self):
        """Patches the status where it differs from the last one."""
        status = self.status()
        if status == self.reported:
            return
        try:
            self.client.call("PATCH", f"{self.path}/status",
                             {"metadata": {"uid": self.uid}, "status": status}, STRATEGIC)
        except Refused as refusal:
            if refusal.status not in (404, 409):  # it is gone, or another pod has its name
                self.kubelet.errors.append(f"status of pod {self.key}: {refusal}")
        self.reported = status
