"""The package `longhaul` of the wheel, for the Python of a worker that has no copy of its own.

The agent adds only this folder's parent to PYTHONPATH, so that the worker does not see the other
packages of the environment that the wheel is installed in.
"""
import os

__path__ = [os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                          *[os.pardir] * 4))]
with open(os.path.join(__path__[0], "__init__.py")) as _file:
    exec(compile(_file.read(), _file.name, "exec"))
