"""The connection by which the agent keeps a process for the next attempt."""

import os
import queue
import socket
import struct
import sys
import threading
import time
from typing import Callable, Dict, Optional

# src/worker_api/protocol.h
_VERSION = 4
_CONTINUES, _LEFT, _LEAVE, _CONTINUE = 11, 12, 68, 69
_HEADER = struct.Struct("<II")
_HELLO = struct.Struct("<IIIIQq")  # header, version, rank, attempt, pid
_ATTEMPT = struct.Struct("<IIQ")  # header, attempt; the environment follows
_MAX_MESSAGE_BYTES = 128 * 1024


class Agent:
    """Receives the agent's orders in a thread: the process may be blocked in a collective when
    it is ordered to leave."""

    def __init__(self, connection: socket.socket, on_leave: Callable[[], None]):
        self._connection = connection
        self._on_leave = on_leave
        self._orders: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()
        self._next: Optional[bytes] = None  # the order to continue, if it was the first one
        self._thread = threading.Thread(target=self._listen, name="longhaul elastic", daemon=True)
        self._thread.start()

    @classmethod
    def connect(cls, on_leave: Callable[[], None]) -> Optional["Agent"]:
        """Returns None without an agent. A thread calls `on_leave` at each order to leave."""
        path = os.environ.get("LONGHAUL_AGENT_SOCKET")
        if not path:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        connection.connect(path)
        rank, attempt = int(os.environ["RANK"]), int(os.environ["LONGHAUL_ATTEMPT"])
        connection.send(_HELLO.pack(_CONTINUES, 0, _VERSION, rank, attempt, os.getpid()))
        return cls(connection, on_leave)

    def left(self) -> None:
        try:
            self._connection.send(_HEADER.pack(_LEFT, 0))
        except OSError as failure:
            print(f"longhaul: the agent is gone: {failure}", file=sys.stderr, flush=True)

    def leave_ordered(self, until: float) -> bool:
        """Whether another worker has failed. The order to leave may have been sent before."""
        try:
            packet = self._orders.get(timeout=max(0.001, until - time.monotonic()))
        except queue.Empty:
            return False
        self._next = packet if packet is not None and _type_of(packet) == _CONTINUE else None
        return packet is not None

    def next_attempt(self) -> Dict[str, str]:
        """Blocks until the next attempt begins; the agent ends the process if there is none."""
        packet, self._next = self._next, None
        while packet is None or _type_of(packet) != _CONTINUE:
            packet = self._orders.get()
            if packet is None:
                raise SystemExit("longhaul: the agent has ended while this worker was kept")
        entries = packet[_ATTEMPT.size:].decode("utf-8", "surrogateescape").split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry)

    def close(self) -> None:
        """The process cannot continue in a later attempt any more."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)  # ends the thread's wait
        except OSError:  # the agent has closed it
            pass
        self._thread.join()
        self._connection.close()

    def _listen(self) -> None:
        packet: Optional[bytes] = b""
        while packet is not None:
            packet = self._receive()
            if packet is not None and _type_of(packet) == _LEAVE:
                self._on_leave()
            self._orders.put(packet)

    def _receive(self) -> Optional[bytes]:
        """The next order; None when the connection is closed."""
        try:
            packet, logs, _, _ = socket.recv_fds(self._connection, _MAX_MESSAGE_BYTES, 1)
        except OSError:
            return None
        for log in logs:  # of the next attempt
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
        return packet if len(packet) >= _HEADER.size else None


def _type_of(packet: bytes) -> int:
    return int(_HEADER.unpack_from(packet)[0])
