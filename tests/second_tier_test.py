"""Checkpoints on the second tier: a run copies them there, and continues from there when its disk is
gone or damaged.

usage: second_tier_test.py LONGHAUL LONGHAUL-TRAINER LONGHAUL-TOOLS

With LONGHAUL_S3_BUCKET (and AWS_ENDPOINT_URL and keys) the store is a real one instead of
tests/s3_server.py: what is damaged in it then is left out.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

import local_run
import s3_server

SECRET = "a secret that nobody must see/+="
REAL = os.environ.get("LONGHAUL_S3_BUCKET")


class SecondTier(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab(sys.argv_programs)
        self.addCleanup(self.lab.close)
        self.folder = self.lab.folder

    def run_it(self, name, to, *more, code=0):
        run = self.lab.start(name, "--set", f"snapshot.copy_to={to}", *more)
        output, _ = run.communicate(timeout=120)
        self.assertEqual(run.returncode, code, output)
        return output

    def command(self, *words, code=0):
        done = subprocess.run(["./longhaul", "checkpoint", *words], cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def steps(self, where):
        listed = json.loads(self.command("ls", where, "--json"))
        return [one["step"] for one in listed["checkpoints"]]

    def restored(self, name):
        """Tier and step of each attempt's restore, and the messages."""
        notifications = self.lab.notifications(name)
        return ([(one["attempt"]["restore"]["tier"], one["attempt"]["restore"]["step"])
                 for one in notifications if one["type"] == "attempt"],
                [one["message"]["text"] for one in notifications if one["type"] == "message"])

    def lose(self, name):
        """The machine is lost: what the run wrote is gone."""
        shutil.rmtree(f"{self.folder}/runs/{name}")

    def test_a_shared_directory_brings_a_run_back(self):
        to = f"{self.folder}/shared"
        self.run_it("one", to)
        self.assertEqual(self.steps(f"{to}/one")[0], 30)
        self.assertIn("good:", self.command("verify", f"{to}/one"))
        self.assertIn(" 0 values differ", self.command("diff", f"{to}/one", "runs/one"))
        weights = self.lab.report("one")["results"]["weights_hash"]
        # A fresh run would mix with what is there.
        self.lose("one")
        refused = self.run_it("one", to, code=1)
        self.assertIn("holds checkpoints of an earlier run, up to step 30", refused)
        # The newest copy is damaged: found while it is brought back, and the one before serves.
        newest = max(os.listdir(f"{to}/one"))
        shard = f"{to}/one/{newest}/rank-00000-of-00004.safetensors"
        with open(shard, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-20, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        before = self.steps(f"{to}/one")[1]
        self.lose("one") if os.path.exists(f"{self.folder}/runs/one") else None
        self.run_it("one", to, "--resume")
        attempts, messages = self.restored("one")
        self.assertEqual(attempts, [("tier_shared", 30), ("tier_shared", before)])
        self.assertTrue(any("has come back from" in text for text in messages), messages)
        self.assertEqual(self.lab.report("one")["results"]["weights_hash"], weights)

    def test_a_packed_copy_brings_a_run_back(self):
        to = f"{self.folder}/packed"
        self.run_it("three", f"zstd:{to}", "--set", "snapshot.keep=2")
        weights = self.lab.report("three")["results"]["weights_hash"]
        there = f"{to}/three"
        newest = f"{there}/{max(os.listdir(there))}"
        self.assertEqual([name for name in os.listdir(newest) if name != "MANIFEST"],
                         ["rank-00000-of-00004.safetensors.zst"])
        # The step that is being copied when step 30 is committed stays, too.
        self.assertIn(self.steps("runs/three"), ([30, 20], [30, 20, 10]))
        # Of the checkpoints before the newest, those that came while another was copied are skipped.
        self.assertIn(self.steps(there), ([30, 20], [30, 10], [30]))
        self.assertIn("good:", self.command("verify", there))
        self.assertIn("step 30", self.command("show", there))
        self.assertIn(" 0 values differ", self.command("diff", there, "runs/three"))
        self.command("convert", there, "model.safetensors")
        self.assertIn("tensors are equal", self.command("diff", "model.safetensors", there))
        plans = [json.loads(self.command("plan", where, "--layout", "tp=2", "--json"))
                 for where in (there, "runs/three")]
        self.assertEqual(plans[0]["readers"], plans[1]["readers"])
        self.lose("three")
        self.run_it("three", f"zstd:{to}", "--resume")
        self.assertEqual(self.restored("three")[0], [("tier_shared", 30)])
        self.assertEqual(self.lab.report("three")["results"]["weights_hash"], weights)
        self.assertIn("good:", self.command("verify", "runs/three"))

    def test_an_object_store_brings_a_run_back(self):
        if not REAL:
            store = s3_server.serve_for(self, SECRET)
        to = f"s3://{REAL or 'models'}/some prefix/ü"
        name = os.path.basename(self.folder)
        self.run_it(name, to, "--set", "snapshot.keep=2")
        # Two are kept: the newest, and the last one that was copied before it.
        kept = self.steps(f"{to}/{name}")
        self.assertIn(kept, ([30, 20], [30, 10]))
        self.assertIn("good:", self.command("verify", f"{to}/{name}"))
        self.assertIn("step 30", self.command("show", f"{to}/{name}"))
        self.assertIn(" 0 values differ", self.command("diff", f"runs/{name}", f"{to}/{name}"))
        self.command("convert", f"{to}/{name}", "from-store.pt")
        self.assertIn("tensors are equal", self.command("diff", f"{to}/{name}", "from-store.pt"))
        self.assertIn("writes files and folders of the machine",
                      self.command("convert", "from-store.pt", f"{to}/x.pt", code=2))
        weights = self.lab.report(name)["results"]["weights_hash"]
        if not REAL:
            self.assertEqual((store.refused, store.uploads), (0, {}))
            shown = subprocess.run(["grep", "-rlF", SECRET, "."], cwd=self.folder,
                                   capture_output=True, text=True)
            self.assertEqual(shown.stdout, "", "the secret was written somewhere")
            os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
            refused = self.run_it("other", to, code=1)
            self.assertIn("SignatureDoesNotMatch", refused)
            self.assertNotIn(SECRET, refused)
            os.environ["AWS_SECRET_ACCESS_KEY"] = SECRET
            key = next(key for key in store.objects if "step-000000030" in key and "rank" in key)
            store.objects[key] = store.objects[key][:-5] + b"12345"
        self.lose(name)
        self.run_it(name, to, "--resume")
        attempts, _ = self.restored(name)
        self.assertEqual(attempts, [("tier_shared", 30)] if REAL else
                         [("tier_shared", step) for step in kept])
        self.assertEqual(self.lab.report(name)["results"]["weights_hash"], weights)

    def test_a_place_that_cannot_be_is_refused_before_the_run(self):
        os.mkdir(f"{self.folder}/shared")
        with open(f"{self.folder}/shared/one", "w") as file:
            file.write("a file where a directory should be")
        output = self.run_it("two", f"{self.folder}/shared/one/deeper", code=2)
        self.assertIn("snapshot.copy_to", output)
        self.assertIn("not a directory", output)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
