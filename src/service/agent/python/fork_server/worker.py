"""How a fork of this process becomes a worker.
"""

import ctypes
import errno
import faulthandler
import os
import signal
import struct
import sys
import time

from .loader import Recorder, Unusable

REPARENT_SECONDS = 5
PR_SET_PDEATHSIG = 1
STACK_SIGNAL = 62  # activity/stack_reader.h
# Entries of the environment by which the agent recognises a worker's processes in /proc.
MARKS = ("LONGHAUL_AGENT_SOCKET", "RANK")
ROOM = b"\0LONGHAUL_FORK_SERVER_ROOM="

libc = ctypes.CDLL(None, use_errno=True)


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
