"""`longhaul check` over machines in network namespaces, whose links are really slow or down.

Each two machines have a link of their own (a veth pair), so that one link can be shaped. Needs root
and the right to make network namespaces. What is slow is judged by real times, which other work on
the machine changes: skipped without LONGHAUL_TEST_SLOW_LINKS=1.

usage: node_check_network_test.py LONGHAUL
"""
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 60
NODES = 5  # so few that each two of them are tested
SLOW = "400mbit"  # a pair test then takes about one second


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, **options)


class Machine:
    """A network namespace, which lives as long as a process in it."""

    def __init__(self, number):
        self.address = f"10.77.0.{number + 1}"
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "600"], stderr=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")
        until = time.monotonic() + LIMIT_S
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == own:
            if self.holder.poll() is not None or time.monotonic() > until:
                raise unittest.SkipTest("network namespaces cannot be made here")
            time.sleep(0.01)
        self.do("ip", "link", "set", "lo", "up")
        self.do("ip", "address", "add", f"{self.address}/32", "dev", "lo")

    def words(self, *words):
        return ["nsenter", "-t", str(self.holder.pid), "-n", *words]

    def do(self, *words):
        done = run(*self.words(*words))
        if done.returncode != 0:
            raise unittest.SkipTest(f"{' '.join(words)}: {done.stderr.strip()}")

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("LONGHAUL_TEST_SLOW_LINKS") != "1":
            raise unittest.SkipTest("it needs a quiet machine: set LONGHAUL_TEST_SLOW_LINKS=1")
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="check-network-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.machines = []
        for number in range(NODES + 1):  # the first one is the controller's
            cls.machines.append(Machine(number))
            cls.addClassCleanup(cls.machines[-1].close)
        for first, second in itertools.combinations(range(NODES + 1), 2):
            cls.connect(first, second)
        cls.environment = {**os.environ, "HOME": str(cls.folder),
                           "LONGHAUL_ENDPOINT": str(cls.folder / "state/endpoint.json")}
        cls.longhaul("controller", "init", str(cls.folder / "state"), "--name",
                     cls.machines[0].address)
        cls.start(0, "controller", "--state-dir", str(cls.folder / "state"), "--agents",
                  f"{cls.machines[0].address}:0")
        cls.wait_for((cls.folder / "state/endpoint.json").exists)
        endpoint = json.loads((cls.folder / "state/endpoint.json").read_text())
        for number in range(1, NODES + 1):
            token = cls.folder / f"join-{number}.token"
            cls.longhaul("token", "create-join", "--node", f"node-{number}", "--out", str(token))
            cls.start(number, "agent", "--controller", endpoint["agents"], "--join-token-file",
                      str(token), "--node", f"node-{number}", "--state-dir",
                      str(cls.folder / f"agent-{number}"), "--address",
                      cls.machines[number].address, "--allow-root")
        cls.wait_for(lambda: len(json.loads(cls.longhaul("nodes", "--json"))["nodes"]) == NODES)

    @classmethod
    def connect(cls, first, second):
        one, other = cls.machines[first], cls.machines[second]
        done = run("ip", "link", "add", f"to-{second}", "netns", str(one.holder.pid), "type", "veth",
                   "peer", "name", f"to-{first}", "netns", str(other.holder.pid))
        if done.returncode != 0:
            raise unittest.SkipTest(f"no veth: {done.stderr.strip()}")
        for machine, to, towards in ((one, second, other), (other, first, one)):
            machine.do("ip", "link", "set", f"to-{to}", "up")
            machine.do("ip", "route", "add", f"{towards.address}/32", "dev", f"to-{to}", "src",
                       machine.address)

    @classmethod
    def longhaul(cls, *words, codes=(0,)):
        done = run(*cls.machines[0].words(sys.longhaul, *words), env=cls.environment)
        if done.returncode not in codes:
            raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def start(cls, number, *words):
        with open(cls.folder / f"{words[0]}-{number}.log", "w", encoding="utf-8") as log:
            child = subprocess.Popen(cls.machines[number].words(sys.longhaul, *words),
                                     env=cls.environment, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=log)
        cls.addClassCleanup(child.wait)
        cls.addClassCleanup(child.send_signal, signal.SIGTERM)

    @staticmethod
    def wait_for(condition):
        until = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > until:
                raise AssertionError("not within a minute")
            time.sleep(0.1)

    def shape(self, first, second):
        """Makes the link of two nodes slow until the test ends."""
        for at, to in ((first, second), (second, first)):
            machine = self.machines[at]
            machine.do("tc", "qdisc", "add", "dev", f"to-{to}", "root", "tbf", "rate", SLOW,
                       "burst", "256k", "latency", "50ms")
            self.addCleanup(machine.do, "tc", "qdisc", "del", "dev", f"to-{to}", "root")

    def check(self):
        status = json.loads(self.longhaul("check", "--json", codes=(0, 1)))
        verdicts = {node["name"]: node["verdict"] for node in status["nodes"]}
        links = {(link["first"], link["second"]): link["verdict"] for link in status["links"]}
        return verdicts, links, status

    # Other programs may make any node of this machine slow, so no test requires that none is.
    def test_without_a_fault_nothing_is_bad(self):
        verdicts, links, status = self.check()
        self.assertEqual(len(verdicts), NODES)
        self.assertNotIn("bad", [*verdicts.values(), *links.values()], status)

    def test_a_slow_link_is_named(self):
        self.shape(2, 4)
        verdicts, links, status = self.check()
        self.assertEqual(links.get(("node-2", "node-4")), "slow", status)
        self.assertNotIn("bad", verdicts.values(), status)

    def test_a_link_that_is_down_is_named(self):
        self.machines[1].do("ip", "link", "set", "to-3", "down")
        try:
            verdicts, links, status = self.check()
        finally:
            self.machines[1].do("ip", "link", "set", "to-3", "up")
            self.machines[1].do("ip", "route", "add", f"{self.machines[3].address}/32", "dev",
                                "to-3", "src", self.machines[1].address)
        self.assertEqual(links.get(("node-1", "node-3")), "bad", status)
        self.assertNotIn("bad", verdicts.values(), status)

    def test_a_node_whose_links_are_all_slow_is_named(self):
        for other in (1, 2, 3, 4):
            self.shape(5, other)
        verdicts, links, status = self.check()
        self.assertEqual(verdicts["node-5"], "slow", status)
        self.assertNotIn("bad", [*verdicts.values(), *links.values()], status)

    def test_a_slow_link_and_a_stopped_agent_are_both_named(self):
        self.shape(1, 2)
        agent = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and
                     f"{self.folder}/agent-4".encode() in self.command(pid).split(b"\0")
                     and b"agent" in self.command(pid).split(b"\0"))
        os.kill(agent, signal.SIGSTOP)
        try:
            verdicts, links, status = self.check()
        finally:
            os.kill(agent, signal.SIGCONT)
        self.assertEqual(verdicts["node-4"], "bad", status)
        self.assertEqual(links.get(("node-1", "node-2")), "slow", status)
        self.wait_for(lambda: all(node["connected"] for node in
                                  json.loads(self.longhaul("nodes", "--json"))["nodes"]))

    @staticmethod
    def command(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
