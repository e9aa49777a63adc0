"""Snapshots in memory, restore and step reports for a training script that Longhaul runs.

    saved = longhaul.restore()
    if longhaul.due(step): longhaul.snapshot(state, step)
    longhaul.report(step, loss=loss)

See README.md of the package. At most one thread at a time may call these functions. Errors are
raised as LonghaulError or one of its subclasses.
"""

import atexit
import ctypes
import json
import math
import os
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _device, _objects, _state
from ._files import Saved, load_checkpoint, save
from ._library import (
    DATA_LOSS, FAILED_PRECONDITION, CheckpointDamaged, CheckpointWarning, CStep, DamagedStep, WorkerApi,
    LibraryNotFound, LonghaulError, TensorInfo, open_worker)
from ._sharded import Part

__all__ = ["CheckpointDamaged", "CheckpointWarning", "DamagedStep", "LibraryNotFound",
           "LonghaulError", "Part", "Saved", "available", "close", "due", "load_checkpoint",
           "prepare", "report", "restore", "result", "save", "snapshot", "snapshot_begin",
           "snapshot_way", "wait"]

_RESTORE, _STEPPING, _FINISHING = 3, 4, 5  # of longhaul_phase_kind
_EXIT_DAMAGED = 75  # the agent starts this process again from the next good copy


class _Session:
    """The worker API and the state that is kept between calls."""

    def __init__(self, worker: WorkerApi):
        self.worker = worker
        self.stepping = False
        self.registered: Optional[List[Tuple[TensorInfo, int, int]]] = None
        self.kept: List[Any] = []  # objects whose memory is registered
        self.pinned: Dict[str, Any] = {}  # buffers of device tensors, by name
        self.answer: Any = None  # the tensor that due() reduces over the ranks
        self.begun = False  # whether a snapshot was begun and not waited for

    def register(self, tensors: List[Tuple[TensorInfo, int, int]], kept: List[Any]) -> None:
        self.kept = kept
        if tensors != self.registered:
            self.worker.register(tensors)
            self.registered = tensors

    def settle(self) -> None:
        """Blocks until the pending snapshot is done. Its memory may be freed afterwards."""
        if self.begun:
            self.begun = False
            self.worker.snapshot_wait()


_session: Optional[_Session] = None
_opened = False


def _open() -> Optional[_Session]:
    global _session, _opened
    if not _opened:
        worker = open_worker()
        _opened = True
        if worker is not None:
            _session = _Session(worker)
            atexit.register(close)
    return _session


def available() -> bool:
    """Whether this process was started by Longhaul."""
    return _open() is not None


def restore(into: Any = None) -> Optional[Saved]:
    """Returns the newest state that the whole gang has, after verifying every byte.

    Returns None at the first start. `into` is a state of the same form, whose tensors are filled in
    place, and whose objects load their states. It is required for sharded tensors (DTensor,
    ShardedTensor, Part) and for objects. Without `into` the result contains whole tensors on the
    CPU.

    Call this once, before the first step. Exits with code 75 if the copy is damaged. The damage has
    then been reported to the agent, which starts the process again from the next good copy.
    """
    session = _open()
    if session is None:
        return None
    session.worker.phase(_RESTORE)
    try:
        saved = _read(session) if into is None else _read_into(session, into)
    except LonghaulError as error:
        if error.code != DATA_LOSS:
            raise
        print(f"longhaul: {error}", file=sys.stderr, flush=True)
        sys.exit(_EXIT_DAMAGED)
    session.worker.phase(_STEPPING)
    session.stepping = True
    return saved


def _read(session: _Session) -> Optional[Saved]:
    infos = session.worker.saved()
    if not infos:
        session.worker.restore()
        return None
    _check_tree(infos)
    values = [_state.fresh(_state.bytes_of(info)) for info in infos]
    buffers = [(ctypes.c_char * len(value)).from_buffer(value) if value else None
               for value in values]
    session.register([(info, ctypes.addressof(buffer) if buffer is not None else 0, len(value))
                      for info, buffer, value in zip(infos, buffers, values)], [values, buffers])
    step = session.worker.restore()
    tree = bytes(values[-1][:]).rstrip()
    tensors = [_state.view(info, kind, value)
               for info, kind, value in zip(infos, _state.kinds(tree, len(infos) - 1), values)]
    session.registered, session.kept = None, []
    return Saved(step, _state.unflatten(tree, tensors))


def _check_tree(infos: List[TensorInfo]) -> None:
    if not infos[-1].name.startswith(_state.TREE):
        raise LonghaulError(FAILED_PRECONDITION,
                            "the snapshot was not written by this package: its last tensor is "
                            f"{infos[-1].name}, not {_state.TREE}")


