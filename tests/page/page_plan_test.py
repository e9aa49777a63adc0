"""The plan view of the web page in a real browser.

usage: page_plan_test.py FOLDER LONGHAUL LONGHAUL-TOOLS

A viewer may not plan. An operator plans a training on a real controller with the real planner,
chooses a layout and compares two plans. The page shows the reason why a value is refused, and why
no layout of a model fits. Then the operator cancels a search. What is shown is compared with `longhaul plan --json`. Skipped without Node, its
packages or Debian's Chromium.
"""
import json
import os
import subprocess
import tempfile

import page_scripts

import local_run


class Plan(page_scripts.PageTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="page-plan-")
        self.addCleanup(folder.cleanup)
        self.state = folder.name
        self.longhaul = self.programs[0]
        self.controller = subprocess.Popen(
            [self.longhaul, "controller", "--state-dir", self.state], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(self.controller.wait)
        self.addCleanup(self.controller.terminate)
        local_run.await_that(lambda: os.path.exists(f"{self.state}/endpoint.json"), "a controller")

    def ask(self, *words):
        done = subprocess.run(
            [self.longhaul, *words], capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "LONGHAUL_ENDPOINT": f"{self.state}/endpoint.json"})
        return done.stdout.strip()

    def planners(self):
        """Searches of this controller that run now."""
        listed = subprocess.run(["pgrep", "-P", str(self.controller.pid)], capture_output=True,
                                text=True)
        return listed.stdout.split()

    def test_trainings_are_planned_and_compared(self):
        addresses = [self.ask("page", "--role", role) for role in ("view", "operate")]
        planned = self.node("plan_training.mjs", self.chromium, *addresses, timeout=400)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        seen = json.loads(planned.stdout)
        self.assertEqual(seen["viewer"]["state"], "empty")
        self.assertIn("longhaul page --role operate", seen["viewer"]["text"])
        self.check_layouts(seen)
        self.assertIn("no layout key named 'tensr', did you mean 'tensor'?", seen["refused"])
        self.assertRegex(seen["obstacle"], "No layout is proposed.* fits the GPUs' memory")
        self.assertEqual(seen["address"], "#/plan")
        self.assertEqual(seen["cancelled"]["state"], "cancelled")
        self.assertLess(seen["cancelled"]["searched_seconds"], 60)
        local_run.await_that(lambda: not self.planners(), "the end of the search")
        self.assertEqual((seen["foreign"], seen["errors"], seen["accessibility"]), ([], [], []))

    def check_layouts(self, seen):
        result = json.loads(self.ask("plan", "gpt2", "h100-sxm:16", "--batch", "256", "--tokens",
                                     "300B", "--json"))
        self.assertIn("16 × h100-sxm: 256 sequences of 1,024 tokens", seen["summary"])
        self.assertIn("no other one is better", seen["summary"])
        self.assertEqual([row[1] for row in seen["layouts"]],
                         [layout["layout"] for layout in result["best"]])
        best = result["best"][0]
        self.assertEqual(seen["layouts"][0][2], f"{1e3 * best['step_seconds']:.0f} ms")
        self.assertEqual(seen["layouts"][0][-1], ", ".join(best["frameworks"]))
        self.assertEqual(seen["command"],
                         "$ longhaul plan gpt2 h100-sxm:16 --batch 256 --tokens 300B --fix "
                         f"{best['layout']}")
        self.assertIn(result["best"][1]["layout"], seen["secondCommand"])
        largest = max(best["breakdown_seconds"].items(), key=lambda part: part[1])
        self.assertEqual(seen["step"][0][0], largest[0].replace("_", " "))
        self.assertIn("weights", seen["memory"])
        self.assertEqual([row[0] for row in seen["influences"]],
                         [each["what"] for each in result["influences"]])
        self.assertEqual([row[3] for row in seen["compared"]], ["fp8", "none"])


if __name__ == "__main__":
    page_scripts.main()
