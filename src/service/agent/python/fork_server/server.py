"""Forks workers that run a Python program whose imports are loaded already.

A cold start of a worker spends more than a second on `import torch`; a fork takes milliseconds.
The agent (python_fork_server.h) runs these files as one package, `_longhaul_fork_server`, and calls
main() of this one. The program is in the environment variable LONGHAUL_FORK_SERVER (JSON), and
descriptor 3 is a socket that is connected to the agent.

This process loads the packages that the program imports. It does not load the program's own files,
because these may change between two starts. Each worker is a fork that runs the program as `python3
PROGRAM` would. A worker loads further modules later: PyTorch loads a third of itself when the first
optimizer is made. It reports them to this process, which loads them for the next workers. While the
workers run, this process forks as many spares for the next start. A fork of a process with PyTorch
takes tens of milliseconds, and a spare receives its environment in one millisecond.

It ends, and the agent starts workers without it, when nothing is worth loading, when a package
cannot be loaded, and when the packages have changed since. A package that starts a thread, touches
an accelerator or loads files of the program is left out, because a fork copies only the thread
that calls it, and no context of an accelerator. This process then begins anew without that package.
"""

import atexit
import errno
import gc
import json
import os
import select
import socket
import sys

from .loader import MOST_NAMES, Loader, SharedNames, Unusable, threads
from .memory import collapse, private_memory
from .packages import (first_file, folder_of_program, is_of_package, is_worth_loading,
                       package_roots, packages_to_load, stamp_of_packages)
from .program import run_program
from .protocol import MAGIC, REPLY, parse, receive
from .spare import Spare, live_as_spare
from .worker import become_child, become_worker, end_with, fork_twice, set_title

SOCKET = 3
QUIET_SECONDS = 1  # without a request or a name, before anything is loaded or forked here
LOOK_SECONDS = 2  # between two looks at what workers on other nodes have loaded
MOST_SPARES = 64


