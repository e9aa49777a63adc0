#!/usr/bin/env python3
"""device_error_test.py LONGHAUL LONGHAUL-TRAINER

A driver reports a GPU that must be reset, on a node of a job that trains: named pipes stand for the
kernel's logs of three agents (docs/device-errors.md). The job continues on the idle node.
"""
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import local_run

RECORD = "4,1,100,-;NVRM: Xid (PCI:0000:3b:00): {}, pid=1, {}\n"
JOB = local_run.JOB.replace("steps: 30", "steps: 1000000").replace(
    "processes_per_node: 2", "processes_per_node: 1")


class DeviceErrorTest(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab(sys.argv_programs)
        self.addCleanup(self.lab.close)
        self.processes = []
        self.addCleanup(self.stop)
        self.start("controller", "--state-dir", "controller")
        endpoint = f"{self.lab.folder}/controller/endpoint.json"
        local_run.await_that(lambda: os.path.exists(endpoint), "no controller")
        with open(endpoint) as file:
            address = json.load(file)["agents"]
        for node in ("node-1", "node-2", "node-3"):
            os.mkfifo(f"{self.lab.folder}/{node}.log")
            self.start("agent", "--controller", address, "--token-file", "controller/token",
                       "--node", node, "--state-dir", node, "--allow-root",
                       "--kernel-log", f"{node}.log")
        local_run.await_that(lambda: len(self.client("nodes", "--json")["nodes"]) == 3, "no agents")
        # A log that ends is not read any more, so the pipes stay open.
        self.logs = {node: open(f"{self.lab.folder}/{node}.log", "w")
                     for node in ("node-1", "node-2", "node-3")}
        for log in self.logs.values():
            self.addCleanup(log.close)
        with open(f"{self.lab.folder}/job.yaml", "w") as file:
            file.write(JOB)
        self.start("submit", "job.yaml").wait(timeout=60)
        local_run.await_that(lambda: self.job().get("step", 0) > 10, lambda: self.job())

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, *words):
        key, value = self.lab.marker.split("=")
        process = subprocess.Popen(
            ["./longhaul", *words], cwd=self.lab.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, key: value, "LONGHAUL_ENDPOINT": "controller/endpoint.json"})
        self.processes.append(process)
        return process

    def client(self, *words):
        done = subprocess.run(
            ["./longhaul", *words], cwd=self.lab.folder, capture_output=True, text=True,
            timeout=60, env={**os.environ, "LONGHAUL_ENDPOINT": "controller/endpoint.json"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def job(self):
        return self.client("status", "tiny-1", "--json")

    def cordoned(self):
        return [node["name"] for node in self.client("nodes", "--json")["nodes"]
                if node.get("cordoned")]

    def report(self, node, *error):
        print(RECORD.format(*error), end="", file=self.logs[node], flush=True)

    def test_the_job_continues_on_another_node(self):
        node = self.job()["gang"][1]
        self.report(node, 31, "MMU Fault")
        self.report(node, 79, "GPU has fallen off the bus.")
        local_run.await_that(lambda: self.job()["attempt"] == 2, lambda: self.job())
        self.assertEqual(self.cordoned(), [node])
        local_run.await_that(lambda: self.job()["faults"][0].get("new_step_at_ns"),
                             lambda: self.job()["faults"])
        job = self.job()
        self.assertNotIn(node, job["gang"])
        self.assertEqual(len(job["faults"]), 1)
        fault = job["faults"][0]
        self.assertEqual((fault["class_name"], fault["node"]), ("device", node))
        self.assertIn("PCI:0000:3b:00", fault["what"])
        self.assertIn("GPU has fallen off the bus.", fault["what"])


if __name__ == "__main__":
    sys.argv_programs = [os.path.abspath(sys.argv.pop(1)) for _ in range(2)]
    unittest.main()
