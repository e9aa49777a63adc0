"""The torch.distributed groups of a process, which can be broken while a collective is under way.

A process that leaves its groups because another worker has failed may be blocked in a collective
that nothing interrupts. `break_all` makes the collectives of all groups fail. It may be called from
another thread than the one that is blocked.
"""

import contextlib
import ctypes
import functools
import gc
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any, Iterator, Optional, Set, Tuple

_TAG = 0x6C68  # of messages that no rank receives
_BREAK_PERIOD_S = 0.05
_BREAK_LIMIT_S = 2.0  # after which the agent ends the process
_END_LIMIT_S = 0.5  # a connection that is open for longer is not of a group
_BLOCKED_SAMPLES = 4  # in which no thread works: the process is blocked for good
_REST_PERIOD_S = 0.002
_REST_SAMPLES = 3  # in which no thread works: Gloo's threads have nothing left to do
_REST_LIMIT_S = 0.5
# The first version in which the destructor of a group releases the interpreter's lock
# (pytorch/pytorch pull request 154976).
_DESTROYS_WITHOUT_LOCK = (2, 8)

_Sockets = Set[Tuple[int, str]]  # descriptors and the names that their links in /proc have


class Groups:
    """The connections that the process's groups have made, and how to break them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: _Sockets = set()
        self._of_gloo: _Sockets = set()  # those of them that Gloo has made, not a store
        self._before: Optional[_Sockets] = None  # while the process's first group is being made
        self._left = threading.Event()

    @contextlib.contextmanager
    def recorded(self, dist: Any) -> Iterator[None]:
        """Connections of groups that are made meanwhile are recorded: those of the default group,
        of new_group and of device meshes."""
        make = getattr(dist.distributed_c10d, "_new_process_group_helper", None)
        if make is None:  # PyTorch has no public hook; without it only known connections are ended
            yield
            return

        @functools.wraps(make)
        def record(*arguments: Any, **options: Any) -> Any:
            before = _sockets()
            try:
                return make(*arguments, **options)
            finally:
                with self._lock:
                    self._of_gloo |= _sockets() - before
                    self._made |= self._of_gloo

        dist.distributed_c10d._new_process_group_helper = record
        try:
            yield
        finally:
            dist.distributed_c10d._new_process_group_helper = make

    @contextlib.contextmanager
    def forming(self) -> Iterator[None]:
        """Everything connected meanwhile is taken for the default group's or its store's."""
        self._left.clear()
        with self._lock:
            self._before = _sockets()
        try:
            yield
        finally:
            with self._lock:
                self._made |= _sockets() - self._before
                self._before = None

    def break_all(self) -> None:
        """Lets the collectives under way fail, here and on the ranks that are connected."""
        with self._lock:
            made = set(self._made)
            if self._before is not None:
                made |= _sockets() - self._before
        for descriptor, name in made:
            with contextlib.suppress(OSError):  # it is closed, or not connected any more
                copy = os.dup(descriptor)
                try:
                    # The number may be another file's by now. That of the copy cannot change.
                    if _name(copy) == name:
                        _end_reading(copy)
                finally:
                    os.close(copy)

    def break_until_left(self) -> None:
        """For a thread: breaks the groups until another one has left them or the time is over."""
        self.break_all()
        end = time.monotonic() + _BREAK_LIMIT_S
        samples = 0
        while not self._left.wait(_BREAK_PERIOD_S) and time.monotonic() < end:
            self._end_stuck()
            samples = samples + 1 if self._is_blocked() else 0
            if samples == _BLOCKED_SAMPLES:
                _give_up()

    def _is_blocked(self) -> bool:
        """Whether a collective is under way that nothing ends.

        When a connection ends, Gloo ends the collectives that have yet to send or to receive on it,
        but not one of which it has begun to send or to receive a message. That one blocks for the
        group's timeout, half an hour by default, and so does the destructor of its group. This is
        so if Gloo has closed all connections and the main thread still sleeps in PyTorch, as all
        other threads do.
        """
        with self._lock:
            of_gloo = bool(self._of_gloo) and self._before is None
        return of_gloo and not self._open_connections() and _all_sleep_in_torch()

    def _await_ends(self) -> None:
        """Returns when Gloo has seen the end of all connections. A group's destructor waits for
        its collectives, and a group that is being destroyed cannot be written to."""
        end = time.monotonic() + _END_LIMIT_S
        stuck_at = time.monotonic() + _BREAK_PERIOD_S
        while self._open_connections() and time.monotonic() < end:
            time.sleep(0.002)
            if time.monotonic() >= stuck_at:
                self._end_stuck()
                stuck_at = time.monotonic() + _BREAK_PERIOD_S

    def _open_connections(self) -> bool:
        with self._lock:
            found = [each for each in (_open(*one) for one in self._of_gloo) if each is not None]
        for each in found:
            each.close()
        return bool(found)

    def _end_stuck(self) -> None:
        """Ends connections whose end Gloo has not seen although it could read it.

        Gloo does not read from a connection on which data arrives for a collective that has failed
        for another reason. It then never sees the connection's end, and other collectives that
        receive from this rank block. Gloo ignores that a write fails with EPIPE or ECONNRESET,
        because it expects to read the end. So a write has to fail with another error.
        """
        dist = sys.modules.get("torch.distributed")
        with self._lock:
            stuck = [each for each in (_open(*one) for one in self._of_gloo) if each is not None]
        for connection in stuck:
            with connection, contextlib.suppress(OSError):
                _refuse(connection)
        if stuck and dist is not None:
            _write_to_all(dist)

    def leave(self, error: BaseException) -> None:
        """Ends the groups. The frames of the failed function, which `error` holds, are cleared:
        they hold the model's wrapper, which holds a group."""
        self.break_all()
        each: Optional[BaseException] = error
        while each is not None:
            traceback.clear_frames(each.__traceback__)
            each = each.__context__
        gc.collect()
        self._await_ends()
        _destroy()
        with self._lock:
            self._made.clear()
            self._of_gloo.clear()
        self._left.set()


