"""Forks workers that run a Python program whose imports are loaded already.

A cold start of a worker spends more than a second on `import torch`; a fork takes milliseconds.
The agent (python_fork_server.h) executes this text as a module of its own, calls main(), and gives
the program in the environment variable LONGHAUL_FORK_SERVER (JSON) and a socket as descriptor 3.
worker_api/fork_server.h has the protocol. This process loads the packages that the program imports,
but never the program's own files, since these may change between two starts. Each worker is a fork
that runs the program as `python3 PROGRAM` would. What a worker loads later (PyTorch loads a third
of itself when the first optimizer is made), it tells this process, which loads it too for the next
workers. While the workers run, as many spares are forked for the next start: the fork of a process
with PyTorch takes tens of milliseconds, to give a spare its environment takes one.

It ends, and the agent starts workers without it, when nothing is worth loading, when a package
cannot be loaded, and when the packages have changed since. A package that starts a thread, touches
an accelerator or loads files of the program is left out, because a fork copies only the thread
that calls it, and no context of an accelerator. This process then begins anew without that package.
"""

import ast
import array
import builtins
import ctypes
import errno
import faulthandler
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import time

SOCKET = 3
MAGIC, VERSION = 0x4D52574C, 1
REQUEST, REPLY = struct.Struct("<IIQII"), struct.Struct("<IIQq")
MOST_BYTES = 128 * 1024
MOST_FILES = 200  # of the program that are searched for imports
REPARENT_SECONDS = 5
QUIET_SECONDS = 1  # without a request or a further module, before anything is loaded or forked here
ANSWER_SECONDS = 5  # of a spare
MOST_SPARES = 64
MOST_NEWS = 64 * 1024  # bytes
PR_SET_PDEATHSIG = 1
STACK_SIGNAL = 62  # activity/stack_reader.h
# Entries of the environment by which the agent recognises a worker's processes in /proc.
MARKS = ("LONGHAUL_AGENT_SOCKET", "RANK")
ROOM = b"\0LONGHAUL_FORK_SERVER_ROOM="

HUGE_PAGE = 2 << 20  # bytes
MADV_COLLAPSE = 25  # Linux 6.1 and newer

libc = ctypes.CDLL(None, use_errno=True)
package_roots = [os.path.join(os.path.dirname(os.__file__), "")]  # others are installed packages


class Unusable(Exception):
    """Workers have to be started without this process."""


# --- What to load.


def is_package_path(path):
    """Whether a file belongs to Python or to an installed package."""
    parts = path.split(os.sep)
    installed = "site-packages" in parts or "dist-packages" in parts
    return installed or path.startswith(tuple(package_roots))


def find_spec(name):
    """The spec of a top-level module; None where there is none."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def file_of(spec):
    if spec is None or spec.origin in (None, "built-in", "frozen"):
        return None
    return spec.origin


def statements(body):
    """Those that run when a module is loaded."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, part, None) or [])
        for handler in getattr(node, "handlers", []):
            yield from statements(handler.body)


def imports_of(path):
    """The names of the modules that a file may import when it is loaded, in order."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    names = []
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def own_files_of(name, spec):
    """The files of the program that importing this module of its own may load."""
    files = [file_of(spec)] if file_of(spec) else []
    for folder in spec.submodule_search_locations or []:
        parts = name.split(".")[1:]
        for i in range(1, len(parts) + 1):
            inner = os.path.join(folder, *parts[:i])
            files += [inner + ".py", os.path.join(inner, "__init__.py")]
    return files


def packages_to_load(first):
    """The modules of packages that the program imports, directly or by files of its own."""
    found, seen, files = [], set(), [first]
    while files and len(seen) < MOST_FILES:
        path = files.pop(0)
        if path in seen:
            continue
        seen.add(path)
        for name in imports_of(path):
            spec = find_spec(name.split(".")[0])
            if spec is None:
                continue
            path_of = file_of(spec) or next(iter(spec.submodule_search_locations or []), "")
            if not path_of or is_package_path(path_of):
                found.append(name)
            else:
                files += own_files_of(name, spec)
    return list(dict.fromkeys(found))


def is_of_package(name):
    spec = find_spec(name.split(".")[0])
    path = spec and (file_of(spec) or next(iter(spec.submodule_search_locations or []), ""))
    return bool(path) and is_package_path(path)


def is_worth_loading(names):
    """Python's own modules load in no time."""
    standard = getattr(sys, "stdlib_module_names", ())
    tops = {name.split(".")[0] for name in names}
    return any(top not in standard and top not in sys.builtin_module_names for top in tops)


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

    def load(self, names):
        """Returns (name, why) of a module after which a fork is not possible; or None."""
        for name in names:
            if name in self.left_out or name in sys.modules:
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


