"""Where the tests of the web page find Node, its packages and Chromium.

The packages of web/package-lock.json are installed into a folder of the build, once for both tests
and again when the lock file changes. A test is skipped, with the reason, if something is missing.
"""
import fcntl
import os
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEB = f"{ROOT}/web"
OLDEST_NODE = (20, 19)
PACKAGE_FILES = ("package.json", "package-lock.json")


def require_node():
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise unittest.SkipTest("Node is missing: install Node 20.19 or newer with npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if tuple(int(part) for part in version.lstrip("v").split(".")[:2]) < OLDEST_NODE:
        raise unittest.SkipTest(f"Node is {version}, the page needs 20.19 or newer")


def require_chromium():
    for name in ("chromium", "chromium-browser"):
        path = shutil.which(name)
        if path is not None:
            return path
    raise unittest.SkipTest("Chromium is missing: apt-get install chromium")


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def packages(folder):
    """Returns a folder that has node_modules of the lock file."""
    require_node()
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = _read(f"{WEB}/package-lock.json")
        if _read(f"{folder}/installed") == wanted:
            return folder
        for name in PACKAGE_FILES:
            shutil.copy(f"{WEB}/{name}", folder)
        command = ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
        installed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if installed.returncode != 0:
            raise unittest.SkipTest(f"npm ci failed, is there a network? {installed.stderr[-500:]}")
        with open(f"{folder}/installed", "w") as file:
            file.write(wanted)
    return folder