def _all_sleep_in_torch() -> bool:
    main = threading.main_thread()
    frame = sys._current_frames().get(main.ident or 0)
    torch = os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep
    if frame is None:
        return False
    # A group's destructor runs in the frame that drops its last reference.
    ends_group = frame.f_code is _destroy.__code__
    if not ends_group and not frame.f_code.co_filename.startswith(torch):
        return False
    return _other_threads_sleep()


def _other_threads_sleep() -> bool:
    for thread in set(os.listdir("/proc/self/task")) - {str(threading.get_native_id())}:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/stat") as file:
            # The name, in parentheses, may contain anything.
            if not file.read().rpartition(")")[2].startswith(" S"):
                return False
    return True


def await_rest() -> None:
    """Returns when Gloo's threads can be joined while this one holds the interpreter's lock.

    Before version 2.8, PyTorch destroys a group so. A thread that has just done a collective then
    waits for the lock and never ends, if it has the last reference to a tensor that Python has known.
    While this thread sleeps, the others get the lock, and sleep when they are done.
    """
    import torch

    version = tuple(int(each) for each in re.findall(r"\d+", torch.__version__)[:2])
    end = time.monotonic() + _REST_LIMIT_S
    samples = 0
    while version < _DESTROYS_WITHOUT_LOCK and samples < _REST_SAMPLES and time.monotonic() < end:
        time.sleep(_REST_PERIOD_S)
        samples = samples + 1 if _other_threads_sleep() else 0


def _give_up() -> None:
    """Ends the process, so that the agent replaces it at once."""
    print(f"longhaul: rank {os.environ.get('RANK')} is replaced: all connections of its groups have "
          "ended, but PyTorch blocks in a collective", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _destroy() -> None:
    import torch.distributed as dist

    if not dist.is_initialized():
        return
    await_rest()
    try:
        if dist.get_backend() == "nccl":
            getattr(dist.distributed_c10d, "_abort_process_group", dist.destroy_process_group)()
        else:
            dist.destroy_process_group()
    except RuntimeError as failure:  # the group is broken; a new one does not use it
        print(f"longhaul: the old group was left with an error: {failure}", file=sys.stderr,
              flush=True)


def _name(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _sockets() -> Set[Tuple[int, str]]:
    found = set()
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the folder itself
            name = _name(int(entry))
            if name.startswith("socket:"):
                found.add((int(entry), name))
    return found


def _end_reading(descriptor: int) -> None:
    """Lets the owner of a TCP connection read its end. Gloo then closes it, which ends it for the
    other process too.

    Writes still succeed. If they failed with EPIPE, Gloo would keep a message that it was about to
    send, and block when it reads the end (Groups._is_blocked). Raises OSError for a socket that is
    not connected: Gloo ends the process if a listening one is shut down.
    """
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.getpeername()
            connection.shutdown(socket.SHUT_RD)


def _open(descriptor: int, name: str) -> Optional[socket.socket]:
    """This connection, if it is still open and does not listen."""
    try:
        if _name(descriptor) != name:
            return None
        found = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return None
    with contextlib.suppress(OSError):
        ours = _name(found.fileno()) == name  # the number may have become another file's
        internet = found.family in (socket.AF_INET, socket.AF_INET6)
        if ours and internet and not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return found
    found.close()
    return None


def _refuse(connection: socket.socket) -> None:
    """Lets the next write of a connection fail with ECONNREFUSED: it is disconnected, which ends it
    for the other process, and connected to a port on which nothing listens."""
    address = connection.getsockname()[0]
    unspecified = struct.pack("=H14x", socket.AF_UNSPEC)
    ctypes.CDLL(None).connect(connection.fileno(), unspecified, len(unspecified))
    with socket.socket(connection.family) as nothing:
        nothing.bind((address, 0))
        connection.connect_ex(nothing.getsockname())


def _write_to_all(dist: Any) -> None:
    """Lets Gloo write to the ranks of all groups, so that it sees which connections have ended."""
    torch = sys.modules["torch"]
    world = getattr(dist.distributed_c10d, "_world", None)
    for group in list(getattr(world, "pg_map", ())):
        with contextlib.suppress(RuntimeError, ValueError):  # it is not of Gloo, or ended meanwhile
            if dist.get_backend(group) != "gloo":
                continue
            for peer in set(range(group.size())) - {group.rank()}:
                with contextlib.suppress(RuntimeError):  # what an ended connection raises
                    group.send([torch.zeros(1)], peer, _TAG)
