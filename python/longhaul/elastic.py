"""Workers that stay alive when another worker of their torch.distributed group fails.

    from longhaul import elastic

    model, optimizer, progress = ..., ..., elastic.Progress()

    def train(group):
        group.synchronize(progress, model, optimizer)
        ddp = DistributedDataParallel(model)
        for step in range(progress.step + 1, steps + 1):
            ...
            optimizer.step()
            progress.step = step

    elastic.run(train)

Under `longhaul run`, `run` calls the function again in each attempt in which this process takes
part. Without an agent it initialises torch.distributed and calls the function once.
docs/elastic-scripts.md states when a process is kept. PyTorch 2 or newer.
"""

import contextlib
import gc
import os
import socket
import struct
import sys
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from . import close as _close_worker_api

# src/worker_api/protocol.h
_VERSION = 4
_CONTINUES, _LEFT, _LEAVE, _CONTINUE = 11, 12, 68, 69
_HEADER = struct.Struct("<II")
_HELLO = struct.Struct("<IIIIQq")  # header, version, rank, attempt, pid
_ATTEMPT = struct.Struct("<IIQ")  # header, attempt; the environment follows
_MAX_MESSAGE_BYTES = 128 * 1024

# A lost worker is reported within milliseconds, and a lost node within some seconds. After this time
# without such a report the error is the script's own.
_REPORT_LIMIT_S = 5.0


class Progress:
    """The number of optimizer steps that the state contains. Set `step` after each one."""

    def __init__(self, step: int = 0):
        self.step = step


class Group:
    """The torch.distributed group of one attempt."""

    def __init__(self, rank: int, world_size: int, attempt: int):
        self.rank = rank
        self.world_size = world_size
        self.attempt = attempt

    def synchronize(self, progress: Progress, *objects: Any) -> None:
        """Gives all ranks the state of the rank with the most steps (of several, the lowest).

        `objects` are modules, optimizers and others with `state_dict` and `load_state_dict`, in the
        same order on every rank. Tensors are sent bit for bit. A collective: call it before
        DistributedDataParallel wraps the model.
        """
        import torch
        import torch.distributed as dist

        device = _device(torch, dist)
        mine = torch.tensor([progress.step], dtype=torch.int64, device=device)
        steps = [torch.zeros_like(mine) for _ in range(self.world_size)]
        dist.all_gather(steps, mine)
        counts = [int(each.item()) for each in steps]
        source = counts.index(max(counts))
        for each in objects:
            if isinstance(each, torch.nn.Module):
                _broadcast_module(dist, each, source, device)
            else:
                _broadcast_state(torch, dist, each, source, self.rank, device)
        progress.step = counts[source]


def run(train: Callable[[Group], Any], backend: Optional[str] = None) -> Any:
    """Calls `train(group)` with an initialised torch.distributed until it returns; returns its result.

    A RuntimeError, which a failed collective raises, is raised to the caller if no other worker has
    failed within 5 s. Otherwise the process leaves its group, becomes a worker of the next attempt,
    and `train` is called again. Other exceptions are raised at once.
    `backend` is that of init_process_group: by default NCCL with CUDA, else Gloo. Objects that exist
    when this is called are excluded from garbage collection (gc.freeze).
    """
    agent = _Agent.connect()
    connections = _Connections()
    while True:
        # _leave_group collects garbage: PyTorch's own objects would take most of that time.
        gc.freeze()
        try:
            return _attempt(train, backend, connections)
        except RuntimeError as error:  # what PyTorch raises for a collective that fails
            if agent is None:
                raise
            report_limit = time.monotonic() + _REPORT_LIMIT_S
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            _leave_group(error, connections)
            agent.left()
            if not agent.leave_ordered(report_limit):
                agent.close()
                raise
        environment = agent.next_attempt()
        print(f"longhaul: rank {os.environ['RANK']} continues as rank {environment['RANK']} of "
              f"{environment['WORLD_SIZE']} after: {text}", file=sys.stderr, flush=True)
        _close_worker_api()  # of the old attempt; the next call of the package opens the new one's
        os.environ.update(environment)


class _Connections:
    """The connections that a process group has made.

    Gloo's group waits, when it ends, for collectives that have begun. Two survivors of which each
    waits for the other's data would never end, so the connections are shut down before.
    """

    def __init__(self) -> None:
        self._made: Set[Tuple[int, str]] = set()

    @contextlib.contextmanager
    def record(self) -> Iterator[None]:
        """Everything connected meanwhile is taken for the group's."""
        before = self._sockets()
        try:
            yield
        finally:
            self._made = self._sockets() - before

    def shut_down(self) -> None:
        for descriptor, name in self._made:
            with contextlib.suppress(OSError):  # it is closed, or not connected any more
                copy = os.dup(descriptor)
                try:
                    # The number may be another file's by now. That of the copy cannot change.
                    if os.readlink(f"/proc/self/fd/{copy}") == name:
                        _shut_down_tcp(copy)
                finally:
                    os.close(copy)
        self._made.clear()

    @staticmethod
    def _sockets() -> Set[Tuple[int, str]]:
        found = set()
        for entry in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the descriptor of the folder itself
                name = os.readlink(f"/proc/self/fd/{entry}")
                if name.startswith("socket:"):
                    found.add((int(entry), name))
        return found