def private_memory():
    """The addresses of the huge pages that this process's own memory could consist of."""
    with open("/proc/self/maps") as maps:
        parts = [line.split(None, 5) for line in maps]
    for part in parts:
        # The heap and what has no name: memory of malloc and of Python.
        if "rw" not in part[1] or len(part) > 5 and not part[5].startswith("[heap"):
            continue
        begin, end = (int(each, 16) for each in part[0].split("-"))
        yield from range(-(-begin // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE)


class Recorder:
    """Tells the fork server which modules a worker loads. Python asks its finders for each module
    that is not loaded yet; this one writes the name into a pipe, and leaves it to the others to
    find the module."""

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


def stamp_of_packages():
    """Changes when a package is installed, removed or replaced."""
    stamps = []
    for folder in sys.path:
        try:
            stamps.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            continue
    return [each for each in stamps if is_package_path(os.path.join(each[0], ""))]


def remembered(path):
    """The modules that workers of the job have loaded under another fork server: of another node,
    or before this one."""
    try:
        with open(path) as file:
            return list(dict.fromkeys(file.read(MOST_NEWS).split()))
    except (OSError, UnicodeError):
        return []


def remember(path, names):
    try:
        if names and (not os.path.exists(path) or os.path.getsize(path) < MOST_NEWS):
            with open(path, "a") as file:
                file.write("".join(name + "\n" for name in names))
    except OSError:
        pass  # it saves time only


def begin_anew(setup, news, name, why):
    """Executes this program once more, without that module and with those that workers have
    loaded."""
    print("fork server: %s is loaded by each worker itself: %s" % (name, why), flush=True)
    setup["left_out"].append(name)
    setup["news"] += news
    os.environ["LONGHAUL_FORK_SERVER"] = json.dumps(setup)
    os.set_inheritable(SOCKET, True)
    os.execvp(setup["self"][0], setup["self"])


# --- The protocol.


def receive(connection):
    """A request and its descriptors; None when the agent has closed its end."""
    size = array.array("i").itemsize
    packet, ancillary, flags, _ = connection.recvmsg(MOST_BYTES, socket.CMSG_SPACE(2 * size))
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:len(data) - len(data) % size])
    if not packet:
        return None
    return packet, list(descriptors)


def parse(packet):
    """The number, the environment and the words of a request."""
    magic, version, number, variables, words = REQUEST.unpack_from(packet)
    if magic != MAGIC or version != VERSION:
        raise Unusable("a request of another build")
    texts = os.fsdecode(packet[REQUEST.size:]).split("\0")
    if len(texts) != variables + words + 1:
        raise Unusable("a request was cut")
    environment = dict(text.split("=", 1) for text in texts[:variables])
    return number, environment, texts[variables:-1]


