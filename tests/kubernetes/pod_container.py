"""One container of a pod as a process of this machine, and its part of the pod's status."""

import os
import pathlib
import signal
import subprocess
import threading
import time
import uuid

from pod_fields import environment, expand, replace_paths

# Each process of a pod inherits them. They find the processes that left their process group.
POD_MARKER = "LONGHAUL_TEST_POD"
CONTAINER_MARKER = "LONGHAUL_TEST_CONTAINER"
MESSAGE_BYTES = 4096  # of a container, the last ones
POD_MESSAGE_BYTES = 12288  # of all containers of a pod together
LOG_MESSAGE_BYTES = 2048  # with FallbackToLogsOnError
LOG_MESSAGE_LINES = 80
SWEEPS = 500
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def timestamp():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def marked_processes(pod_uids, container=None):
    """The living processes of these pods, or of one container of them."""
    pods = {f"{POD_MARKER}={uid}".encode() for uid in pod_uids}
    wanted = None if container is None else f"{CONTAINER_MARKER}={container}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = set(pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        except OSError:
            continue  # it has ended, or it is not ours
        if variables & pods and (wanted is None or wanted in variables):
            found.append(int(pid))
    return sorted(found)


def kill_marked(pod_uids, container=None, spared=None):
    """Kills the processes of pods but the spared one, and returns when none is left."""
    for _ in range(SWEEPS):
        found = [pid for pid in marked_processes(pod_uids, container) if pid != spared]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    raise RuntimeError(f"processes {found} of pods {sorted(pod_uids)} survive SIGKILL")


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


class Place:
    """Where a pod runs: what its containers need to know of the node and of this machine."""

    def __init__(self, folder, logs, addresses, allocatable, programs, variables):
        self.folder = folder
        self.logs = logs
        self.addresses = addresses
        self.allocatable = allocatable
        self.programs = programs
        self.variables = variables


