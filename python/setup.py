"""The version of the package is that of the project, in CMakeLists.txt. The rest is in pyproject.toml."""

import pathlib
import re

from setuptools import setup

lists = pathlib.Path(__file__).resolve().parent.parent / "CMakeLists.txt"
setup(version=re.search(r"project\(longhaul VERSION ([\d.]+)", lists.read_text()).group(1))
