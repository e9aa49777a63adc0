"""The committed page is what its sources build.

usage: page_build_test.py FOLDER

Builds web/ in a copy beside FOLDER's packages and compares every byte with web/dist. Skipped
without Node.
"""
import filecmp
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import web_environment

MOST_GZIPPED_BYTES = 100_000
COPIED = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "index.html")


class PageBuild(unittest.TestCase):
    def test_the_committed_files_are_built_from_the_sources(self):
        packages = web_environment.packages(folder)
        with tempfile.TemporaryDirectory(prefix="page-build-") as copy:
            for name in COPIED:
                shutil.copy(f"{web_environment.WEB}/{name}", copy)
            for name in ("src", "build", "public"):
                shutil.copytree(f"{web_environment.WEB}/{name}", f"{copy}/{name}")
            os.symlink(f"{packages}/node_modules", f"{copy}/node_modules")
            built = subprocess.run(
                ["npm", "run", "build"], cwd=copy, capture_output=True, text=True)
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
            names = sorted(os.listdir(f"{copy}/dist"))
            self.assertEqual(names, sorted(os.listdir(f"{web_environment.WEB}/dist")))
            for name in names:
                same = filecmp.cmp(f"{copy}/dist/{name}", f"{web_environment.WEB}/dist/{name}",
                                   shallow=False)
                self.assertTrue(same, f"web/dist/{name} is not what the sources build: "
                                      "cd web && npm ci && npm run build, and commit dist")

    def test_the_page_is_small(self):
        total = 0
        for name in os.listdir(f"{web_environment.WEB}/dist"):
            with open(f"{web_environment.WEB}/dist/{name}", "rb") as file:
                total += len(gzip.compress(file.read()))
        self.assertLess(total, MOST_GZIPPED_BYTES)


if __name__ == "__main__":
    folder = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
