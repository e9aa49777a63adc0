"""`longhaul profile` as a user runs it: foreign files in a folder, and classes of kernels.

usage: profile_command_test.py LONGHAUL
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest


def trace(rank):
    """A rank's trace of a product, a kernel of the house, and a sum of all ranks."""
    kernels = [("gemm", 7, 0, 40), ("house_exchange", 9, 40, 20),
               ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9, 60, 10)]
    return {"distributedInfo": {"rank": rank, "world_size": 2},
            "traceEvents": [{"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream,
                             "ts": begin, "dur": length}
                            for name, stream, begin, length in kernels]}


class Profile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="profile-command-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def run_profile(self, *arguments):
        return subprocess.run([LONGHAUL, "profile", *arguments], capture_output=True, text=True,
                              check=False)

    def test_a_foreign_file_in_a_folder_is_named_and_skipped(self):
        self.write("rank-0.json", trace(0))
        self.write("rank-1.json", trace(1))
        foreign = self.write("device.json", "{}")
        for arguments in ([self.folder], ["--json", self.folder], ["--as-hta", self.folder]):
            done = self.run_profile(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("device.json holds no trace", done.stdout + done.stderr)
        done = self.run_profile(self.folder, foreign)
        self.assertEqual(done.returncode, 1)
        self.assertIn("device.json holds no trace", done.stderr)

    def test_a_folder_of_foreign_files_is_an_error_that_names_them(self):
        self.write("a.json", "{}")
        self.write("b.json", "[1, 2]")
        for arguments in ([self.folder], ["--as-hta", self.folder]):
            done = self.run_profile(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn("none of the 2 files looked at holds a trace", done.stderr)
            self.assertIn("a.json", done.stderr)
            self.assertIn("b.json", done.stderr)

    def test_waiting_of_one_rank_alone_is_unknown(self):
        path = self.write("rank-0.json", trace(0))
        self.assertIn("Waiting:  unknown: it needs the traces of the other ranks",
                      self.run_profile(path).stdout)
        report = json.loads(self.run_profile("--json", path).stdout)
        row = report["ranks"][0]["ledger"]["communication_us"]["world"]
        self.assertIsNone(row["exposed_wait"])
        self.assertEqual(row["unknown_because"], "it needs the traces of the other ranks")

    def test_kernels_have_the_classes_of_the_users_file(self):
        path = self.write("rank-0.json", trace(0))

        def exposed(*arguments):
            report = json.loads(self.run_profile("--json", path, *arguments).stdout)
            return report["ranks"][0]["ledger"]["spent_us"]["exposed communication"]

        self.assertAlmostEqual(exposed(), 10)
        own = self.write("kernels.txt", "# ours\n^house_ = communication expert\n")
        self.assertAlmostEqual(exposed("--kernels", own), 30)
        bad = self.write("bad.txt", "^house_ = communication\ngemm = fast\n")
        done = self.run_profile(path, "--kernels", bad)
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad.txt:2: unknown class fast, expected one of matrix-product", done.stderr)


if __name__ == "__main__":
    LONGHAUL = sys.argv.pop(1)
    unittest.main()