def _read_into(session: _Session, into: Any) -> Optional[Saved]:
    infos = session.worker.saved()
    if not infos:
        session.worker.restore()
        return None
    _check_tree(infos)
    captured = _objects.capture(into)
    tensors = _state.as_saved(_state.flatten(captured)[0], infos)
    hosts = [_state.host(tensor) for tensor in tensors]
    tree = ctypes.create_string_buffer(_state.bytes_of(infos[-1]))
    given = [(tensor.info, *_state.memory(value, tensor.kind))
             for tensor, value in zip(tensors, hosts)]
    given.append((infos[-1], ctypes.addressof(tree), len(tree)))
    session.register(given, [hosts, tree])
    step = session.worker.restore()
    for tensor, value in zip(tensors, hosts):
        if value is not tensor.value:
            _state.copy_back(tensor, value)
    session.registered, session.kept = None, []
    restored = _state.with_values(captured, json.loads(tree.raw.rstrip()))
    return Saved(step, _objects.put_back(into, restored))


def _tree_name(tensors: List["_state.Tensor"]) -> str:
    """The name of this rank's tree of values. With a sharded state each rank has its own tree."""
    if all(tensor.info.part is None for tensor in tensors):
        return _state.TREE
    rank = int(os.environ.get("RANK", "0"))
    return _state.TREE if rank == 0 else f"{_state.TREE}.{rank}"


def due(step: int) -> bool:
    """Returns whether a snapshot of the state after `step` is due. All ranks get the same result.

    This is a collective if torch.distributed is initialised: every rank must call it at every step.
    """
    session = _open()
    if session is None:
        return False
    if not session.stepping:
        session.worker.phase(_STEPPING)
        session.stepping = True
    wanted = session.worker.due(step)
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return wanted
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return wanted
    on_device = torch.distributed.get_backend() == "nccl"
    # The tensor is kept, because Gloo's thread releases its reference after the collective has
    # returned. If that were the last reference, the thread would need the interpreter's lock, which
    # an ending process holds while it waits for that thread (observed with PyTorch 1.13).
    if session.answer is None:
        session.answer = torch.zeros(1, dtype=torch.int32, device="cuda" if on_device else "cpu")
    session.answer.fill_(int(wanted))
    torch.distributed.all_reduce(session.answer, op=torch.distributed.ReduceOp.MAX)
    return bool(session.answer.item())


def snapshot(state: Any, step: int, *, stream: Any = None) -> None:
    """Copies the state after `step` to memory that outlives this process.

    Returns when the state may be written again. For a state with tensors on a device this is when
    page-locked buffers of this process hold it; a thread of the library copies them on, and the
    next snapshot, `result` and `close` wait for that. With a CUDA `stream` it returns as soon as
    the copy to the buffers has started; call `wait` before any part of the state is written again.
    A failed snapshot leaves the older ones unchanged; of a device's state it is raised by the next
    call that waits.
    """
    session = _open()
    if session is None:
        return
    session.settle()
    began = time.perf_counter_ns()
    flat = _flatten(state)
    if flat.on_device:
        _stage(session, flat, step, stream, began)
        return
    gathered = _gather(session, flat, stream)
    session.register(gathered.tensors, gathered.kept)
    session.worker.snapshot(step)


def _stage(session: _Session, flat: "_Flat", step: int, stream: Any, began: int) -> None:
    """A snapshot of a state with tensors on a device, which has stopped the caller since `began`."""
    gathered = _gather(session, flat, stream, own=stream is None)
    if stream is None:
        gathered.event.synchronize()
    session.register(gathered.tensors, gathered.kept)
    session.begun = True
    session.worker.snapshot_begin_staged(step, time.perf_counter_ns() - began,
                                         gathered.event.synchronize)


def snapshot_begin(state: Any, step: int) -> None:
    """Starts to copy the state after `step`. The snapshot contains the state at this call.

    This is for tensors in the process's own memory; a state with tensors on a device is copied as by
    `snapshot`. The state may be written immediately, but must not be freed. A write to memory that
    is not copied yet blocks until it is. To avoid such waits, call this after the optimizer's step
    and call `wait` before the next one. If a direct copy was measured to stop training for less
    time, this function copies directly.
    """
    session = _open()
    if session is None:
        return
    session.settle()
    began = time.perf_counter_ns()
    flat = _flatten(state)
    if flat.on_device:
        _stage(session, flat, step, None, began)
        return
    gathered = _gather(session, flat, None)
    session.register(gathered.tensors, gathered.kept)
    session.worker.snapshot_begin(step)
    session.begun = True


