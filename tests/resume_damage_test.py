"""A run is resumed while its newest checkpoints are damaged: each is named, and what is lost.

usage: resume_damage_test.py LONGHAUL LONGHAUL-TRAINER LONGHAUL-TOOLS
"""
import os
import subprocess
import sys
import unittest

import local_run

SHARD = "rank-00000-of-00004.safetensors"


class ResumeDamage(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab(PROGRAMS)
        self.addCleanup(self.lab.close)
        for steps, resume in ((10, ()), (20, ("--resume",)), (30, ("--resume",))):
            self.go_on(steps, *resume)
        self.checkpoints = f"{self.lab.folder}/runs/one/checkpoints"

    def go_on(self, steps, *options):
        return self.lab.run("one", "--set", f"train.steps={steps}", "--set", "snapshot.keep=9",
                            *options)

    def steps(self):
        return {int(name[5:14]): f"{self.checkpoints}/{name}"
                for name in os.listdir(self.checkpoints) if name.startswith("step-")}

    def flip(self, path):
        with open(path, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-20, os.SEEK_END)
            file.write(bytes([byte ^ 1]))

    def warnings(self):
        return [notification["message"]["text"] for notification in self.lab.notifications("one")
                if notification["type"] == "message" and notification["message"].get("severity") == "warning"]

    def test_the_damaged_steps_and_the_lost_ones_are_named(self):
        steps = self.steps()
        self.assertEqual(sorted(steps), [10, 20, 30], os.listdir(self.checkpoints))
        self.flip(f"{steps[30]}/{SHARD}")
        self.flip(f"{steps[20]}/MANIFEST")
        names = {step: os.path.basename(path) for step, path in steps.items()}
        self.go_on(40, "--resume")
        reported = "\n".join(self.warnings())
        for step in (30, 20):
            self.assertIn(f"checkpoint {names[step]} is damaged (", reported)
            self.assertIn(f"is now named damaged-{names[step]}", reported)
        self.assertIn("20 steps of training lost: the newest checkpoint, of step 30, is damaged, and "
                      "the run continues after step 10", reported)
        attempts = [notification["attempt"] for notification in self.lab.notifications("one") if notification["type"] == "attempt"]
        self.assertEqual(attempts[-1]["restore"]["step"], 10)
        in_report = "\n".join(row["text"] for row in self.lab.report("one")["warnings"])
        self.assertIn("20 steps of training lost", in_report)
        self.assertEqual(max(self.steps()), 40)

    def test_a_run_with_damaged_checkpoints_alone_never_starts_afresh(self):
        steps = self.steps()
        for path in steps.values():
            self.flip(f"{path}/MANIFEST")
        for _ in range(2):  # the same at the second try
            run = self.lab.start("one", "--resume", "--set", "train.steps=40")
            output, _ = run.communicate(timeout=60)
            self.assertNotEqual(run.returncode, 0, output)
            self.assertIn("no checkpoint in", output)
            for path in steps.values():
                self.assertIn(os.path.basename(path), output)
        self.assertEqual(self.steps(), steps)
        verify = subprocess.run(["./longhaul", "checkpoint", "verify", "runs/one"], text=True,
                                cwd=self.lab.folder, capture_output=True)
        self.assertEqual(verify.returncode, 1, verify.stdout)
        self.assertIn("3 of 3 steps in runs/one/checkpoints are damaged", verify.stdout)


if __name__ == "__main__":
    PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
    del sys.argv[1:4]
    unittest.main()
