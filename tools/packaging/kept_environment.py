"""Virtual environments that tools make once, outside of the tree, and keep."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

COMPLETE = "complete"  # this file in an environment is written last


class Failure(Exception):
    """A failure with a message for the user."""


def default_folder(name):
    """Where the environment with this name is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "longhaul" / name


def is_complete(folder):
    """Whether the environment was made to its end."""
    return (folder / COMPLETE).exists()


def run(words, log):
    """Runs a command, with its output in the log file; returns its standard output."""
    with open(log, "a") as file:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
                              text=True)
        file.write(done.stdout)
    if done.returncode != 0:
        with open(log) as file:
            last = [line.strip() for line in file if line.strip()][-1:] or ["no output"]
        raise Failure(f"{os.path.basename(words[0])} {' '.join(words[1:4])} failed: {last[0]} "
                      f"(log: {log})")
    return done.stdout


def pip_install(python, *words):
    """The command that installs packages into the environment of this Python."""
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-cache-dir", "--no-compile", "--only-binary", ":all:", *words]


def is_extended(folder, name, text):
    """Whether `extend` with these arguments was completed."""
    marker = folder / f"{COMPLETE}-{name}"
    return marker.exists() and marker.read_text() == text


def extend(folder, name, text, install, tool):
    """Adds to a complete environment unless it has been done with the same text.

    `install(log)` is called for one process at a time. `text` is what determines its result, such
    as a list of versions; it is kept in the environment.
    """
    if is_extended(folder, name, text):
        return
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_extended(folder, name, text):
            return
        log = folder.with_name(folder.name + ".log")
        log.write_text("")
        print(f"{tool}: adding {name} to {folder}", file=sys.stderr)
        install(log)
        (folder / f"{COMPLETE}-{name}").write_text(text)
        log.unlink()


def ensure(folder, make, tool):
    """Makes the environment unless it is complete; `tool` names the caller in messages.

    `make(folder, log)` is called with an absent folder and returns the text to keep in COMPLETE.
    Only one process at a time makes an environment; the others wait for it. An environment without
    the file COMPLETE was interrupted: it is removed and made again.
    """
    if is_complete(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete(folder):
            return
        if folder.exists():
            print(f"{tool}: {folder} is not complete; it is made again", file=sys.stderr)
            shutil.rmtree(folder)
        log = folder.with_name(folder.name + ".log")
        log.write_text("")
        print(f"{tool}: making {folder}", file=sys.stderr)
        text = make(folder, log)
        (folder / COMPLETE).write_text(text + "\n")
        log.unlink()