def snapshot_way() -> str:
    """How the last snapshot was copied, and the measured time that each method stops training."""
    session = _open()
    return "" if session is None else session.worker.snapshot_way()


def prepare(state: Any) -> None:
    """Allocates the memory for snapshots of a state of this form, asynchronously.

    Use this for a state that was not restored, once it is complete (optimizers create their state
    at the first step). The first snapshot then costs no more than the others. The call is optional.
    """
    session = _open()
    if session is None:
        return
    session.settle()
    gathered = _gather(session, _flatten(state), None)
    if gathered.event is not None:
        gathered.event.synchronize()
    session.register(gathered.tensors, gathered.kept)


class _Gathered(NamedTuple):
    tensors: List[Tuple[TensorInfo, int, int]]
    kept: List[Any]  # the objects that own this memory
    event: Any  # completes with the copies from a device; None: there are no such copies


class _Flat(NamedTuple):
    tensors: List["_state.Tensor"]
    tree: bytes
    on_device: bool  # at least one tensor is


def _on_device(tensor: "_state.Tensor") -> bool:
    return tensor.kind == "torch" and _device.device.holds(tensor.value)


def _flatten(state: Any) -> _Flat:
    tensors, tree = _state.flatten(_objects.capture(state))
    return _Flat(tensors, tree, any(map(_on_device, tensors)))


def _gather(session: _Session, flat: _Flat, stream: Any, own: bool = False) -> _Gathered:
    """The state's tensors in host memory; copies from a device may still be in progress.

    With `own`, all of this memory belongs to the package, so that the caller may write the state
    while the memory is read.
    """
    tensors, tree, on_device = flat
    device = _device.device
    values = []
    for tensor in tensors:
        value = tensor.value
        if _on_device(tensor):
            buffer = _pinned(session, tensor)
            device.copy(value, buffer, stream)
            value = buffer
        elif own:
            value = value.copy() if tensor.kind == "numpy" else value.contiguous().clone()
        elif tensor.kind == "torch":
            value = value.contiguous()
        values.append(value)
    event = device.mark(stream) if on_device else None
    padded = ctypes.create_string_buffer(_state.pad(tree), len(_state.pad(tree)))
    given = [(tensor.info, *_state.memory(value, tensor.kind))
             for tensor, value in zip(tensors, values)]
    given.append((TensorInfo(_tree_name(tensors), "U8", (len(padded),)),
                  ctypes.addressof(padded), len(padded)))
    return _Gathered(given, [values, padded], event)


def _pinned(session: _Session, tensor: "_state.Tensor") -> Any:
    """The tensor's host buffer, which is reused as long as shape and dtype stay the same."""
    value = tensor.value
    buffer = session.pinned.get(tensor.info.name)
    if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
        buffer = _device.device.pinned(value)
        session.pinned[tensor.info.name] = buffer
    return buffer


def wait() -> None:
    """Blocks until a pending snapshot is done; raises its error if it failed."""
    session = _open()
    if session is not None:
        session.settle()


def report(step: int, *, loss: Optional[float] = None, validation_loss: Optional[float] = None,
           gradient_norm: Optional[float] = None, tokens: int = 0, flops: float = 0.0,
           data_seconds: float = 0.0, evaluation_seconds: float = 0.0,
           communication_seconds: float = 0.0) -> None:
    """Reports a completed step, its results and its costs, for the goodput ledger.

    A loss that is NaN or infinite is reported as not finite, and the controller warns of it.
    """
    session = _open()
    if session is None:
        return
    nothing = math.nan
    if loss is not None and math.isnan(loss):
        loss = math.inf  # in longhaul_step, NaN is an unknown loss
    session.worker.report(CStep(
        step, int(data_seconds * 1e9), 0, int(evaluation_seconds * 1e9),
        int(communication_seconds * 1e9), nothing if loss is None else loss,
        nothing if validation_loss is None else validation_loss,
        nothing if gradient_norm is None else gradient_norm, tokens, flops))


def result(json_text: str) -> None:
    """Sends JSON text of at most 64 KiB for the job's report."""
    session = _open()
    if session is not None:
        session.settle()
        session.worker.result(json_text)


def close() -> None:
    """Closes the connection. This happens automatically when the process ends."""
    global _session, _opened
    session, _session, _opened = _session, None, False
    if session is None:
        return
    atexit.unregister(close)
    session.worker.close()  # blocks until a snapshot that was begun is done
