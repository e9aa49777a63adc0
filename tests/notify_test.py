"""Hooks of `longhaul run --notify`: they are sent its events, and the run continues whatever they do.

usage: notify_test.py LONGHAUL

The scripts need nothing but Python.
"""
import http.server
import json
import os
import subprocess
import sys
import threading
import unittest

import ddp_test
import local_run
import plain_command_test

# Writes what it gets, one line a call.
COMMAND = """
import json, os, sys
names = ("LONGHAUL_EVENT", "LONGHAUL_JOB", "LONGHAUL_RUN_DIRECTORY")
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([json.load(sys.stdin), [os.environ[name] for name in names]]) + "\\n")
"""


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers the first request with 503 and all others with 200."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(503 if len(self.server.requests) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Notify(ddp_test.RunTest):
    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.server.requests = []
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.write("train.py", plain_command_test.SCRIPT)
        self.write("hook.py", COMMAND)

    def run_with(self, hooks):
        self.write("notify.yaml", json.dumps({"notify": hooks}))
        os.chmod(f"{self.folder}/notify.yaml", 0o600)
        run = self.start("--notify", "notify.yaml", "--procs", "2", "--step-pattern",
                         plain_command_test.PATTERN, "--inject", "kill worker 1 at step 25", "--",
                         ddp_test.PYTHON, "train.py", "60", "29")
        return run.end(), run.text()

    def test_a_command_and_a_webhook_get_the_fault_the_recovery_and_the_end(self):
        port = self.server.server_port
        code, text = self.run_with([
            {"command": [ddp_test.PYTHON, "hook.py", "got"]},
            {"webhook": f"http://me:SECRET@127.0.0.1:{port}/SECRET?k=SECRET"}])
        self.assertEqual(code, 0, text)
        with open(f"{self.folder}/got") as file:
            got = [json.loads(line) for line in file]
        self.assertEqual([message["event"] for message, _ in got], ["fault", "recovered", "end"])
        message, environment = got[0]
        self.assertEqual(environment[0], "fault")
        self.assertEqual(environment[1], message["job"])
        self.assertEqual(environment[2], f"{self.folder}/runs/train")
        self.assertEqual(message["data"]["fault"]["rank"], 1)
        self.assertIn("worker 1 was ended by signal 9", message["text"])
        # The first request was answered with 503, so it was sent again.
        events = [body["event"] for _, _, body in self.server.requests]
        self.assertEqual(events, ["fault", "fault", "recovered", "end"])
        path, authorization, body = self.server.requests[1]
        self.assertEqual((path, body), ("/SECRET?k=SECRET", message))
        self.assertTrue(authorization.startswith("Basic "))
        report = self.report("train")
        self.assertEqual([(hook["delivered"], hook["failed"], hook["dropped"])
                          for hook in report["hooks"]], [(3, 0, 0), (3, 0, 0)])
        self.assert_no_secret(text)

    def assert_no_secret(self, text):
        self.assertNotIn("SECRET", text)
        for folder, _, names in os.walk(f"{self.folder}/runs"):
            for name in names:
                with open(f"{folder}/{name}", "rb") as file:
                    self.assertNotIn(b"SECRET", file.read(), f"{folder}/{name}")

    def test_hooks_that_fail_or_hang_do_not_touch_the_run(self):
        self.server.shutdown()
        self.server.server_close()
        address = f"http://me:SECRET@127.0.0.1:{self.server.server_port}/SECRET"
        code, text = self.run_with([
            {"command": ["sh", "-c", "echo no pager >&2; exit 7"]},
            {"command": ["sh", "-c", "sleep 1000 & wait"], "timeout": "100ms"},
            {"command": ["./absent"]},
            {"webhook": address, "events": ["end"], "timeout": "1s"}])
        # run.end() has checked that no process of the run, and so none of a hook, is left.
        self.assertEqual(code, 0, text)
        report = self.report("train")
        self.assertEqual((report["state"], report["steps"]), ("succeeded", 60))
        fails, hangs, absent, refused = report["hooks"]
        self.assertEqual((fails["delivered"], fails["failed"]), (0, 3))
        self.assertEqual(fails["last_error"], "it exited with code 7: no pager")
        self.assertEqual((hangs["delivered"], hangs["failed"]), (0, 3))
        self.assertIn("was killed because it did not end within 100 ms", hangs["last_error"])
        self.assertIn("./absent", absent["last_error"])
        self.assertEqual(refused["failed"], 1)
        self.assertEqual(refused["name"], f"webhook http://127.0.0.1:{self.server.server_port}")
        warnings = [each["text"] for each in report["warnings"] if "the hook '" in each["text"]]
        self.assertEqual(len(warnings), 4, "one line for each hook")
        with open(f"{self.folder}/runs/train/report.md") as file:
            self.assertIn("## Hooks", file.read())
        self.assert_no_secret(text)

    def test_a_controller_has_hooks_of_its_own_and_takes_none_from_a_job(self):
        self.write("notify.yaml", json.dumps({"notify": [
            {"command": [ddp_test.PYTHON, f"{self.folder}/hook.py", f"{self.folder}/got"],
             "events": ["end"]}]}))
        os.chmod(f"{self.folder}/notify.yaml", 0o600)
        controller = subprocess.Popen(
            [sys.longhaul, "controller", "--state-dir", "state", "--notify", "notify.yaml"],
            cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.addCleanup(controller.stdout.close)
        self.addCleanup(lambda: controller.poll() is None and (controller.kill(),
                                                               controller.wait()))
        self.assertIn("controller ready", controller.stdout.readline())
        job = {"name": "a", "command": ["true"],
               "resources": {"nodes": 1, "processes_per_node": 1}}
        self.write("a.yaml", json.dumps(job))
        self.write("b.yaml", json.dumps({**job, "notify": [{"command": ["touch", "bad"]}]}))
        environment = {**os.environ, "LONGHAUL_ENDPOINT": f"{self.folder}/state/endpoint.json"}

        def call(*words):
            return subprocess.run([sys.longhaul, *words], cwd=self.folder, env=environment,
                                  text=True, capture_output=True, timeout=60)

        refused = call("submit", "b.yaml")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("notify: unknown key", refused.stderr)
        with open(environment["LONGHAUL_ENDPOINT"]) as file:
            endpoint = json.load(file)
        agent = subprocess.Popen(
            [sys.longhaul, "agent", "--controller", endpoint["agents"], "--token-file",
             endpoint["token_file"], "--node", "node-1", "--slots", "1", "--state-dir", "agent",
             "--allow-root"],
            cwd=self.folder, stdout=subprocess.DEVNULL)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)
        local_run.await_that(lambda: "node-1" in call("nodes").stdout, "the node is connected")
        done = call("submit", "a.yaml", "--watch")
        self.assertEqual(done.returncode, 0, done.stderr)
        # The controller sends what is queued before it ends.
        controller.terminate()
        self.assertEqual(controller.wait(timeout=60), 0)
        with open(f"{self.folder}/got") as file:
            got = [json.loads(line)[0] for line in file]
        self.assertEqual([(each["event"], each["job"]) for each in got], [("end", "a-1")])

    def test_a_file_with_a_mistake_or_that_others_may_write_is_refused(self):
        self.write("notify.yaml", "notify:\n- {command: [a], event: [end]}\n")
        run = self.start("--notify", "notify.yaml", "--", ddp_test.PYTHON, "train.py", "1", "0")
        self.assertEqual(run.end(), 2)
        self.assertIn("notify.yaml:2: notify: unknown key 'event': did you mean 'events'?",
                      run.text())
        os.chmod(f"{self.folder}/notify.yaml", 0o666)
        run = self.start("--notify", "notify.yaml", "--", ddp_test.PYTHON, "train.py", "1", "0")
        self.assertEqual(run.end(), 2)
        self.assertIn("chmod go-w notify.yaml", run.text())
        self.assertFalse(os.path.exists(f"{self.folder}/runs"))


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
