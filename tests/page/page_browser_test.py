"""The web page in a real browser.

usage: page_browser_test.py FOLDER LONGHAUL LONGHAUL-TRAINER

Follows `longhaul run` with an injected fault from the address that it prints, and compares what the
page shows with REST. Then tests the states of the page with a made-up server. Skipped without
Node, its packages or Debian's Chromium. With LONGHAUL_TEST_SCREENSHOTS=FOLDER it keeps its
screenshots there.
"""
import json
import os
import shutil
import subprocess
import tempfile

import page_scripts

import local_run

STEPS = 6_000  # more than the browser looks at
FAULT = "kill worker 1 at step 205"  # five steps after a snapshot


class Page(page_scripts.PageTest):
    def test_the_states_of_the_page(self):
        tested = self.node("--test", "states_test.mjs", timeout=400)
        self.assertEqual(tested.returncode, 0, tested.stdout[-6_000:] + tested.stderr[-2_000:])

    def test_a_run_with_a_fault_is_followed_live(self):
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            seen = self.follow(folder)
            kept = os.environ.get("LONGHAUL_TEST_SCREENSHOTS")
            if kept:
                for name in os.listdir(folder):
                    shutil.copy(f"{folder}/{name}", kept)
        self.check_access(seen)
        self.check_numbers(seen)
        self.check_curves(seen)
        self.check_time_and_ranks(seen["view"])
        self.check_cluster(seen["cluster"])
        self.check_fault(seen)
        self.assertEqual(seen["accessibilityLight"], [])
        self.assertEqual(seen["accessibilityDark"], [])
        self.assertEqual(seen["accessibilityCluster"], [])
        self.assertEqual(seen["accessibilityFault"], [])
        self.assertEqual(seen["accessibilityFaultDark"], [])
        self.assertEqual({name: panel["state"] for name, panel in seen["panels"].items()},
                         dict.fromkeys(seen["panels"], "live"))
        self.assertEqual(len(seen["panels"]), 9)

    def test_a_run_is_followed_to_its_end(self):
        lab = local_run.Lab(self.programs)
        try:
            run = lab.start("end", "--set", "train.steps=1000", "--inject", FAULT)
            address = self.address_of(run)
            follower = subprocess.Popen(
                ["node", "follow_to_end.mjs", self.chromium, address], cwd=self.packages,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            output, _ = run.communicate(timeout=120)
            seen, _ = follower.communicate(timeout=120)
            self.assertEqual((run.returncode, follower.returncode), (0, 0), output[-2_000:] + seen)
            self.check_report(lab)
            self.check_report_of_a_damaged_log(lab)
        finally:
            lab.close()
        self.assertEqual(json.loads(seen), {"shown": {
            "#fact-state": "succeeded", "#fact-step": "1,000 of 1,000", "#fact-faults": "1",
            "#connection": "ended"}, "state": "live", "errors": []})

    def open_report(self, file, *folder):
        opened = self.node("open_report.mjs", self.chromium, file, *folder, timeout=120)
        self.assertEqual(opened.returncode, 0, opened.stderr)
        seen = json.loads(opened.stdout)
        self.assertEqual(seen["accessibility"], [[], [], [], []])
        self.assertEqual((seen["errors"], seen["scripts"]), ([], 0))
        self.assertIn(seen["injected"], ("TypeError", "refused"))
        # Relative to the file there is nothing that it could load.
        self.assertEqual([url for url in seen["requests"] if url != "about:blank"], ["the report"])
        self.assertIn("MIT", seen["licences"])
        self.assertNotIn("map", seen["fault"], "a report has no cluster")
        return seen

    # Moved to another folder, as a file that was mailed.
    def check_report(self, lab):
        mailed = f"{lab.folder}/mailed.html"
        shutil.copy(f"{lab.folder}/runs/end/report.html", mailed)
        self.assertLess(os.path.getsize(mailed), 400_000)
        seen = self.open_report(mailed, *filter(None, [os.environ.get("LONGHAUL_TEST_SCREENSHOTS")]))
        self.assertEqual(seen["title"], "Longhaul: tiny-1")
        self.assertNotIn("missing", seen["run"])
        report = lab.report("end")
        self.assertIn("succeeded", seen["run"]["headline"]["text"])
        self.assertIn("1,000 of 1,000", seen["run"]["headline"]["text"])
        self.assertIn(f"{report['goodput'] * 100:.1f} %", seen["run"]["headline"]["text"])
        self.assertIn("equals the time of all ranks", seen["run"]["ledger"]["text"])
        self.assertIn("was ended by signal 9", seen["fault"]["fault-evidence"]["text"])
        self.assertIn("recovered in", seen["fault"]["fault"]["text"])

    # The run's folder without the event log, as after a copy of events.jsonl that was cut, with a
    # line of a newer version and texts that try to leave their element.
    def check_report_of_a_damaged_log(self, lab):
        folder = f"{lab.folder}/damaged"
        os.mkdir(folder)
        bad = "</script><script>globalThis.alerted = 1</script><img src=x onerror=alert(1)><!--"
        with open(f"{folder}/events.jsonl", "w") as file:
            for each in lab.notifications("end"):
                if "fault" in each:
                    each["fault"]["what"] = bad
                if each["type"] == "state" and each["state"]["state"] == "succeeded":
                    break
                file.write(json.dumps(each) + "\n")
            file.write(json.dumps({"at_ns": 1, "job_id": each["job_id"], "reshaped": {}}) + "\n")
            file.write(json.dumps(each)[:30])
        made = subprocess.run(
            [self.programs[0], "explain", folder, "--html", f"{folder}/page.html"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        seen = self.open_report(f"{folder}/page.html")
        for note in ("The last line of events.jsonl is cut off", "1 entry of the log has a kind",
                     "There is no event log here", "The run has no report"):
            self.assertIn(note, seen["run"]["missing"]["text"])
        self.assertIn("running", seen["run"]["headline"]["text"])
        self.assertIn("does not have the shares", seen["run"]["ledger"]["text"])
        self.assertIn(bad, seen["fault"]["fault"]["text"])

    def follow(self, folder):
        lab = local_run.Lab(self.programs)
        try:
            run = lab.start("page", "--set", f"train.steps={STEPS}", "--inject", FAULT)
            address = self.address_of(run)
            followed = self.node("follow_run.mjs", self.chromium, address, folder, timeout=200)
            run.terminate()
            output, _ = run.communicate(timeout=90)
            self.assertEqual(followed.returncode, 0, followed.stderr + output[-2_000:])
            secret = address.split("#t=")[1]
            self.assertNotIn(secret, json.dumps(lab.notifications("page")), "in events.jsonl")
            seen = json.loads(followed.stdout)
            explained = subprocess.run(
                [self.programs[0], "explain", f"{lab.folder}/runs/page", "--fault", "1", "--json"],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(explained.returncode, 0, explained.stderr)
            seen["explained"] = json.loads(explained.stdout)["faults"][0]
            return seen
        finally:
            lab.close()

    def address_of(self, run):
        lines = []
        for _ in range(2):  # the name of the run may come before it
            lines.append(run.stdout.readline())
            if lines[-1].startswith("page: "):
                return lines[-1].split()[1]
        self.fail(f"no address in the first lines: {lines}")

    def check_access(self, seen):
        self.assertNotIn("t=", seen["hash"], "the link stays in the address")
        self.assertEqual(seen["cookieForScripts"], "")
        self.assertIn("was used before", seen["secondUse"])
        self.assertEqual(seen["foreign"], [], "requests of other origins")
        self.assertEqual(seen["errors"], [])

    # `before` was read before the page's newest refresh, and `after` later.
    def check_numbers(self, seen):
        before, shown, after = seen["before"], seen["shown"], seen["after"]
        step = int(shown["step"].split(" of ")[0].replace(",", ""))
        self.assertLessEqual(before["step"], step)
        self.assertLessEqual(step, after["step"])
        self.assertTrue(shown["step"].endswith(f" of {STEPS:,}"), shown["step"])
        self.assertEqual(int(shown["faults"]), len(after["faults"]))
        self.assertEqual(shown["costs"],
                         [fault["lost_rank_seconds"] for fault in after["faults"]][::-1])
        self.assertEqual(shown["nodes"], after["gang"])
        self.assertGreater(after["faults"][0]["lost_steps"], 0)
        self.assertIn(after["faults"][0]["what"], seen["panels"]["faults"]["text"])
        least, most = (
            {each["category"].replace("_", " "): each["rank_seconds"]
             for each in status["ledger"]["categories"]} for status in (before, after))
        self.assertIn("productive", shown["ledger"])
        for category, seconds in shown["ledger"].items():
            self.assertGreaterEqual(seconds, least[category] - 1e-9, category)
            self.assertLessEqual(seconds, most[category] + 1e-9, category)
        self.assertIn("equals the time of all ranks", seen["panels"]["ledger"]["text"])

    def check_cluster(self, cluster):
        self.assertEqual(cluster["places"], cluster["queues"])
        self.assertIn(f"{len(cluster['nodes'])} nodes: ", cluster["summary"])
        self.assertIn(f"{cluster['nodes'].count('ready')} ready", cluster["summary"])
        self.assertRegex(cluster["inUse"], r"^[0-9.]+ %$")

    def check_fault(self, seen):
        self.assertTrue(seen["faultHash"].endswith("/faults"), seen["faultHash"])
        shown = {name: panel["text"] for name, panel in seen["faultPanels"].items()}
        explained = seen["explained"]
        self.assertTrue(explained["observations"], explained)
        for moment in explained["observations"]:
            self.assertIn(moment["text"], shown["fault-evidence"])
        for line in explained["output"]:
            self.assertIn(line, shown["fault-evidence"])
        for moment in explained["actions"]:
            self.assertIn(moment["text"], shown["fault-story"])
        for key in ("cause", "detector"):
            self.assertIn(explained[key], shown["fault-story"])
        self.assertIn(explained["what"], shown["fault"])
        self.assertIn(f"{explained['lost_steps']} steps", shown["fault"])
        states = dict(seen["faultStages"])
        for stage in ("Detection", "Diagnosis and decision", "Restart", "Restore", "First step",
                      "Steps done again"):
            self.assertEqual(states[stage], "done", seen["faultStages"])

    # Of one moment: the ledger over time has the sums of the ledger, with the fault in the past.
    def check_time_and_ranks(self, view):
        spent = view["spent_time"]
        over_time = {each["category"]: sum(each["rank_seconds"]) for each in spent["categories"]}
        self.assertIn("lost_work", over_time)
        for each in view["ledger"]["categories"]:
            self.assertAlmostEqual(over_time.get(each["category"], 0), each["rank_seconds"],
                                   delta=1e-4 * view["ledger"]["rank_seconds"])
        work = view["rank_work"]
        self.assertEqual((work["ranks"], work["ranks_per_group"]), (4, 1))
        self.assertEqual(work["slowest"], [0, 1, 2, 3])
        self.assertGreater(work["median_us"], 0)
        self.assertEqual({len(column) for column in work["columns"]}, {8})
        self.assertGreater(view["series"]["flops_per_second"]["last"][-1], 0)
        self.assertGreater(view["run"]["peak_flops_per_second"], 0)
        self.assertGreater(view["run"]["predicted_step_seconds"], 0)
        self.assertEqual(view["run"]["ranks"], 4)

    def check_curves(self, seen):
        followed, loaded = seen["lossFollowed"], seen["lossLoaded"]
        common = sorted(set(followed) & set(loaded))
        self.assertGreater(len(common), 15)
        self.assertEqual({key: followed[key] for key in common},
                         {key: loaded[key] for key in common})


if __name__ == "__main__":
    page_scripts.main()