def memory_of_start():
    """Where the words and the environment of this process began: (begin, end) of both."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    # arg_start to env_end, of proc(5), counted after the name
    numbers = [int(field) for field in fields[45:49]]
    return numbers[:2], numbers[2:]


def set_title(words):
    """What /proc/PID/cmdline shows."""
    (begin, end), _ = memory_of_start()
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memmove(begin, text[:end - begin - 1].ljust(end - begin, b"\0"), end - begin)


def set_marks(environment):
    """Writes the marks into the memory that /proc/PID/environ shows, where the agent has left room
    for them."""
    _, (begin, end) = memory_of_start()
    block = b"\0" + ctypes.string_at(begin, end - begin)
    at = block.find(ROOM)
    text = b"".join(os.fsencode(name + "=" + environment.get(name, "")) + b"\0" for name in MARKS)
    room = block.find(b"\0", at + 1) - at - 1
    if at >= 0 and len(text) <= room:
        ctypes.memmove(begin + at, text.ljust(room, b"\0"), room)


def fork_twice(new_session):
    """Forks so that the new process becomes a child of the agent, which is a subreaper. Returns its
    number, or in the new process None."""
    reader, writer = os.pipe()
    between = os.fork()
    if between:
        os.close(writer)
        answer = os.read(reader, 4)
        os.close(reader)
        os.waitpid(between, 0)
        if len(answer) != 4:
            raise OSError(errno.EIO, "the fork failed")
        return struct.unpack("i", answer)[0]
    try:
        if os.fork():
            os._exit(0)
        if new_session:
            os.setsid()
        # The agent signals the process group of a worker as soon as it has the number.
        os.write(writer, struct.pack("i", os.getpid()))
        for descriptor in (reader, writer):
            os.close(descriptor)
    except BaseException as error:
        end_with(error)
    return None


def end_with(error):
    """Ends a process that cannot become a worker."""
    os.write(2, os.fsencode("fork server: %s\n" % error))
    os._exit(1)


def become_child(server):
    """What a new process does before it knows which worker it is."""
    server.leave()
    limit = time.monotonic() + REPARENT_SECONDS
    while os.getppid() != server.agent:
        if time.monotonic() > limit:
            raise Unusable("the agent that asked for this worker is gone")
        time.sleep(0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server.agent:
        raise Unusable("the agent that asked for this worker is gone")


def become_worker(server, request, descriptors):
    _, environment, _ = request
    os.dup2(descriptors[0], 1)
    os.dup2(descriptors[1], 2)
    for descriptor in descriptors:
        os.close(descriptor)
    if environment.get("LOCAL_RANK") == "0":
        sys.meta_path.insert(0, Recorder(server.writer))
    else:
        os.close(server.writer)
    set_marks(environment)
    write_stacks_to(environment.pop("LONGHAUL_STACK_FILE", None))
    for name in list(os.environ):
        if name not in environment:
            del os.environ[name]
    os.environ.update(environment)
    use_threads(environment)
    use_own_random_numbers()


def use_own_random_numbers():
    """Lets NumPy begin with other random numbers in each worker, as in a process of its own.
    Python does so itself after a fork, and PyTorch begins with the same ones in all processes."""
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()


def write_stacks_to(path):
    """Lets the agent ask for the calls of all threads with a signal. Interrupted system calls are
    continued."""
    try:
        if path and signal.getsignal(STACK_SIGNAL) == signal.SIG_DFL:
            faulthandler.register(STACK_SIGNAL, open(path, "w"), all_threads=True)
    except (OSError, ValueError, RuntimeError) as error:
        print("fork server: no stacks: %s" % error, file=sys.stderr)


def use_threads(environment):
    """Lets OpenBLAS use as many threads as it would have at a start of its own: it had to be loaded
    with one."""
    wanted = environment.get("OPENBLAS_NUM_THREADS") or environment.get("OMP_NUM_THREADS")
    try:
        count = int(wanted) if wanted else len(os.sched_getaffinity(0))
    except ValueError:
        return
    if count < 2:
        return
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_"):
                function = getattr(library, prefix + "openblas_set_num_threads" + suffix, None)
                if function is not None:
                    function(count)


class Spare:
    """A fork that has yet to be told which worker it is. It stays in the process group of the fork
    server until then, by which the agent ends it."""

    def __init__(self, process, link):
        self.process, self.link = process, link

    def use(self, packet, descriptors):
        """Whether it is a worker now."""
        try:
            self.link.settimeout(ANSWER_SECONDS)
            rights = array.array("i", descriptors)
            self.link.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            return bool(self.link.recv(1))
        except OSError:
            os.kill(self.process, signal.SIGKILL)  # it must not become a worker later
            return False
        finally:
            self.link.close()


def live_as_spare(server, link):
    """Returns the words of the worker that it becomes."""
    become_child(server)
    set_title(["longhaul spare worker"])
    received = receive(link)
    if received is None:
        os._exit(0)
    os.setsid()
    link.send(b"1")
    link.close()
    request = parse(received[0])
    become_worker(server, request, received[1])
    return request[2]


class Server:
    def __init__(self, connection, setup, loader):
        self.connection, self.setup, self.loader = connection, setup, loader
        self.agent = os.getppid()
        self.stamp = stamp_of_packages()
        self.news, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.text = b""  # names of modules, not loaded yet
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
                self.text += os.read(self.news, MOST_NEWS)
            elif self.text:
                self.load_news()
            elif self.pages:
                self.collapse(self.pages.pop())
            else:
                words = self.make_spare()
            if words is not None:
                return words
            rested = not ready

    def patience(self, rested):
        """How many milliseconds to wait for requests before something else is done."""
        if not self.text and not self.pages and len(self.spares) >= self.wanted:
            return None
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

    def collapse(self, page):
        """Makes one huge page of many small ones. What a fork costs, and the end of the worker, is
        in proportion to the number of pages: with PyTorch 18 ms each, with huge pages 3 ms."""
        if libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE):
            if ctypes.get_errno() == errno.EINVAL:
                self.pages = []  # this kernel cannot

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
        loaded = len(sys.modules)
        known = self.loader.left_out.union(sys.modules)
        names = [name for name in names if name not in known and is_of_package(name)]
        remember(self.setup["modules"], names)
        unfit = self.loader.load(names)
        if unfit:
            begin_anew(self.setup, names, *unfit)
        if len(sys.modules) != loaded:
            self.drop_spares()
        sys.stdout.flush()
        gc.collect()
        gc.freeze()
        self.pages = list(private_memory())


# --- The program.


def own_frames_removed(trace):
    """The trace of an error of the program, as Python would show it."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def run_script(path, main_names):
    """As `python3 PATH`."""
    if sys.version_info >= (3, 9):
        path = os.path.abspath(path)
    main_names.clear()
    main_names.update({"__name__": "__main__", "__file__": path, "__builtins__": builtins,
                       "__loader__": importlib.machinery.SourceFileLoader("__main__", path),
                       "__spec__": None, "__package__": None, "__doc__": None,
                       "__cached__": None, "__annotations__": {}})
    with open(path, "rb") as file:
        text = file.read()
    exec(compile(text, path, "exec", dont_inherit=True), main_names)


def run_program(words, interpreter, main_names):
    """`words` are those after the interpreter and its options: -m MODULE ..., or a script."""
    sys.orig_argv = interpreter + words
    try:
        if words[0] == "-m":
            import runpy
            sys.argv = words[1:]
            runpy._run_module_as_main(words[1], alter_argv=True)
        else:
            sys.argv = words
            run_script(words[0], main_names)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        error = error.with_traceback(own_frames_removed(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def folder_of_program(words):
    """What Python puts first into sys.path for the program."""
    if words[0] == "-m":
        return os.getcwd()
    return os.path.dirname(os.path.realpath(words[0]))


def first_file(words):
    """The file that the program begins with; None where it is not found."""
    if words[0] != "-m":
        return words[0]
    try:
        spec = importlib.util.find_spec(words[1])
        if spec is not None and spec.submodule_search_locations:
            spec = importlib.util.find_spec(words[1] + ".__main__")
    except (ImportError, ValueError):
        return None
    return file_of(spec)


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
    names += [name for name in setup["news"] + remembered(setup["modules"]) if is_of_package(name)]
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
