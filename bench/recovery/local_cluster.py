"""A controller and agents on this machine, each of which can be killed and started again."""
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

LIMIT_S = 120
MARK = "LONGHAUL_LOCAL_CLUSTER"


def wait_for(what, condition, seconds=LIMIT_S, pause=0.02):
    """Polls until the condition holds and returns its value."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(pause)
    return found


class LocalCluster:
    """The nodes node-1 to node-N. An agent that starts again with its folder is the same node."""

    def __init__(self, longhaul, folder, nodes, slots=1, config="", **environment):
        self.longhaul, self.slots = str(longhaul), slots
        self.folder = pathlib.Path(folder)
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, **environment, MARK: self.mark,
                            "LONGHAUL_ENDPOINT": str(self.folder / "state/endpoint.json")}
        self.nodes = [f"node-{number}" for number in range(1, nodes + 1)]
        self.controller, self.agents = None, {}
        (self.folder / "controller.yaml").write_text(config or "{}")
        try:
            self.start_controller("127.0.0.1:0")
            self.address = self.endpoint()["agents"]
            for node in self.nodes:
                self.start_agent(node)
            wait_for("all agents connect", lambda: len(self.connected()) == nodes)
        except BaseException:
            self.close()
            raise

    def endpoint(self):
        return json.loads((self.folder / "state/endpoint.json").read_text())

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "a") as log:
            return subprocess.Popen([self.longhaul, *map(str, words)], cwd=self.folder,
                                    env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=subprocess.STDOUT)

    def start_controller(self, address=None):
        (self.folder / "state/endpoint.json").unlink(missing_ok=True)
        self.controller = self.start(
            "controller", "controller", "--state-dir", "state", "--config", "controller.yaml",
            "--agents", address or self.address)
        wait_for("the controller starts", self.controller_is_ready)

    def controller_is_ready(self):
        if self.controller.poll() is not None:
            raise RuntimeError("the controller has ended:\n"
                               + (self.folder / "controller.log").read_text()[-2000:])
        return (self.folder / "state/endpoint.json").exists()

    def start_agent(self, node):
        self.agents[node] = self.start(
            node, "agent", "--controller", self.address, "--token-file", "state/token", "--node",
            node, "--slots", self.slots, "--state-dir", node, "--allow-root")

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def kill_agent(self, node):
        """Kills the agent alone. Its workers lose their agent and are ended by the next one."""
        self.agents[node].kill()
        self.agents[node].wait()

    def call(self, *words, code=0):
        """Runs a client command; returns what it printed."""
        done = subprocess.run([self.longhaul, *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode != code:
            raise RuntimeError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, *words):
        return json.loads(self.call(*words, "--json"))

    def connected(self):
        return [node["name"] for node in self.ask("nodes")["nodes"] if node["connected"]]

    def submit(self, name, job):
        """Submits a job file, given as a dictionary; its run directory is runs/NAME."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"name": name, **job}))
        self.call("submit", path, "--run-directory", self.folder / "runs" / name)

    def members(self):
        """The pids of all processes that this cluster has started."""
        mark = f"{MARK}={self.mark}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(pid)
            except OSError:
                continue

    def close(self):
        def ended():
            found = list(self.members())
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for child in (self.controller, *self.agents.values()):
                if child is not None:
                    child.poll()
            return not found
        wait_for("the end of all processes", ended)
