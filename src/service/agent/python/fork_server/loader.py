"""Loads packages, and judges whether this process can still be forked.
"""

import importlib
import os
import sys

from .packages import is_package_path

MOST_NAMES = 64 * 1024  # bytes of names of modules, in a file or a pipe


class Unusable(Exception):
    """Workers have to be started without this process."""


def threads():
    return len(os.listdir("/proc/self/task"))


def has_children():
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        return bool(file.read().strip())


def has_devices():
    """Whether a device of an accelerator is open."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            continue
        if target.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel")):
            return True
    return False


def with_packages(name):
    """The packages of a module, the outermost one first, and the module: "torch", "torch.optim"."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


class Loader:
    """Loads modules, and judges whether this process can still be forked."""

    def __init__(self, left_out):
        self.left_out = set(left_out)
        self.known = {"__main__"}  # modules that have been looked at

    def why_unfit(self):
        """Why a fork of this process could not go on as the program; None: it could."""
        if threads() != 1:
            return "it starts a thread"
        if has_children():
            return "it starts a process"
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if has_devices() or (cuda is not None and cuda.is_initialized()):
            return "it uses an accelerator"
        for name, module in list(sys.modules.items()):
            if name in self.known:
                continue
            self.known.add(name)
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and os.path.isabs(path) and not is_package_path(path):
                return "it loads " + path + ", which may change"
        return None

    def is_left_out(self, name):
        """Whether this module is left out, or is in a package that is: importing it loads both."""
        return not self.left_out.isdisjoint(with_packages(name))

    def load(self, names):
        """Returns (name, why) of a module after which a fork is not possible; or None. Packages are
        loaded before their modules, so that one that is left out is tried once only."""
        for name in [each for name in names for each in with_packages(name)]:
            if name in sys.modules or self.is_left_out(name):
                continue
            try:
                importlib.import_module(name)
            except Exception as error:  # a name that is no module, or an optional package
                self.left_out.add(name)
                print("fork server: %s was not loaded: %s" % (name, error), flush=True)
            except SystemExit as error:
                raise Unusable("%s ended the process when it was loaded" % name) from error
            why = self.why_unfit()
            if why:
                return name, why
        return None


class Recorder:
    """A finder of modules that reports to the fork server what a worker loads. Python asks each of
    its finders for a module that is not loaded yet. This one writes the module's name into a pipe
    and returns None, so that another finder finds the module."""

    def __init__(self, writer):
        self.writer, self.process = writer, os.getpid()
        self.pipe = os.fstat(writer).st_ino

    def find_spec(self, name, path=None, target=None):
        try:
            # The program may have forked, or closed descriptors that it does not know.
            if os.getpid() == self.process and os.fstat(self.writer).st_ino == self.pipe:
                os.write(self.writer, name.encode() + b"\n")
        except (OSError, UnicodeError):
            pass
        return None


class SharedNames:
    """A file with the names of modules that workers of the job have loaded, one a line. The fork
    servers of the job append to it, on other nodes and before this one."""

    def __init__(self, path):
        self.path = path
        self.taken = 0  # bytes of whole lines that were read
        self.names = set()

    def news(self):
        """The names that this object has not returned yet, in order."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.taken)
                text = file.read(MOST_NAMES - self.taken)
            whole = text[:text.rfind(b"\n") + 1]
            names = dict.fromkeys(whole.decode().split())
        except (OSError, UnicodeError):
            return []
        self.taken += len(whole)
        names = [name for name in names if name not in self.names]
        self.names.update(names)
        return names

    def add(self, names):
        """Appends those that the file does not have. Returns what `news` returns."""
        news = self.news()
        names = [name for name in names if name not in self.names]
        self.names.update(names)
        try:
            if names and self.taken < MOST_NAMES:
                with open(self.path, "a") as file:
                    file.write("".join(name + "\n" for name in names))
        except OSError:
            pass  # it saves time only
        return news