class Container:
    """The runner's thread starts it and reads its state; `process` is read by other threads too."""

    def __init__(self, spec, message_bytes):
        self.spec = spec
        self.name = spec["name"]
        self.message_bytes = message_bytes
        self.process = None
        self.kill_reason = None  # what a test gives as the reason, such as OOMKilled
        self.state = {"waiting": {"reason": "ContainerCreating"}}
        self.kept_state = None  # reported instead of `state` until the container has ended again
        self.last_state = {}
        self.starts = 0
        self.back_off = 0
        self.not_before = 0
        self.id = None
        self.started = 0
        self.started_at = self.finished_at = None
        self.is_done = False  # it has ended and will not be started again

    def folder(self, place):
        return place.folder / "containers" / self.name

    def start(self, pod, place, ended):
        """Starts the process; `ended` is called from another thread when it has ended."""
        files = self.folder(place)
        (files / "work").mkdir(parents=True, exist_ok=True)
        self.message = files / "termination-log"
        self.message.write_bytes(b"")
        self.log = place.logs / f"{self.name}.log"
        self.log_begin = self.log.stat().st_size if self.log.exists() else 0
        self.kill_reason = None
        self.starts += 1
        self.id = f"process://{uuid.uuid4().hex}"
        self.started = time.monotonic()
        self.started_at = timestamp()
        words, variables, folder = self.command(pod, place)
        try:
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(words, cwd=folder, env=variables, stdout=log,
                                                stderr=log, stdin=subprocess.DEVNULL,
                                                start_new_session=True)
        except OSError as error:
            self.finished_at = timestamp()
            self.end(128, "StartError", f"cannot start {words[0]}: {error}")
            return
        self.process.finished_at = None
        self.state = {"running": {"startedAt": self.started_at}}
        threading.Thread(target=self.wait_for, args=(self.process, ended), daemon=True).start()

    def command(self, pod, place):
        """The words, the environment and the folder of the process."""
        paths = dict(place.programs)
        for mount in self.spec.get("volumeMounts", []):
            paths[mount["mountPath"]] = place.folder / "volumes" / mount["name"]
        paths[self.spec["terminationMessagePath"]] = self.message
        work = self.folder(place) / "work"
        inside = {"PATH": SEARCH_PATH, "HOME": str(work), **place.variables,
                  "HOSTNAME": pod["spec"].get("hostname", pod["metadata"]["name"]),
                  **environment(self.spec, pod, place.addresses, place.allocatable)}
        words = [expand(word, inside)
                 for word in self.spec["command"] + self.spec.get("args", [])]
        variables = {name: replace_paths(value, paths) for name, value in inside.items()}
        variables[POD_MARKER] = pod["metadata"]["uid"]
        variables[CONTAINER_MARKER] = self.name
        folder = replace_paths(self.spec.get("workingDir", str(work)), paths)
        return [replace_paths(word, paths) for word in words], variables, folder

    def wait_for(self, process, ended):
        process.wait()
        process.finished_at = timestamp()
        ended()

    def has_ended(self):
        """Whether the process has ended and that has not been recorded yet."""
        return "running" in self.state and self.process.finished_at is not None

    def is_running(self):
        return "running" in self.state and self.process.finished_at is None

    def record_end(self, pod_uid):
        """Kills what the first process left, as the end of a PID namespace does, and records it."""
        kill_marked([pod_uid], self.name)
        code = self.process.returncode
        code = 128 - code if code < 0 else code
        reason = self.kill_reason or ("Error" if code else "Completed")
        self.finished_at = self.process.finished_at
        self.end(code, reason, self.termination_message(code))

    def end(self, code, reason, message=""):
        """The field `signal` stays away: the kubelet does not report it, only 128 + signal."""
        self.state = {"terminated": {
            "exitCode": code, "reason": reason, "startedAt": self.started_at,
            "finishedAt": self.finished_at, "containerID": self.id}}
        if message:
            self.state["terminated"]["message"] = message
        self.kept_state = None

    def end_without_process(self, code, reason, message=""):
        """The container is over, and how its process ended is not known."""
        self.finished_at = timestamp()
        self.started_at = self.started_at or self.finished_at
        self.id = self.id or f"process://{uuid.uuid4().hex}"
        self.end(code, reason, message)

    def termination_message(self, code):
        text = self.message.read_bytes()[-MESSAGE_BYTES:]
        falls_back = self.spec["terminationMessagePolicy"] == "FallbackToLogsOnError"
        if not text and code != 0 and falls_back:
            lines = self.log.read_bytes()[self.log_begin:].splitlines(keepends=True)
            text = b"".join(lines[-LOG_MESSAGE_LINES:])[-LOG_MESSAGE_BYTES:]
        return text[:self.message_bytes].decode(errors="replace")

    def exit_code(self):
        """The exit code of an ended container, else None."""
        return self.state.get("terminated", {}).get("exitCode")

    def restart_later(self, now, first, largest, description):
        """Waits longer after each end. A container that ran long begins with the first again."""
        if now - self.started > 2 * largest:
            self.back_off = 0
        self.back_off = min(self.back_off * 2 or first, largest)
        self.not_before = now + self.back_off
        self.last_state = self.state
        self.state = {"waiting": {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {self.back_off:g}s restarting failed container={self.name} "
                       f"pod={description}"}}

    def run_again(self):
        """Runs an init container that was done once more. The API server allows no way back from a
        container that succeeded, so its old state is reported meanwhile."""
        self.is_done = False
        if "terminated" in self.state:
            self.kept_state = self.state
            self.last_state = self.state
        self.state = {"waiting": {"reason": "PodInitializing"}}
        self.not_before = 0

    def status(self, is_ready):
        image = self.spec.get("image", "")
        status = {"name": self.name, "image": image, "imageID": image, "ready": is_ready,
                  "started": "running" in self.state, "restartCount": max(self.starts - 1, 0),
                  "state": self.kept_state or self.state, "lastState": self.last_state}
        if self.id:
            status["containerID"] = self.id
        return status
