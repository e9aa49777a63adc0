"""The wheel and tools/hardware_check on a minimal Debian without Longhaul's Debian packages.

usage: other_system_test.py BUILD_FOLDER

The system has python3 with venv, no compiler and no network. Runs with LONGHAUL_TEST_SYSTEM=1 only:
it needs root, mmdebstrap, a Debian mirror, the tools of `tools/package wheel`, and two minutes more
where the environment of `tools/pytorch_environment 2.15` was made.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import chroot

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/hardware"))
from parts import PARTS  # noqa: E402
LIMIT_S = 600
MIRROR = "http://deb.debian.org/debian"
TRAIN = """
import os, time
import longhaul
for step in range(1, 11):
    time.sleep(0.01)
    longhaul.report(step)
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
"""
USE = """
! command -v gcc
! dpkg-query -W libgrpc++1.51 2>/dev/null
python3 -m venv /tmp/venv
cd /tmp
venv/bin/pip install --quiet --no-index --disable-pip-version-check /wheel/longhaul-*.whl
PATH=/tmp/venv/bin:$PATH longhaul run --nodes 2 --procs 2 -- python /train/train.py
"""


def run(*words):
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words[0]} exited with {done.returncode}:\n{done.stderr}")
    return done.stdout


class OtherSystemTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := chroot.reason_to_skip("LONGHAUL_TEST_SYSTEM", "make a minimal Debian system"):
            raise unittest.SkipTest(reason)
        temporary = tempfile.TemporaryDirectory(prefix="other-system-test-")
        cls.addClassCleanup(temporary.cleanup)
        top = pathlib.Path(temporary.name)
        run(sys.executable, "-B", ROOT / "tools/package", "wheel", "--build", sys.build,
            "--output", top / "wheel")
        cls.root = top / "root"
        run("mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv",
            "bookworm", cls.root, MIRROR)
        (top / "train").mkdir()
        (top / "train/train.py").write_text(TRAIN)
        cls.folders = [(top / "wheel", "/wheel"), (top / "train", "/train"),
                       (ROOT / "tools", "/tools")]

    def enter(self, *command, folders=()):
        return chroot.run(self.root, ["PATH=/usr/bin:/bin", "HOME=/tmp", *command],
                          folders=[*self.folders, *folders], timeout=LIMIT_S)

    def check(self, make_python, python, folders=()):
        """The result of each part of the hardware check: its name and the text behind it."""
        script = (f"{make_python}\npython3 -B /tools/hardware_check --wheel /wheel/longhaul-*.whl "
                  f"--python {python} --output /tmp/out")
        done = self.enter("sh", "-euc", script, folders=folders)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return dict(line.split(" ... ", 1) for line in done.stdout.splitlines() if " ... " in line)

    def test_a_script_runs_from_the_wheel_in_an_empty_virtual_environment(self):
        done = self.enter("sh", "-euc", USE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4", done.stdout)

    def test_parts_without_pytorch_name_what_is_missing(self):
        parts = self.check("python3 -m venv /tmp/venv", "/tmp/venv/bin/python3")
        for name, text in parts.items():
            if name in ("install", "recovery"):
                self.assertTrue(text.startswith("passed"), f"{name}: {text}")
            else:
                self.assertRegex(text, r"^not applicable .*has no PyTorch", name)
        self.assertEqual(sorted(parts), sorted(PARTS))

    def test_with_pytorch_of_pypi_parts_pass_or_need_a_gpu(self):
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", "2.15",
                                "--if-made"], text=True, capture_output=True, check=False)
        if found.returncode != 0:
            self.skipTest("tools/pytorch_environment 2.15 was not made")
        python = pathlib.Path(found.stdout.strip())
        environment = python.parents[1]
        parts = self.check("true", python, folders=[(environment, environment)])
        for name in ("install", "recovery", "ddp", "fsdp2", "snapshots"):
            self.assertTrue(parts[name].startswith("passed"), f"{name}: {parts[name]}")
        for name in ("calibrate", "profile", "plan"):
            self.assertRegex(parts[name], "^not applicable .*no NVIDIA GPU", name)


if __name__ == "__main__":
    sys.build = os.path.abspath(sys.argv.pop(1))
    unittest.main()
