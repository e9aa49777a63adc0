"""tools/pytorch_environment makes an environment once, completely, and keeps it.

Python, venv and pip are a stand-in that writes down how it was called, so that nothing is
downloaded.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent / "pytorch_environment"
STAND_IN = r"""#!/bin/bash
echo "$*" | head -1 >>"$CALLS"
site=$(dirname "$0")/../lib/python3.11/site-packages
case "$1 $2" in
  "-m venv")
    [[ -e $3 ]] && exit 3
    lib=$3/lib/python3.11/site-packages/nvidia/cublas/lib
    mkdir -p "$3/bin" "$lib"
    cp "$0" "$3/bin/python"
    echo used >"$lib/used.so.12"
    echo unused >"$lib/unused.so.12"
    ;;
  "-m pip")
    sleep "${SLOW:-0}"
    [[ -z ${FAILS:-} ]] || { echo "ERROR: no such version" >&2; exit 1; }
    ;;
  "-c "*metadata*)
    echo 'jinja2'
    echo 'cuda-toolkit[cublas,cusolver]==13.2.2; platform_system == "Linux"'
    echo 'nvidia-cusolver-cu12 (==11.4)'
    echo 'triton~=3.9'
    ;;
  "-c "*) echo "2.15.0"; realpath "$site/nvidia/cublas/lib/used.so.12" ;;
esac
"""


class PytorchEnvironment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        self.python = self.top / "python"
        self.python.write_text(STAND_IN)
        self.python.chmod(0o755)
        self.calls = self.top / "calls"
        self.calls.write_text("")

    def start(self, *words, **environment):
        return subprocess.Popen(
            [sys.executable, "-B", TOOL, *words, "--python", self.python], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "XDG_CACHE_HOME": str(self.top / "cache"), "CALLS": str(self.calls),
                 **environment})

    def run_tool(self, *words, **environment):
        child = self.start(*words, **environment)
        output, error = child.communicate(timeout=60)
        return child.returncode, output, error

    def called(self, what):
        return [line for line in self.calls.read_text().splitlines() if what in line]

    def folder(self, version="2.15"):
        return self.top / "cache" / "longhaul" / f"pytorch-{version}"

    def test_it_is_made_once_and_its_python_is_printed(self):
        want = (0, f"{self.folder()}/bin/python\n")
        self.assertEqual(self.run_tool("2.15")[:2], want)
        self.assertEqual(self.run_tool("2.15"), (*want, ""))
        self.assertEqual(len(self.called("venv")), 1)
        self.assertTrue(self.called("torch==2.15.*"))

    def test_what_an_import_does_not_load_is_left_out(self):
        self.run_tool("2.15.0")
        [line] = self.called("numpy")
        self.assertTrue(line.endswith(
            'numpy jinja2 cuda-toolkit[cublas]==13.2.2; platform_system == "Linux"'), line)
        names = [path.name for path in self.folder("2.15.0").rglob("*.so.12")]
        self.assertEqual(names, ["used.so.12"])

    def test_an_interrupted_environment_is_made_again(self):
        code, output, error = self.run_tool("2.15", FAILS="1")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("ERROR: no such version (log: ", error.splitlines()[-1])
        code, _, error = self.run_tool("2.15")
        self.assertEqual(code, 0, error)
        self.assertIn("is not complete; it is made again", error)

    def test_two_at_once_make_it_once(self):
        children = [self.start("2.15", SLOW="0.3") for _ in range(2)]
        outputs = [child.communicate(timeout=60)[0] for child in children]
        self.assertEqual(outputs, [f"{self.folder()}/bin/python\n"] * 2)
        self.assertEqual(len(self.called("venv")), 1)

    def test_wrong_use_names_the_value_and_what_is_expected(self):
        for version in ("2.3", "1.13.1", "newest", "2"):
            code, _, error = self.run_tool(version)
            self.assertEqual(code, 2)
            self.assertIn(f"VERSION is '{version}', expected a release", error)

    def test_libraries_are_added_once_and_again_when_an_addition_failed(self):
        self.run_tool("2.15")
        code, _, error = self.run_tool("2.15", "--if-made", "--libraries")
        self.assertEqual(code, 1)
        self.assertIn("lacks the libraries, or has other versions: add them with "
                      "tools/pytorch_environment 2.15 --libraries", error)
        self.assertEqual(self.run_tool("2.15", "--libraries", FAILS="1")[0], 1)
        for _ in range(2):
            code, output, error = self.run_tool("2.15", "--libraries")
            self.assertEqual((code, output), (0, f"{self.folder()}/bin/python\n"), error)
        self.assertEqual(self.run_tool("2.15", "--if-made", "--libraries")[0], 0)
        lines = self.called("libraries/pytorch-2.6.txt")
        self.assertEqual(len(lines), 2)  # the failed one and one more
        self.assertIn("--no-deps --requirement", lines[0])
        self.assertEqual(len(self.called("venv")), 1)

    def test_an_older_pytorch_gets_its_own_libraries(self):
        self.assertEqual(self.run_tool("2.4.1", "--libraries")[0], 0)
        self.assertEqual(len(self.called("libraries/pytorch-2.4.txt")), 1)

    def test_if_made_makes_nothing(self):
        code, output, error = self.run_tool("2.15", "--if-made")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("is not made: make it with tools/pytorch_environment 2.15", error)
        self.assertEqual(self.called(""), [])
        self.run_tool("2.15")
        self.assertEqual(self.run_tool("2.15", "--if-made")[0], 0)


if __name__ == "__main__":
    unittest.main()
