"""Models that transformers saves, loaded by the training engine, and the other way round.

usage: hugging_face_test.py TOOL VERSION

TOOL is training_hugging_face_tool. VERSION is a version that tools/pytorch_environment makes. The
test is skipped if its environment is not made, or lacks transformers.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT_S = 200
# Both sides compute in f32, but in different orders.
MOST_APART = 1e-5


def find_python():
    found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                            "--libraries", "--if-made"], capture_output=True, text=True)
    if found.returncode != 0:
        raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


class HuggingFace(unittest.TestCase):
    def setUp(self):
        self.python = find_python()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hugging-face-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_words(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=ROOT, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stderr[-3000:]}")
        return done.stdout

    def compare_logits(self, model):
        facts = json.loads((model / "logits.json").read_text())
        printed = self.run_words(sys.tool, "logits", model, *facts["tokens"])
        rows = [[float(word) for word in line.split()] for line in printed.splitlines()]
        self.assertEqual([len(row) for row in rows], [len(row) for row in facts["logits"]])
        apart = max(abs(a - b) for ours, theirs in zip(rows, facts["logits"])
                    for a, b in zip(ours, theirs))
        largest = max(abs(a) for row in rows for a in row)
        print(f"{model.name}: logits up to {largest:.2f}, at most {apart:.1e} apart")
        self.assertLessEqual(apart, MOST_APART)
        self.assertGreater(largest, 0.5)

    def test_transformers_and_the_engine_read_each_others_models(self):
        script = ROOT / "tests/training/hugging_face_models.py"
        self.run_words(self.python, "-B", script, "make", self.folder)
        models = sorted(self.folder.iterdir())
        self.assertGreater(len(models), 10)
        for model in models:
            with self.subTest(model.name):
                self.compare_logits(model)
            self.run_words(sys.tool, "save", model, f"{model}.saved")
        self.run_words(self.python, "-B", script, "compare", self.folder)


if __name__ == "__main__":
    sys.tool, sys.torch = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1])
