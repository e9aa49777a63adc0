"""Runs the browser scripts of this folder for the tests of the web page."""
import os
import shutil
import subprocess
import sys
import unittest

import web_environment

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HERE = os.path.dirname(os.path.abspath(__file__))


def place_scripts(packages):
    """The scripts import packages, so they must lie beside node_modules."""
    for name in os.listdir(HERE):
        if name.endswith(".mjs"):
            shutil.copy(f"{HERE}/{name}", packages)


class PageTest(unittest.TestCase):
    """A test with Chromium, Node's packages in `folder` and the programs of Longhaul."""
    folder = ""
    programs = []

    @classmethod
    def setUpClass(cls):
        cls.chromium = web_environment.require_chromium()
        cls.packages = web_environment.packages(cls.folder)
        place_scripts(cls.packages)

    def node(self, *command, timeout):
        return subprocess.run(
            ["node", *command], cwd=self.packages, capture_output=True, text=True, timeout=timeout,
            env={**os.environ, "PAGE_CHROMIUM": self.chromium,
                 "PAGE_SCREENSHOTS": os.environ.get("LONGHAUL_TEST_SCREENSHOTS", ""),
                 "PAGE_DIST": f"{web_environment.WEB}/dist"})


def main():
    """usage: TEST FOLDER LONGHAUL LONGHAUL-TRAINER"""
    PageTest.folder = os.path.abspath(sys.argv[1])
    PageTest.programs = [os.path.abspath(program) for program in sys.argv[2:4]]
    unittest.main(argv=sys.argv[:1], verbosity=2)
