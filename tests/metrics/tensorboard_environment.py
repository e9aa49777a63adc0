"""TensorBoard of PyPI, in a virtual environment that is kept between runs."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tools/packaging")
from kept_environment import Failure, default_folder, ensure, pip_install, run  # noqa: E402

RELEASE = "tensorboard==2.21.0"


def _make(folder, log):
    run([sys.executable, "-m", "venv", str(folder)], log)
    run(pip_install(str(folder / "bin" / "python"), RELEASE), log)
    return RELEASE


def python_or_skip():
    """The path of a Python that has TensorBoard."""
    folder = default_folder(RELEASE.replace("==", "-"))
    try:
        ensure(folder, _make, "tensorboard_test")
    except Failure as failure:
        raise unittest.SkipTest(str(failure)) from failure
    return str(folder / "bin" / "python")
