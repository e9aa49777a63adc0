"""`longhaul kube node-health` with the real node-problem-detector and the real kube-apiserver.

  problem_detector_test.py LONGHAUL

A detector of each kind writes the conditions of one node: a log monitor, which follows a log file,
and a monitor with a plugin, which calls a script. Both run as a service account that has the role
of node-problem-detector that Kubernetes has built in. Skipped, with a line, where
`tools/kubernetes_environment node-problem-detector` has not built it.
"""

import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from account_rights import NAMESPACE, user
from api_server import programs_or_skip
from node_health_test import NODES, Cluster, wait_for

LONGHAUL = None
DETECTOR = "node-problem-detector"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"


class Detectors:
    """The processes of node-problem-detector, one a node."""

    def __init__(self, test, binaries, cluster):
        self.test = test
        self.program = binaries / DETECTOR
        self.server = cluster.server
        self.folder = self.server.folder / "detectors"
        self.folder.mkdir()
        self.server.call("POST", ACCOUNTS, {"metadata": {"name": DETECTOR}})
        self.server.call("POST", BINDINGS, {
            "metadata": {"name": DETECTOR},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": f"system:{DETECTOR}"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                          "name": user(DETECTOR)}]})
        self.kubeconfig = self.server.kubeconfig_of(DETECTOR)

    def start(self, node, kind, monitor):
        """Starts the detector of a node; `kind` and `monitor` are its option and its rules."""
        path = self.folder / f"{node}.json"
        path.write_text(json.dumps(monitor))
        log = open(self.folder / f"{node}.log", "a")
        self.test.addCleanup(log.close)
        process = subprocess.Popen(
            [self.program, f"--hostname-override={node}", f"--config.{kind}={path}",
             f"--apiserver-override=?inClusterConfig=false&auth={self.kubeconfig}",
             "--port=0", "--prometheus-port=0"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.test.addCleanup(process.wait)
        self.test.addCleanup(process.kill)
        return process

    def last_lines(self, node):
        return "\n".join((self.folder / f"{node}.log").read_text().splitlines()[-20:])


def log_monitor(log):
    """Follows a log of the kernel for tasks that hang."""
    return {"plugin": "filelog",
            "pluginConfig": {"timestamp": "^[^ ]*", "timestampFormat": "2006-01-02T15:04:05",
                             "message": "kernel: (.*)"},
            "logPath": str(log), "lookback": "5m", "bufferSize": 10, "source": "kernel-monitor",
            "conditions": [{"type": "KernelDeadlock", "reason": "KernelHasNoDeadlock",
                            "message": "kernel has no deadlock"}],
            "rules": [{"type": "permanent", "condition": "KernelDeadlock", "reason": "TrainerHung",
                       "pattern": "task trainer:[0-9]+ blocked for more than [0-9]+ seconds[.]"}]}


def plugin_monitor(script):
    """Calls a script: its exit code is the condition."""
    return {"plugin": "custom",
            "pluginConfig": {"invoke_interval": "1s", "timeout": "30s", "max_output_length": 80,
                             "concurrency": 1},
            "source": "restart-monitor",
            "conditions": [{"type": "FrequentContainerdRestart", "reason": "NoFrequentRestart",
                            "message": "containerd is well"}],
            "rules": [{"type": "permanent", "condition": "FrequentContainerdRestart",
                       "reason": "FrequentContainerdRestart", "path": str(script),
                       "timeout": "30s"}]}


class ProblemDetectorTest(unittest.TestCase):
    def setUp(self):
        self.binaries = programs_or_skip("kube-apiserver", "etcd", DETECTOR)
        self.cluster = Cluster(self, LONGHAUL, self.binaries)
        self.detectors = Detectors(self, self.binaries, self.cluster)

    def await_condition(self, node, kind, status, reason):
        def found():
            conditions = self.cluster.server.call("GET", f"{NODES}/{node}")["status"]["conditions"]
            return [(each["status"], each["reason"]) for each in conditions if each["type"] == kind]
        wait_for(lambda: found() == [(status, reason)],
                 f"{kind}={status} of {node}; its detector: {self.detectors.last_lines(node)}")

    def expect_cordoned(self, node, evidence):
        self.cluster.wait_for_health(node, "False", "Cordoned")
        self.assertTrue(self.cluster.is_cordoned(node) and self.cluster.has_taint(node))
        self.assertEqual(self.cluster.record(node)["evidence"], [evidence])

    def expect_released(self, node):
        self.cluster.wait_for_health(node, "True", "NoEvidence")
        self.assertFalse(self.cluster.is_cordoned(node) or self.cluster.has_taint(node))

    def test_a_line_in_a_log_cordons_the_node_until_its_detector_starts_again(self):
        log = self.detectors.folder / "kern.log"
        log.write_text("")
        detector = self.detectors.start("n0", "system-log-monitor", log_monitor(log))
        self.await_condition("n0", "KernelDeadlock", "False", "KernelHasNoDeadlock")
        with open(log, "a") as file:
            file.write(time.strftime("%Y-%m-%dT%H:%M:%S") +
                       " n0 kernel: task trainer:4711 blocked for more than 120 seconds.\n")
        self.await_condition("n0", "KernelDeadlock", "True", "TrainerHung")
        self.expect_cordoned("n0", "KernelDeadlock=True")
        detector.kill()
        detector.wait()
        log.write_text("")
        self.detectors.start("n0", "system-log-monitor", log_monitor(log))
        self.await_condition("n0", "KernelDeadlock", "False", "KernelHasNoDeadlock")
        self.expect_released("n0")

    def test_a_plugin_that_fails_cordons_the_node_until_it_succeeds(self):
        state = self.detectors.folder / "state"
        state.write_text("1")
        script = self.detectors.folder / "plugin"
        script.write_text(f"#!/bin/sh\necho containerd restarts\nexit $(cat {state})\n")
        script.chmod(0o755)
        self.detectors.start("n1", "custom-plugin-monitor", plugin_monitor(script))
        self.await_condition("n1", "FrequentContainerdRestart", "True", "FrequentContainerdRestart")
        self.expect_cordoned("n1", "FrequentContainerdRestart=True")
        state.write_text("0")
        self.await_condition("n1", "FrequentContainerdRestart", "False", "NoFrequentRestart")
        self.expect_released("n1")
        self.assertFalse(self.cluster.is_cordoned("n0"))


if __name__ == "__main__":
    LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1], verbosity=2)
