"""The acts of the web page in a real browser.

usage: page_acts_test.py FOLDER LONGHAUL LONGHAUL-TRAINER

An operator cordons and uncordons a node and stops a run on a real controller; a viewer may do
neither. Then tests the states of an act with a made-up server. Skipped without Node, its packages
or Debian's Chromium.
"""
import json
import os
import subprocess

import page_scripts

import local_run

FOREVER = 1_000_000  # steps; the test stops the run
ACTS = ("/cordon", "/uncordon", "/stop")
CLUSTER = "runs/acts/cluster"


class Acts(page_scripts.PageTest):
    def test_the_states_of_an_act(self):
        tested = self.node("--test", "acts_test.mjs", timeout=300)
        self.assertEqual(tested.returncode, 0, tested.stdout[-6_000:] + tested.stderr[-2_000:])

    def test_acts_on_a_real_controller(self):
        lab = local_run.Lab(self.programs)
        self.addCleanup(lab.close)
        run = lab.start("acts", "--set", f"train.steps={FOREVER}")
        local_run.await_that(lambda: lab.last_step("acts") > 20, "20 steps")
        seen = self.act(lab)
        output, _ = run.communicate(timeout=90)
        audit = self.audit(lab)
        self.check_viewer(seen)
        self.assertEqual(seen["foreignOrigin"], [403, 403, 403])
        self.assertEqual(seen["cordoned"], ["The node is cordoned.", "cordoned"])
        self.assertEqual(seen["uncordoned"], ["The node is ready.", "ready"])
        self.check_submit(seen, audit)
        self.check_stop(seen, audit)
        last = lab.notifications("acts")[-1]
        self.assertEqual(last["state"]["state"], "stopped", output[-2_000:])
        self.assertEqual((seen["foreign"], seen["errors"], seen["accessibility"]), ([], [], []))

    def act(self, lab):
        viewer = self.address(lab, "view")
        administrator = self.address(lab, "administer")
        acted = self.node("act_on_cluster.mjs", self.chromium, viewer, administrator, timeout=200)
        self.assertEqual(acted.returncode, 0, acted.stderr)
        return json.loads(acted.stdout)

    def address(self, lab, role):
        printed = subprocess.run(
            ["./longhaul", "page", "--role", role], cwd=lab.folder, capture_output=True, text=True,
            env={**os.environ, "LONGHAUL_ENDPOINT": f"{lab.folder}/{CLUSTER}/endpoint.json"},
            timeout=60)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        return printed.stdout.strip()

    @staticmethod
    def audit(lab):
        with open(f"{lab.folder}/{CLUSTER}/audit.log") as file:
            return [json.loads(line) for line in file]

    def check_viewer(self, seen):
        self.assertEqual(seen["session"]["role"], "view")
        self.assertEqual(seen["viewerButtons"], 0)
        self.assertEqual(seen["viewerForged"], [403, 403])

    def check_submit(self, seen, audit):
        self.assertIn("longhaul submit job.yaml", seen["submitted"]["question"])
        self.assertEqual(seen["submitted"]["outcome"], "Submitted: more-1.")
        self.assertEqual(seen["submitted"]["hash"], "#/run/more-1", "the new run is shown")
        self.assertRegex(seen["refused"]["outcome"], "^Refused: .*job.yaml:2: comand: unknown key")
        self.assertEqual(seen["refused"]["hash"], "#/plan")
        submitted = [(entry["object"], entry["role"]) for entry in audit
                     if entry["status"] == 201 and entry["did"] == "POST /v1/jobs"]
        self.assertIn(("more-1", "administer"), submitted)

    def check_stop(self, seen, audit):
        status, answer = seen["stale"]
        self.assertEqual((status, answer["error"]["code"]), (409, "aborted"), answer)
        self.assertIn("has changed since the event that was seen", answer["error"]["message"])
        self.assertEqual(seen["state"], "running", "a stale request has stopped nothing")
        self.assertRegex(seen["question"], r"A stop loses (no|[\d,]+) steps?\b.* of step [\d,]+")
        self.assertIn(f"longhaul stop {seen['id']}", seen["question"])
        self.assertEqual(seen["phase"], "done", seen["stopped"])
        done = [(entry["did"], entry["object"], entry["who"], entry["role"]) for entry in audit
                if entry["status"] == 200 and entry["did"].endswith(ACTS)]
        name = seen["session"]["name"]
        self.assertEqual(done, [
            ("POST /v1/nodes/{name}/cordon", seen["node"], name, "administer"),
            ("POST /v1/nodes/{name}/uncordon", seen["node"], name, "administer"),
            ("POST /v1/jobs/{id}/stop", seen["id"], name, "administer")])


if __name__ == "__main__":
    page_scripts.main()
