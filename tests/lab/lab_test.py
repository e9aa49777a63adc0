"""Whole hosts are lost: each has a network and processes of its own (network.py).

usage: lab_test.py LONGHAUL LONGHAUL_TRAINER

Needs root, `ip`, `tc`, `unshare` and `nsenter`; skipped without.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import unittest

import cluster
import network

MISSING = network.why_not()
STEPS = 400  # the last fault comes before the end on a fast machine as well
OVER = ("succeeded", "failed", "stopped")
# Two workers on two hosts, which send each other 256 KiB in each step.
EXCHANGE = """
import os, socket, sys, time
rank, port, size = int(os.environ["RANK"]), 29777, 256 << 10
if rank == 0:
    server = socket.create_server(("0.0.0.0", port))
    peer = server.accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except OSError:
            time.sleep(0.05)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    time.sleep(0.02)
    try:
        peer.sendall(bytes(size))
        left = size
        while left > 0:
            part = peer.recv(left)
            if not part:
                sys.exit(0)
            left -= len(part)
    except ConnectionError:  # the other one has ended
        sys.exit(0)
    if rank == 0:
        print(f"step {step}", flush=True)
"""


def job(folder, steps):
    return {
        "model": {"layers": 1, "hidden": 32, "heads": 2, "sequence": 32},
        "data": {"include": [f"{folder}/data/*.txt"], "held_out": 0.1},
        "train": {"steps": steps, "global_batch": 8, "warmup_steps": 5, "evaluate_every": 0,
                  "evaluate_sequences": 8},
        "layout": {"pipeline": 1, "tensor": 1},
        "snapshot": {"interval_steps": 5},
        "resources": {"nodes": 2, "processes_per_node": 2}}


@unittest.skipIf(MISSING, MISSING)
class Lab(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lab-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "data").mkdir()
        for i in range(40):
            lines = (f"line {i * j} of a text that repeats itself\n" for j in range(2))
            (self.folder / f"data/{i}.txt").write_text("".join(lines))
        self.cluster = cluster.Cluster(sys.longhaul, self.folder, 3, LONGHAUL_TRAINER=sys.trainer)
        self.addCleanup(self.cluster.close)

    def status(self, name):
        return self.cluster.ask("status", name)

    def await_step(self, name, step):
        cluster.wait_for(f"step {step}", lambda: self.status(name)["step"] >= step)

    def weights(self, name):
        """The hash of the weights once the job has ended well."""
        cluster.wait_for("the end", lambda: self.status(name)["state"] in OVER)
        status = self.status(name)
        self.assertEqual(status["state"], "succeeded", status["reason"])
        results = [json.loads(text) for text in status["results"]]
        return next(result["weights_hash"] for result in results if "weights_hash" in result)

    def workers(self, host):
        """The attempts of the workers on a host."""
        attempts = []
        for pid in self.cluster.network[host].processes():
            try:
                entries = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
            except OSError:
                continue
            attempts += [int(entry.split("=")[1]) for entry in entries
                         if entry.startswith("LONGHAUL_ATTEMPT=")]
        return attempts

    def test_lost_hosts_leave_no_trace_in_the_weights(self):
        self.cluster.submit("calm", job(self.folder, STEPS))
        expected = self.weights("calm")
        self.cluster.submit("faults", job(self.folder, STEPS))
        self.await_step("faults", 20)
        gang = self.status("faults")["gang"]
        spare = ({"node-1", "node-2", "node-3"} - set(gang)).pop()

        # All of its processes are gone at once, with what its memory held.
        self.cluster.network[gang[1]].kill()
        cluster.wait_for("the idle host takes its place",
                         lambda: self.status("faults")["gang"] == [gang[0], spare])
        fault = self.status("faults")["faults"][0]
        self.assertEqual(fault["class_name"], "node")
        self.assertIn("a peer's memory", fault["action"])
        self.cluster.network[gang[1]].power_on()
        self.cluster.start_agent(gang[1])
        cluster.wait_for("it is back", lambda: len(self.cluster.connected()) == 3)

        # A cut link ends no connection, and the workers on the host continue to run.
        self.await_step("faults", self.status("faults")["step"] + 20)
        self.cluster.network[spare].link("down")
        cluster.wait_for("the other host takes its place",
                         lambda: self.status("faults")["gang"] == [gang[0], gang[1]])
        self.await_step("faults", self.status("faults")["step"] + 5)
        self.cluster.network[spare].link("up")
        cluster.wait_for("it is back", lambda: len(self.cluster.connected()) == 3)
        cluster.wait_for("the workers of the former attempt end",
                         lambda: not self.workers(spare))

        # Its kernel still answers, its processes do not.
        self.cluster.network[gang[0]].signal_all(signal.SIGSTOP)
        cluster.wait_for("the idle host takes its place",
                         lambda: self.status("faults")["gang"] == [spare, gang[1]])
        self.cluster.network[gang[0]].signal_all(signal.SIGCONT)
        self.assertEqual(self.weights("faults"), expected)
        self.assertEqual(len(self.status("faults")["faults"]), 3)

    def test_a_slow_network_is_no_fault(self):
        for node in self.cluster.nodes:
            self.cluster.network[node].limit("4mbit")
        self.cluster.submit("slow", job(self.folder, 30))
        self.weights("slow")
        self.assertEqual(self.status("slow")["faults"], [])

    def test_new_nodes_are_checked_before_a_gang_starts(self):
        self.cluster.close()
        shutil.rmtree(self.folder / "controller")
        for node in self.cluster.nodes:
            shutil.rmtree(self.folder / node)
        self.cluster = cluster.Cluster(sys.longhaul, self.folder, 2, LONGHAUL_TRAINER=sys.trainer,
                                       config="scheduling: {check_new_nodes: true}\n")
        self.addCleanup(self.cluster.close)
        reasons = set()
        self.cluster.submit("checked", job(self.folder, 30))
        cluster.wait_for("the end", lambda: reasons.add(self.status("checked")["reason"]) or
                         self.status("checked")["state"] in OVER)
        self.assertIn("its nodes are checked before it starts", reasons)
        self.assertEqual(self.status("checked")["state"], "succeeded")
        self.assertEqual(self.status("checked")["faults"], [])

    def warnings(self, name):
        told = self.cluster.call("explain", self.folder / "controller", "--job", name, "--json")
        return [warning["text"] for warning in json.loads(told)["warnings"]]

    def test_a_connection_that_becomes_slow_is_named(self):
        (self.folder / "exchange.py").write_text(EXCHANGE)
        end = self.folder / "end"
        self.cluster.submit("exchange", {
            "command": ["/usr/bin/python3", str(self.folder / "exchange.py"), str(end)],
            "step_pattern": r"step (?P<step>\d+)",
            "resources": {"nodes": 2, "processes_per_node": 1}})
        self.await_step("exchange", 1_000)  # some 20 s, in which the usual rate is learned
        gang = self.status("exchange")["gang"]
        self.cluster.network[gang[1]].limit("10mbit")
        slow = re.compile("the connection between node-. and node-. is slow")
        cluster.wait_for("the warning", lambda: any(map(slow.match, self.warnings("exchange"))))
        end.touch()
        cluster.wait_for("the end", lambda: self.status("exchange")["state"] in OVER)
        self.assertEqual(self.status("exchange")["faults"], [])
        self.assertEqual([text for text in self.warnings("exchange") if "worker" in text], [])


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv.pop(1))
    sys.trainer = os.path.abspath(sys.argv.pop(1))
    unittest.main()
