"""Facts of the project that its packages share: its folder, version and date."""

import os
import pathlib
import re
import subprocess

from kept_environment import Failure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUMMARY = "Plan, schedule and run large-model training jobs, and keep them running through failures"


def version():
    """The version of the project; CMakeLists.txt is the only place that defines it."""
    text = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(longhaul VERSION (\d+\.\d+\.\d+)\b", text, re.MULTILINE)
    if not found:
        raise Failure(f"{ROOT / 'CMakeLists.txt'} defines no version of the project")
    return found.group(1)


def source_date():
    """Seconds since 1970 that all files of a package carry: the date of the commit.

    $SOURCE_DATE_EPOCH comes first. Without it and without git it is the start of 2020.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given.isdigit():
        return int(given)
    done = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"],
                          capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 1577836800


def run(*words, **options):
    """Runs a command and returns its output; a failure is one line with the command's last one."""
    done = subprocess.run(list(map(str, words)), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Failure(f"{pathlib.Path(words[0]).name} {' '.join(map(str, words[1:3]))} failed: "
                      f"{lines[-1] if lines else 'no output'}")
    return done.stdout
