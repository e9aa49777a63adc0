"""Jobs that harm others: a fork bomb, a full disk, output without end. The job beside them goes on.

usage: isolation_test.py LONGHAUL LIBLONGHAUL.SO

As root it runs in a mount namespace of its own, so that its small disk disappears with it.
"""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import unittest

import local_run
from queues_test import Cluster

ROOT = pathlib.Path(__file__).resolve().parent.parent
DISK_MIB = 4
# Its neighbours are over when it is: it stops once the file is there.
VICTIM = """
import os, sys, time
import longhaul
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    longhaul.report(step)
    time.sleep(0.01)
"""
# Fills the disk of its run directory, and goes on with a snapshot that the disk has no room for.
FILLER = """
import errno, os, sys
import longhaul
folder = sys.argv[1]
try:
    with open(folder + "/fill", "wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
except OSError as error:
    assert error.errno == errno.ENOSPC, error
for step in range(1, 6):
    longhaul.snapshot({"x": "x" * (8 << 20)}, step)
    longhaul.report(step)
"""
ONE = {"nodes": 1, "processes_per_node": 1}
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "python")}


class IsolationTest(unittest.TestCase):
    options = []

    def setUp(self):
        self.cluster = Cluster([sys.program], "{}", agents=0)
        self.addCleanup(self.cluster.close)
        self.folder = pathlib.Path(self.cluster.folder)
        for name, text in (("victim.py", VICTIM), ("filler.py", FILLER)):
            self.cluster.write(name, text)
        self.agent = self.cluster.start(
            "agent", "--controller", self.cluster.agents_address, "--token-file", "state/token",
            "--node", "node-1", "--slots", "3", "--state-dir", "agent-1", "--allow-root",
            *self.options)
        self.addCleanup(self.end_agent)
        local_run.await_that(lambda: len(self.cluster.nodes()) == 1, "the agent")
        self.submit("victim", [sys.executable, "victim.py", f"{self.folder}/over"])
        local_run.await_that(lambda: self.cluster.job("victim")["step"] > 3, "steps")

    def end_agent(self):
        self.agent.terminate()
        self.agent.wait(timeout=60)

    def submit(self, name, command, **keys):
        self.cluster.submit(name, {
            "command": command, "environment": ENVIRONMENT, "resources": ONE,
            "working_directory": str(self.folder), "max_restarts": 2, **keys})

    def assert_the_victim_went_on(self):
        step = self.cluster.job("victim")["step"]
        local_run.await_that(lambda: self.cluster.job("victim")["step"] > step + 3, "steps")
        self.cluster.write("over", "")
        job = self.cluster.await_state("victim", "succeeded")
        self.assertEqual((job["attempt"], job["faults"]), (1, []))
        self.assertIsNone(self.agent.poll(), "the agent has ended")

    def test_a_fork_bomb_fails_with_its_cause(self):
        self.submit("bomb", ["sh", "-c", "while :; do setsid sleep 600 & done"],
                    limits={"processes": 64})
        job = self.cluster.await_state("bomb", "failed")
        self.assertIn("limit of 64 processes and threads on a node (limits.processes)",
                      job["reason"])
        self.assertEqual(job["attempt"], 1)
        self.assert_the_victim_went_on()

    def test_a_log_without_end_is_bounded_and_reported(self):
        self.submit("flood", ["yes"], limits={"log_size": "1MiB"})
        local_run.await_that(
            lambda: "limits.log_size" in self.cluster.call("events", "flood"), "the warning")
        run = pathlib.Path(self.cluster.job("flood")["job"]["run_directory"])
        log = run / "logs/attempt-1/rank-0.log"
        self.cluster.call("stop", "flood")
        self.cluster.await_state("flood", "stopped")
        facts = log.stat()
        self.assertLess(facts.st_blocks * 512, facts.st_size, "nothing of it was freed")
        self.assert_the_victim_went_on()

    @unittest.skipUnless(os.geteuid() == 0, "not root: a small disk cannot be mounted")
    def test_a_full_disk_of_one_job_ends_nothing_else(self):
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "disk", str(disk)],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        self.cluster.write("filler.yaml", json.dumps({
            "name": "filler", "command": [sys.executable, "filler.py", str(disk)],
            "environment": ENVIRONMENT, "resources": ONE, "max_restarts": 2,
            "working_directory": str(self.folder), "snapshot": {"interval_steps": 1}}))
        self.cluster.call("submit", "filler.yaml", "--run-directory", str(disk / "run"))
        job = self.cluster.await_state("filler", "failed")
        self.assertIn("no space left on device", job["reason"])
        self.assertEqual(os.statvfs(disk).f_bavail, 0, "the disk was not full")
        self.assert_the_victim_went_on()
        # With room again the node runs a job there.
        (disk / "fill").unlink()
        self.cluster.write("again.yaml", json.dumps({"name": "again", "command": ["true"],
                                                     "resources": ONE}))
        self.cluster.call("submit", "again.yaml", "--run-directory", str(disk / "again"))
        self.cluster.await_state("again", "succeeded")