class Server:
    def __init__(self, connection, setup, loader):
        self.connection, self.setup, self.loader = connection, setup, loader
        self.agent = os.getppid()
        self.stamp = stamp_of_packages()
        self.news, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.text = b""  # names of modules, not loaded yet
        self.shared = SharedNames(setup["modules"])
        self.spares, self.wanted = [], 0
        self.pages = list(private_memory())  # not collapsed yet

    def serve(self):
        """Answers requests. Returns in a worker only: its words."""
        poll = select.poll()
        for descriptor in (self.connection.fileno(), self.news):
            poll.register(descriptor, select.POLLIN)
        rested = False  # since the last request or name
        while True:
            words = None
            ready = {each for each, _ in poll.poll(self.patience(rested))}
            if self.connection.fileno() in ready:
                words = self.answer()
            elif self.news in ready:
                self.text += os.read(self.news, MOST_NAMES)
            elif self.text:
                self.load_news()
            elif self.pages:
                if not collapse(self.pages.pop()):
                    self.pages = []
            elif len(self.spares) < self.wanted:
                words = self.make_spare()
            else:
                self.load(self.shared.news())
            if words is not None:
                return words
            rested = not ready

    def patience(self, rested):
        """How many milliseconds to wait for requests before something else is done."""
        if not self.text and not self.pages and len(self.spares) >= self.wanted:
            return 1000 * LOOK_SECONDS
        return 0 if rested else 1000 * QUIET_SECONDS

    def answer(self):
        """Answers one request. Returns None, in a worker its words."""
        received = receive(self.connection)
        if received is None:
            os._exit(0)
        packet, descriptors = received
        request = parse(packet)
        worker, error = 0, errno.EINVAL
        if self.stamp != stamp_of_packages():
            error = errno.ESTALE
        elif threads() != 1:
            error = errno.EBUSY
        elif len(descriptors) == 2:
            worker = self.use_spare(packet, descriptors)
            try:
                worker = worker or self.fork_worker(request, descriptors)
            except OSError as failure:
                worker, error = 0, failure.errno or errno.EIO
            if worker is None:
                return request[2]
            self.want_spares(request[1])
        for descriptor in descriptors:
            os.close(descriptor)
        self.connection.send(REPLY.pack(MAGIC, 0 if worker else error, request[0], worker))
        return None

    def fork_worker(self, request, descriptors):
        """Returns the worker's number, or in the worker None."""
        worker = fork_twice(new_session=True)
        if worker is None:
            try:
                become_child(self)
                become_worker(self, request, descriptors)
            except BaseException as error:
                end_with(error)
        return worker

    def want_spares(self, environment):
        """As many as the node has workers."""
        count = environment.get("LOCAL_WORLD_SIZE", "")
        self.wanted = min(int(count), MOST_SPARES) if count.isdecimal() else 0

    def make_spare(self):
        """Returns None, in the spare its words once it is a worker."""
        if threads() != 1:
            self.wanted = 0
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            spare = fork_twice(new_session=False)
        except OSError:
            self.wanted = 0  # until the next request
            ours.close()
            theirs.close()
            return None
        if spare is None:
            try:
                ours.close()
                return live_as_spare(self, theirs)
            except BaseException as error:
                end_with(error)
        theirs.close()
        self.spares.append(Spare(spare, ours))
        return None

    def use_spare(self, packet, descriptors):
        """The number of the spare that is a worker now; 0 where there is none."""
        while self.spares:
            spare = self.spares.pop(0)
            if spare.use(packet, descriptors):
                return spare.process
        return 0

    def leave(self):
        """Closes, in a new process, what is the fork server's own."""
        self.connection.close()
        os.close(self.news)
        self.drop_spares()

    def drop_spares(self):
        """They end when their connection does."""
        for spare in self.spares:
            spare.link.close()
        self.spares = []

    def load_news(self):
        """Loads what a worker has loaded, while it trains."""
        names, self.text = self.text.decode().split(), b""
        names = self.without_known(names)
        self.load(names + self.shared.add(names))

    def without_known(self, names):
        return [name for name in names if name not in sys.modules and
                not self.loader.is_left_out(name) and is_of_package(name)]

    def load(self, names):
        names = self.without_known(names)
        if not names:
            return
        loaded = len(sys.modules)
        unfit = self.loader.load(names)
        if unfit:
            begin_anew(self.setup, names, *unfit)
        if len(sys.modules) != loaded:
            self.drop_spares()
        sys.stdout.flush()
        gc.collect()
        gc.freeze()
        self.pages = list(private_memory())


def begin_anew(setup, news, name, why):
    """Executes this program once more, without that module and with those that workers have
    loaded."""
    print("fork server: %s is loaded by each worker itself: %s" % (name, why), flush=True)
    setup["left_out"].append(name)
    setup["news"] += news
    os.environ["LONGHAUL_FORK_SERVER"] = json.dumps(setup)
    # Packages remove their temporary files when Python ends, which exec does without. Python offers
    # no public function for this.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os.set_inheritable(SOCKET, True)
    os.execvp(setup["self"][0], setup["self"])


def prepare(setup):
    """Loads the packages of the program."""
    words = setup["words"]
    package_roots.extend(os.path.join(each, "") for each in setup["packages"] if each)
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        raise Unusable("Python's options -I and -P are not supported")
    sys.path[0] = folder_of_program(words)
    first = first_file(words)
    names = packages_to_load(first) if first else []
    if not is_worth_loading(names):
        os._exit(0)  # which is no reason for a message
    names += [name for name in setup["news"] + SharedNames(setup["modules"]).news()
              if is_of_package(name)]
    loader = Loader(setup["left_out"])
    unfit = loader.load(names)
    if unfit:
        begin_anew(setup, [], *unfit)
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    return loader


def main():
    """Returns in a worker that has run its program."""
    setup = json.loads(os.environ.pop("LONGHAUL_FORK_SERVER"))
    os.set_inheritable(SOCKET, False)
    connection = socket.socket(fileno=SOCKET)
    set_title(["longhaul fork server"])
    try:
        words = Server(connection, setup, prepare(setup)).serve()
    except Unusable as reason:
        print("fork server: %s" % reason, flush=True)
        os._exit(1)
    interpreter = setup["interpreter"]
    set_title(interpreter + words)
    run_program(words, interpreter, sys.modules["__main__"].__dict__)
