"""cmake/torch_of_python.py finds the PyTorch of an interpreter, or gives the reason and the remedy.

The interpreters of tools/pytorch_environment are used where they are made. A package with the few
attributes that are read takes the place of versions that no environment has.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
PROBE = FOLDER / "torch_of_python.py"
ENVIRONMENT = FOLDER.parent / "tools/pytorch_environment"
REMEDY = "use the Python that tools/pytorch_environment 2.15 prints"


def probe(python):
    return subprocess.run([sys.executable, "-B", PROBE, python], capture_output=True, text=True,
                          check=False)


class TorchOfPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, python):
        """The one line with which an interpreter is refused."""
        done = probe(python)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(str(python), done.stderr)
        self.assertIn(REMEDY, done.stderr)
        return done.stderr

    def python_with(self, version=None, new_abi=True):
        """An interpreter of its own whose torch, if any, has only these attributes."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder], check=True)
        if version is not None:
            package = next(self.folder.glob("lib/python*/site-packages")) / "torch"
            package.mkdir()
            (package / "__init__.py").write_text(
                f"__version__ = {version!r}\n\ndef compiled_with_cxx11_abi():\n"
                f"    return {new_abi}\n")
        return self.folder / "bin" / "python"

    def made(self, version):
        """The Python of an environment that was made before."""
        done = subprocess.run([sys.executable, "-B", ENVIRONMENT, version, "--if-made"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(done.stderr.strip())
        return done.stdout.strip()

    def test_the_version_and_the_folder_are_printed(self):
        done = probe(self.made("2.15"))
        self.assertEqual(done.returncode, 0, done.stderr)
        version, folder = done.stdout.strip().split(";")
        self.assertTrue(version.startswith("2.15."), version)
        self.assertTrue((pathlib.Path(folder) / "lib/libtorch_cpu.so").is_file(), folder)

    def test_the_older_abi_of_a_wheel_is_refused(self):
        self.assertIn("_GLIBCXX_USE_CXX11_ABI=0", self.refused(self.made("2.4")))

    def test_an_absent_interpreter_is_refused(self):
        self.assertIn("cannot be run (No such file or directory)",
                      self.refused(self.folder / "python"))

    def test_an_interpreter_without_torch_is_refused(self):
        self.assertIn("No module named 'torch'", self.refused(self.python_with()))

    def test_an_older_version_is_refused(self):
        self.assertIn("is 2.3.1, expected at least 2.4", self.refused(self.python_with("2.3.1")))

    def test_a_version_without_headers_is_refused_with_the_missing_file(self):
        refused = self.refused(self.python_with("2.9.0"))
        self.assertIn("site-packages/torch/include/ATen/ATen.h", refused)

    def test_a_call_without_an_interpreter_is_wrong_usage(self):
        done = subprocess.run([sys.executable, "-B", PROBE], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cmake/torch_of_python.py PYTHON", done.stderr)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    unittest.main()
