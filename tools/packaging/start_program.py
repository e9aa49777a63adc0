#!python
"""Start the program `longhaul` of the installed package."""
import os
import sys

for folder in sys.path:
    program = os.path.join(folder, "longhaul", "bin", "longhaul")
    if os.path.isfile(program):
        try:
            os.execv(program, sys.argv)
        except OSError as error:
            sys.exit(f"longhaul: cannot start {program}: {error.strerror}")
sys.exit(f"longhaul: no longhaul/bin/longhaul in the packages of {sys.executable}: run "
         f"{sys.executable} -m pip install --force-reinstall longhaul")