def _shut_down_tcp(descriptor: int) -> None:
    """Raises OSError for a socket that is not connected: Gloo ends the process if a listening one is
    shut down."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)


def _attempt(train: Callable[[Group], Any], backend: Optional[str], connections: _Connections) -> Any:
    import torch
    import torch.distributed as dist

    # PyTorch names a group by how many groups its process has made. A survivor whose last
    # init_process_group failed has made more than a new process, and would look for the others under another name.
    world = getattr(dist.distributed_c10d, "_world", None)
    if world is not None and not dist.is_initialized():
        world.group_count = 0
    with connections.record():
        dist.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    attempt = int(os.environ.get("LONGHAUL_ATTEMPT", "1"))
    result = train(Group(dist.get_rank(), dist.get_world_size(), attempt))
    if dist.is_initialized():
        dist.destroy_process_group()
    return result


def _leave_group(error: BaseException, connections: _Connections) -> None:
    """Ends the group's connections, so that the other ranks' collectives fail too.

    The frames of the failed function hold the model's wrapper, which holds the group.
    """
    import torch.distributed as dist

    connections.shut_down()
    each: Optional[BaseException] = error
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__context__
    gc.collect()
    if not dist.is_initialized():
        return
    try:
        if dist.get_backend() == "nccl":
            getattr(dist.distributed_c10d, "_abort_process_group", dist.destroy_process_group)()
        else:
            dist.destroy_process_group()
    except RuntimeError as failure:  # the group is broken; a new one does not use it
        print(f"longhaul: the old group was left with an error: {failure}", file=sys.stderr, flush=True)


def _device(torch: Any, dist: Any) -> Any:
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _broadcast(dist: Any, tensor: Any, source: int, device: Any) -> None:
    """In place. A tensor on another device than the group's is sent as a copy."""
    data = tensor.detach()
    if data.device.type == device.type and data.is_contiguous():
        dist.broadcast(data, source)
        return
    copy = data.to(device).contiguous()
    dist.broadcast(copy, source)
    data.copy_(copy)


def _broadcast_module(dist: Any, module: Any, source: int, device: Any) -> None:
    for tensor in list(module.parameters()) + list(module.buffers()):
        _broadcast(dist, tensor, source, device)


class _Slot:
    """The place of a tensor in a state of which the tensors are sent separately."""

    def __init__(self, shape: Any, dtype: Any, device: str):
        self.shape = shape
        self.dtype = dtype
        self.device = device


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _map(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_map(each, change) for each in value)
    return change(value)


def _broadcast_state(torch: Any, dist: Any, target: Any, source: int, rank: int, device: Any) -> None:
    tensors: List[Any] = []

    def take(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        tensors.append(value)
        return _Slot(tuple(value.shape), value.dtype, value.device.type)

    def place(value: Any) -> Any:
        if not isinstance(value, _Slot):
            return value
        where = device if value.device == device.type else torch.device(value.device)
        tensors.append(torch.empty(value.shape, dtype=value.dtype, device=where))
        return tensors[-1]

    outline = [_map(target.state_dict(), take) if rank == source else None]
    dist.broadcast_object_list(outline, source, device=device)
    state = None if rank == source else _map(outline[0], place)
    for tensor in tensors:
        _broadcast(dist, tensor, source, device)
    if state is not None:
        target.load_state_dict(state)


class _Agent:
    """The connection by which the agent keeps this process for the next attempt."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._next: Optional[bytes] = None  # the order to continue, if it was the first one

    @classmethod
    def connect(cls) -> Optional["_Agent"]:
        """Returns None without an agent; the function then runs once."""
        path = os.environ.get("LONGHAUL_AGENT_SOCKET")
        if not path:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        connection.connect(path)
        rank, attempt = int(os.environ["RANK"]), int(os.environ["LONGHAUL_ATTEMPT"])
        connection.send(_HELLO.pack(_CONTINUES, 0, _VERSION, rank, attempt, os.getpid()))
        return cls(connection)

    def left(self) -> None:
        try:
            self._connection.send(_HEADER.pack(_LEFT, 0))
        except OSError as failure:
            print(f"longhaul: the agent is gone: {failure}", file=sys.stderr, flush=True)

    def leave_ordered(self, until: float) -> bool:
        """Whether another worker has failed. The order to leave may have been sent before."""
        self._connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            packet = self._receive()
        except TimeoutError:
            return False
        finally:
            self._connection.settimeout(None)
        self._next = packet if packet is not None and _type_of(packet) == _CONTINUE else None
        return packet is not None

    def next_attempt(self) -> Dict[str, str]:
        """Blocks until the next attempt begins; the agent ends the process if there is none."""
        packet, self._next = self._next, None
        while packet is None or _type_of(packet) != _CONTINUE:
            packet = self._receive()
            if packet is None:
                raise SystemExit("longhaul: the agent has ended while this worker was kept")
        entries = packet[_ATTEMPT.size:].decode("utf-8", "surrogateescape").split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry)

    def close(self) -> None:
        self._connection.close()

    def _receive(self) -> Optional[bytes]:
        """The next order; None when the agent has closed the connection."""
        try:
            packet, logs, _, _ = socket.recv_fds(self._connection, _MAX_MESSAGE_BYTES, 1)
        except TimeoutError:
            raise
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
