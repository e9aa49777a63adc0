#!/usr/bin/env python3
"""Print the version and the folder of the PyTorch of a Python interpreter, separated by ";".

  cmake/torch_of_python.py PYTHON

cmake/Torch.cmake runs it. Exit codes: 0 success, 1 the trainer cannot be built against this
PyTorch (the reason is on standard error), 2 wrong usage.
"""

import json
import pathlib
import re
import subprocess
import sys

OLDEST = (2, 4)
NEEDED = ("include/ATen/ATen.h", "include/torch/csrc/distributed/c10d/ProcessGroupGloo.hpp",
          "lib/libtorch_cpu.so", "lib/libc10.so")
# Runs in the interpreter. The ABI is a property of the compiled module, so torch is imported.
QUESTION = """
import json, torch
print(json.dumps({"version": torch.__version__, "file": torch.__file__,
                  "new_abi": torch.compiled_with_cxx11_abi()}))
"""
REMEDY = "use the Python that tools/pytorch_environment 2.15 prints"


class Refused(Exception):
    """The trainer cannot be built against this PyTorch."""


def ask(python):
    """What the interpreter says of its PyTorch."""
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"LONGHAUL_TORCH is {python}, which cannot be run "
                      f"({error.strerror}): {REMEDY}") from error
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Refused(f"{python} (LONGHAUL_TORCH) cannot import torch ({reason}): {REMEDY}")
    return json.loads(done.stdout.splitlines()[-1])


def check(python, found):
    """The folder of a PyTorch that the trainer can be built against."""
    version = found["version"]
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None or tuple(map(int, number.groups())) < OLDEST:
        raise Refused(f"the PyTorch of {python} (LONGHAUL_TORCH) is {version}, expected at least "
                      f"{OLDEST[0]}.{OLDEST[1]}: {REMEDY}")
    if not found["new_abi"]:
        raise Refused(
            f"the PyTorch {version} of {python} (LONGHAUL_TORCH) is compiled with "
            "_GLIBCXX_USE_CXX11_ABI=0, so its functions that take a std::string cannot be linked "
            f"with the trainer: {REMEDY}")
    folder = pathlib.Path(found["file"]).parent
    for name in NEEDED:
        if not (folder / name).is_file():
            raise Refused(f"the PyTorch {version} of {python} (LONGHAUL_TORCH) has no "
                          f"{folder / name}: install PyTorch of PyPI, or {REMEDY}")
    return folder


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    python = sys.argv[1]
    try:
        found = ask(python)
        print(f"{found['version']};{check(python, found)}")
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