class CountedIsolationTest(IsolationTest):
    options = ["--no-control-groups"]


@unittest.skipUnless(os.geteuid() == 0, "not root: an agent cannot run jobs as another user")
class RunAsTest(unittest.TestCase):
    """A controller of the user nobody, and an agent of root that runs jobs as this user."""

    def setUp(self):
        self.lab = local_run.Lab([sys.program])
        self.addCleanup(self.lab.close)
        self.folder = pathlib.Path(self.lab.folder)
        self.folder.chmod(0o755)
        state = self.folder / "state"
        state.mkdir()
        shutil.chown(state, "nobody")
        key, value = self.lab.marker.split("=")
        self.environment = {**os.environ, key: value,
                            "LONGHAUL_ENDPOINT": str(state / "endpoint.json")}
        self.start("setpriv", "--reuid", "nobody", "--clear-groups", "./longhaul", "controller",
                   "--state-dir", "state")
        local_run.await_that((state / "endpoint.json").exists, "the controller")
        shutil.copy(state / "token", self.folder / "agent.token")
        (self.folder / "agent.token").chmod(0o600)
        self.start("./longhaul", "agent", "--controller",
                   json.loads((state / "endpoint.json").read_text())["agents"], "--token-file",
                   "agent.token", "--node", "node-1", "--state-dir", "agent", "--run-as", "nobody")
        local_run.await_that(lambda: "node-1" in self.call("nodes"), "the agent")

    def start(self, *words):
        child = subprocess.Popen(words, cwd=self.folder, env=self.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (child.terminate(), child.wait(timeout=60)))

    def call(self, *words):
        return subprocess.run(
            ["setpriv", "--reuid", "nobody", "--clear-groups", "./longhaul", *words],
            cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=60).stdout

    def end(self, name, *options):
        (self.folder / f"{name}.json").write_text(json.dumps({
            "name": name, "command": ["sh", "-c", "id -u; echo $HOME"], "resources": ONE,
            "working_directory": "/"}))
        self.call("submit", f"{name}.json", "--watch", *options)
        return json.loads(self.call("status", name, "--json"))

    def test_jobs_run_as_the_user(self):
        job = self.end("who")
        self.assertEqual(job["state"], "succeeded", job["reason"])
        log = pathlib.Path(job["job"]["run_directory"]) / "logs/attempt-1/rank-0.log"
        nobody = pwd.getpwnam("nobody")
        self.assertEqual(log.read_text(), f"{nobody.pw_uid}\n{nobody.pw_dir}\n")
        self.assertEqual(log.stat().st_uid, nobody.pw_uid)

    def test_a_directory_of_another_user_is_refused_with_the_remedy(self):
        place = self.folder / "of-root"
        place.mkdir(mode=0o755)
        job = self.end("lost", "--run-directory", str(place))
        self.assertEqual(job["state"], "failed")
        self.assertIn("must belong to user nobody", job["reason"])
        self.assertEqual(list(place.iterdir()), [])


if __name__ == "__main__":
    if os.geteuid() == 0 and "ISOLATION_TEST_INSIDE" not in os.environ:
        os.environ["ISOLATION_TEST_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-B", *sys.argv])
    sys.program, sys.library = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    ENVIRONMENT["LONGHAUL_LIBRARY"] = sys.library
    unittest.main()
