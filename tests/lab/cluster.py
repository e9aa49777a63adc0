"""A Longhaul cluster on the hosts of network.py: a controller with TLS on one, agents on others."""
import json
import os
import pathlib
import signal
import subprocess
import time

import network

LIMIT_S = 60


def wait_for(what, condition, seconds=LIMIT_S):
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: nothing after {seconds} s")
        time.sleep(0.02)
    return found


class Cluster:
    """The hosts `control` and node-1 to node-N. The agents' states are folders on the one disk, so
    an agent that starts again on its host is the same node."""

    def __init__(self, longhaul, folder, nodes, slots=2, config="", **environment):
        self.longhaul, self.slots, self.config = longhaul, slots, config
        self.folder = pathlib.Path(folder)
        self.nodes = [f"node-{number}" for number in range(1, nodes + 1)]
        self.network = network.Network(["control", *self.nodes])
        state = self.folder / "controller"
        self.environment = {**os.environ, "HOME": str(self.folder), **environment,
                            "LONGHAUL_ENDPOINT": str(state / "endpoint.json")}
        try:
            self.start_controller()
            for node in self.nodes:
                self.start_agent(node)
            wait_for("all agents connect", lambda: len(self.connected()) == nodes)
        except BaseException:
            self.close()
            raise

    def start_controller(self, wait=True):
        """Starts it and, unless told otherwise, waits until it answers."""
        state, address = self.folder / "controller", self.network["control"].address
        if not (state / "tls").exists():
            subprocess.run([self.longhaul, "controller", "init", str(state), "--name", address],
                           check=True, capture_output=True)
        (state / "endpoint.json").unlink(missing_ok=True)
        words = []
        if self.config:
            (self.folder / "controller.yaml").write_text(self.config)
            words = ["--config", str(self.folder / "controller.yaml")]
        child = self.start("control", "controller", "--state-dir", state, "--rest",
                           f"{address}:8443", "--agents", f"{address}:8701", *words)
        if not wait:
            return
        wait_for("the controller starts",
                 lambda: (state / "endpoint.json").exists() or child.poll() is not None)
        if child.poll() is not None:
            raise RuntimeError(f"the controller has ended: {self.log('control')}")

    def restart_controller(self, after):
        """kill -9 of the controller, which starts again after so many seconds."""
        self.network["control"].signal_all(signal.SIGKILL)
        time.sleep(after)
        self.start_controller()

    def kill_controller(self):
        """kill -9 of the controller alone: clients on its host go on."""
        for pid in self.processes_of("control", "controller"):
            os.kill(pid, signal.SIGKILL)

    def kill_agent(self, node):
        """kill -9 of the agent alone."""
        for pid in self.processes_of(node, "agent"):
            os.kill(pid, signal.SIGKILL)

    def processes_of(self, host, command):
        """The pids of the processes of a host that run this command of longhaul."""
        found = []
        for pid in self.network[host].processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].decode() == str(self.longhaul) and words[1:2] == [command.encode()]:
                found.append(pid)
        return found

    def start_agent(self, node):
        host = self.network[node]
        state = self.folder / node
        words = []
        if not (state / "tls/agent.pem").exists():
            token = self.folder / f"{node}.token"
            self.call("token", "create-join", "--node", node, "--out", token)
            words = ["--join-token-file", token]
        self.start(node, "agent", "--controller", f"{self.network['control'].address}:8701",
                   "--node", node, "--slots", self.slots, "--state-dir", state, "--address",
                   host.address, "--allow-root", *words)

    def start(self, host, *words):
        with open(self.folder / f"{host}.log", "a") as log:
            return self.network[host].start(
                [self.longhaul, *words], env=self.environment, stdout=log,
                stderr=subprocess.STDOUT)

    def call(self, *words, code=0):
        """Runs a client command on the controller's host; returns what it printed."""
        child = self.network["control"].start([self.longhaul, *words], env=self.environment,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                              text=True)
        output, errors = child.communicate(timeout=LIMIT_S)
        if child.returncode != code:
            raise AssertionError(f"{words}: exit code {child.returncode}\n{output}{errors}")
        return output + errors

    def ask(self, *words):
        return json.loads(self.call(*words, "--json"))

    def connected(self):
        return [node["name"] for node in self.ask("nodes")["nodes"] if node["connected"]]

    def submit(self, name, job):
        """Submits a job file, given as a dictionary; its run directory is runs/NAME."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"name": name, **job}))
        self.call("submit", path, "--run-directory", self.folder / "runs" / name)

    def job(self, name):
        found = [job for job in self.ask("jobs")["jobs"] if job["name"] == name]
        return found[-1] if found else None

    def nodes_of(self, name):
        return [node for node in self.job(name).get("nodes", [])]

    def log(self, host):
        return (self.folder / f"{host}.log").read_text()

    def close(self):
        self.network.close()
