"""The certificate of an agent is revoked: the real controller and agent as processes, over TLS.

usage: revoke_test.py LONGHAUL
"""
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


class Revoke(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="revoke-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "controller"
        self.agent_state = self.folder / "agent"
        self.environment = {**os.environ, "HOME": str(self.folder),
                            "LONGHAUL_ENDPOINT": str(self.state / "endpoint.json")}
        self.longhaul("controller", "init", str(self.state))
        self.controller = self.start_controller()

    def longhaul(self, *words, code=0, **environment):
        done = subprocess.run([sys.longhaul, *words], env={**self.environment, **environment},
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "a") as log:
            child = subprocess.Popen([sys.longhaul, *words], env=self.environment, stdout=log,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        child.wait(timeout=LIMIT_S)

    def wait_for(self, what, condition):
        until = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), until, f"{what}\n{self.log('agent')}")
            time.sleep(0.05)

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def start_controller(self):
        (self.state / "endpoint.json").unlink(missing_ok=True)
        child = self.start("controller", "controller", "--state-dir", str(self.state))
        self.wait_for("the controller starts", (self.state / "endpoint.json").exists)
        return child

    def start_agent(self, *words):
        endpoint = json.loads((self.state / "endpoint.json").read_text())
        root = ["--allow-root"] if os.geteuid() == 0 else []
        return self.start("agent", "agent", "--controller", endpoint["agents"], "--node", "node-1",
                          "--slots", "1", "--state-dir", str(self.agent_state), *root, *words)

    def join_token(self):
        path = self.folder / "join.token"
        path.unlink(missing_ok=True)
        self.longhaul("token", "create-join", "--node", "node-1", "--out", str(path))
        return ["--join-token-file", str(path)]

    def connected(self):
        nodes = json.loads(self.longhaul("nodes", "--json"))["nodes"]
        return [node["name"] for node in nodes if node["connected"]] == ["node-1"]

    def refusals(self):
        """The refused connections of the agent in the audit log."""
        lines = map(json.loads, (self.state / "audit.log").read_text().splitlines())
        return [line["error"] for line in lines
                if line["did"] == "connect agent" and line["status"] >= 400]

    def test_a_revoked_agent_stays_out_until_it_joins_by_a_new_token(self):
        agent = self.start_agent(*self.join_token())
        self.wait_for("the agent connects", self.connected)
        self.assertEqual(self.longhaul("nodes", "revoke", "node-1"),
                         "the certificate of node-1 is revoked\n")
        self.wait_for("the connection ends", lambda: not self.connected())
        self.wait_for("the agent is refused", self.refusals)
        self.assertIn("the certificate of node node-1 was revoked at", self.refusals()[0])
        self.wait_for("the agent reports the remedy",
                      lambda: "longhaul token create-join --node node-1" in self.log("agent"))

        self.end(self.controller)
        before = len(self.refusals())
        self.end(agent)
        self.controller = self.start_controller()
        agent = self.start_agent(*self.join_token())
        self.wait_for("the started controller refuses the agent",
                      lambda: len(self.refusals()) > before)
        self.assertFalse(self.connected())

        self.end(agent)
        (self.agent_state / "tls/agent.pem").unlink()
        self.start_agent(*self.join_token())
        self.wait_for("the agent joins again", self.connected)

    def test_wrong_names_and_roles_are_refused_with_a_clear_line(self):
        self.assertEqual(self.longhaul("nodes", "revoke", "node-1", code=1),
                         "longhaul: no agent named node-1 has joined this controller\n")
        agent = self.start_agent(*self.join_token())
        self.wait_for("the agent connects", self.connected)
        self.longhaul("token", "create", "operator", "--role", "operate", "--out",
                      str(self.folder / "operator.token"))
        refused = self.longhaul("nodes", "revoke", "node-1", "--token-file",
                                str(self.folder / "operator.token"), code=1)
        self.assertIn("needs the role administer", refused)
        self.assertTrue(self.connected())
        self.end(agent)
        self.longhaul("nodes", "revoke", "node-1")
        self.assertRegex(self.longhaul("nodes", "revoke", "node-1", code=1),
                         "^longhaul: the certificate of node node-1 was revoked at .*, and it has "
                         "not joined again\n$")
        lines = list(map(json.loads, (self.state / "audit.log").read_text().splitlines()))
        done = [(line["who"], line["object"], line["status"]) for line in lines
                if line["did"] == "POST /v1/nodes/{name}/revoke"]
        self.assertEqual(done, [("local", "node-1", 404), ("operator", "node-1", 403),
                                ("local", "node-1", 200), ("local", "node-1", 409)])


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
