"""Checkpoints on disk without an agent, saved and loaded by any number of processes.

Each process writes its own pieces and reads its own boxes; no process gathers the state. If
torch.distributed is initialised, `save` is a collective. `load_checkpoint` is a collective only
with `together`; otherwise every process may call it alone.
"""

import ctypes
import json
import os
import re
import sys
import warnings
from ctypes import byref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _objects, _state
from ._library import (
    DATA_LOSS, FAILED_PRECONDITION, INTERNAL, NOT_FOUND, CError, CheckpointDamaged,
    CheckpointWarning, CPiece, DamagedStep, LonghaulError, TensorInfo, find_library, load,
    tensor_arrays)


class Saved(NamedTuple):
    """A restored state and the step after which it was taken."""

    step: int
    state: Any


_library: Optional[ctypes.CDLL] = None
_attempts: Dict[str, int] = {}  # attempt of each folder that this process has saved to
_newest: Dict[str, int] = {}  # last step saved to each folder
_COMMITTED, _DAMAGED = 1, 2  # of longhaul_step_state


def _functions() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = load(find_library())
    return _library


def _raise(code: int, error: CError) -> None:
    if code != 0:
        raise LonghaulError(code, error.message.decode(errors="replace"))


def _distributed() -> Any:
    """torch.distributed if it is initialised, otherwise None."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    return torch.distributed if torch.distributed.is_initialized() else None


def _next_attempt(folder: str) -> int:
    """One more than the highest attempt in the folder, so that no saved step is overwritten."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [re.fullmatch(r"step-\d+\.e(\d+)(\.partial)?", name) for name in names]
    return max((int(match.group(1)) for match in found if match), default=-1) + 1


def _share(distributed: Any, value: Any) -> List[Any]:
    """Gathers the values of all processes, by rank."""
    if distributed is None:
        return [value]
    values: List[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def _catch(work: Any) -> Tuple[Any, Optional[Exception]]:
    """The result or the exception of `work`. Catches all, because other processes wait for it."""
    try:
        return work(), None
    except Exception as error:  # pylint: disable=broad-except
        return None, error


def _error_pair(error: Optional[Exception]) -> Optional[Tuple[int, str]]:
    if error is None:
        return None
    if isinstance(error, LonghaulError):
        return error.code, str(error)
    return INTERNAL, f"{type(error).__name__}: {error}"


def _agree(distributed: Any, result: Any, error: Optional[Exception]) -> List[Any]:
    """The results of all processes. All of them raise if one failed, so that none blocks."""
    shared = _share(distributed, (result, _error_pair(error)))
    if error is not None:
        raise error
    for rank, (_, other) in enumerate(shared):
        if other is not None:
            raise LonghaulError(other[0], f"rank {rank}: {other[1]}")
    return [made for made, _ in shared]


def save(folder: str, state: Any, step: int, *, job: str = "python",
         finite: bool = False) -> None:
    """Saves the state after `step` as a checkpoint in `folder`. It is durable when this returns.

    Sharded tensors (DTensor, ShardedTensor, Part) are saved as the boxes that the processes hold.
    Rank 0 saves other tensors and values. A failure on any rank raises an exception on all ranks
    and leaves the older checkpoints unchanged. With `finite`, a tensor that contains NaN or an
    infinity is such a failure, so that a non-finite state is never the newest checkpoint.
    """
    distributed = _distributed()
    rank = 0 if distributed is None else distributed.get_rank()
    world = 1 if distributed is None else distributed.get_world_size()
    folder = os.path.abspath(folder)

    def begin() -> int:
        if rank != 0:
            return 0
        _functions()
        if folder not in _attempts:
            return _next_attempt(folder)
        # A step that was saved before is not changed; its replacement has a higher attempt.
        return _attempts[folder] + (1 if step <= _newest.get(folder, 0) else 0)

    attempt = _agree(distributed, *_catch(begin))[0]
    _attempts[folder] = attempt

    def write() -> Tuple[int, int, int, int]:
        tensors, tree = _state.flatten(_objects.capture(state))
        non_finite = _state.not_finite(tensors) if finite else []
        if non_finite:
            raise LonghaulError(FAILED_PRECONDITION, f"not saved, {len(non_finite)} tensors hold NaN "
                                                     f"or infinities: {', '.join(non_finite[:5])}")
        kept: List[Any] = []
        given = []
        for tensor in tensors:
            if not (tensor.saves if tensor.info.part is not None else rank == 0):
                continue
            value = _state.host(tensor)
            kept.append(value)
            given.append((tensor.info, *_state.memory(value, tensor.kind)))
        if rank == 0:
            tree = _state.pad(_state.renumber(tree, tensors))
            buffer = ctypes.create_string_buffer(tree, len(tree))
            kept.append(buffer)
            given.append((TensorInfo(_state.TREE, "U8", (len(tree),)), ctypes.addressof(buffer),
                          len(tree)))
        piece, error = CPiece(), CError()
        array, parts, held = tensor_arrays(given)
        _raise(_functions().longhaul_write_piece(
            os.fsencode(folder), step, attempt, rank, world, array, parts, len(given), byref(piece),
            byref(error)), error)
        del held
        return piece.rank, piece.bytes, piece.header_bytes, piece.hash

    pieces = _agree(distributed, *_catch(write))

    def commit() -> None:
        if rank != 0:
            return
        array = (CPiece * world)(*[CPiece(*piece) for piece in pieces])
        error = CError()
        _raise(_functions().longhaul_commit(
            os.fsencode(folder), job.encode(), step, attempt, array, world, byref(error)), error)

    _agree(distributed, *_catch(commit))
    _newest[folder] = step


class _Checkpoint:
    """An open checkpoint."""

    def __init__(self, path: str):
        self.library = _functions()
        error = CError()
        self.handle = self.library.longhaul_checkpoint_open(os.fsencode(path), byref(error))
        if not self.handle:
            raise LonghaulError(error.code, error.message.decode(errors="replace"))

    def __enter__(self) -> "_Checkpoint":
        return self

    def __exit__(self, *_: Any) -> None:
        self.library.longhaul_checkpoint_close(self.handle)

    @property
    def step(self) -> int:
        return int(self.library.longhaul_checkpoint_step(self.handle))

    @property
    def tree(self) -> Optional[Dict[str, Any]]:
        text = self.library.longhaul_checkpoint_tree(self.handle)
        if not text and any(info.name == _state.TREE for info in self.tensors()):
            raise LonghaulError(FAILED_PRECONDITION, f"the values in {_state.TREE} are not as this "
                                                     "version of the package writes them")
        return json.loads(text) if text else None

    def tensors(self) -> List[TensorInfo]:
        count = ctypes.c_size_t()
        array = self.library.longhaul_checkpoint_tensors(self.handle, byref(count))
        return [TensorInfo(array[i].name.decode(), array[i].dtype.decode(),
                           tuple(array[i].shape[d] for d in range(array[i].dims)))
                for i in range(count.value)]

    def read(self, given: List[Tuple[TensorInfo, int, int]]) -> int:
        array, parts, held = tensor_arrays(given)
        count, error = ctypes.c_uint64(), CError()
        _raise(self.library.longhaul_checkpoint_read(
            self.handle, array, parts, len(given), byref(count), byref(error)), error)
        del held
        return int(count.value)


class _Step(NamedTuple):
    """A step in a folder of checkpoints."""

    step: int
    attempt: int
    state: int
    path: str
    reason: str
    complete: bool

    def damaged(self, reason: str) -> DamagedStep:
        return DamagedStep(self.step, self.attempt, self.path, reason)


def _steps(path: str) -> List[_Step]:
    """The steps of a folder, newest first. A folder that does not exist has none."""
    library, error, count = _functions(), CError(), ctypes.c_size_t()
    handle = library.longhaul_steps_open(os.fsencode(path), byref(error))
    if not handle:
        raise LonghaulError(error.code, error.message.decode(errors="replace"))
    try:
        array = library.longhaul_steps_get(handle, byref(count))
        return [_Step(array[i].step, array[i].attempt, array[i].state, os.fsdecode(array[i].path),
                      array[i].reason.decode(errors="replace"), bool(array[i].complete))
                for i in range(count.value)]
    finally:
        library.longhaul_steps_close(handle)


def load_checkpoint(path: str, into: Any = None, *, together: bool = False) -> Optional[Saved]:
    """Loads the newest committed step of a folder, or one step if `path` is the step's own folder.

    Returns None only if nothing was ever committed there. If a step is damaged, this loads the next
    older one and issues a CheckpointWarning with the damaged step, the reason and the number of
    lost steps. If no step is left, it raises CheckpointDamaged. A missing library raises
    LibraryNotFound.

    `into` is a state with the same names. Its tensors are filled in place, on each process with
    that process's boxes, independently of the layout of the checkpoint. The result is that state
    with the saved values. After an exception the content of the tensors is undefined. Without
    `into` the result contains all tensors, whole, on the CPU. Every byte that is used was verified.

    With `together`, every process of torch.distributed must call this, and all of them load the
    same step: the newest one that is good for all. Without it, a process in a job of several
    processes that finds damage in its own boxes raises CheckpointDamaged, because the other
    processes may not read the damaged bytes.
    """
    distributed = _distributed() if together else None
    path = os.fspath(path)
    steps = _agree(distributed, *_catch(lambda: _steps(path)))[0]
    damaged: List[DamagedStep] = []
    for step in steps:
        if step.state == _DAMAGED:
            damaged.append(step.damaged(step.reason))
        if step.state != _COMMITTED:
            continue
        saved, reason = _load_agreed(distributed, step, into, damaged)
        if saved is not None:
            _warn_of_loss(path, damaged, saved.step)
            return saved
        if reason:
            damaged.append(step.damaged(reason))
    if damaged:
        raise CheckpointDamaged(
            f"no checkpoint in {path} can be loaded: {_listed(damaged)}. Bring a copy of it back, "
            "or remove the folder to start from scratch", damaged)
    left = [step for step in steps if step.complete]
    if left:
        warnings.warn(CheckpointWarning(
            f"{path}: step {left[0].step} has the files of all ranks but no MANIFEST: it was never "
            "committed, or the MANIFEST was removed; nothing is loaded"), stacklevel=2)
    return None


def _listed(damaged: List[DamagedStep]) -> str:
    return "; ".join(f"step {one.step} is damaged ({one.reason})" for one in damaged)


def _warn_of_loss(path: str, damaged: List[DamagedStep], step: int) -> None:
    if not damaged:
        return
    lost = damaged[0].step - step
    said = (f"{lost} steps of training are lost" if lost > 1 else
            f"{'one' if lost else 'no'} step of training is lost")
    warnings.warn(CheckpointWarning(
        f"{path}: {_listed(damaged)}; step {step} was loaded in its place, {said}"), stacklevel=3)


def _load_agreed(distributed: Any, step: _Step, into: Any,
                 damaged: List[DamagedStep]) -> Tuple[Optional[Saved], str]:
    """The loaded step, or the reason why it is damaged; neither if it was removed meanwhile."""
    saved, error = _catch(lambda: _load_step(step.path, into))
    shared = _share(distributed, _error_pair(error))
    failures = [(rank, *one) for rank, one in enumerate(shared) if one]
    for rank, code, text in failures:
        gone = code == NOT_FOUND and not os.path.exists(os.path.join(step.path, "MANIFEST"))
        if code != DATA_LOSS and not gone:
            raise error or LonghaulError(code, f"rank {rank}: {text}")
    if not failures:
        return saved, ""
    reason = next((text for _, code, text in failures if code == DATA_LOSS), "")
    several = _distributed()
    if reason and into is not None and distributed is None and several is not None \
            and several.get_world_size() > 1:
        raise CheckpointDamaged(
            f"{reason}. The other processes may not read these bytes: load with together=True, so "
            "that all of them take the same older step", damaged + [step.damaged(reason)])
    return None, reason


def _load_step(path: str, into: Any) -> Saved:
    with _Checkpoint(path) as checkpoint:
        if into is None:
            return Saved(checkpoint.step, _load_whole(checkpoint))
        captured = _objects.capture(into)
        tensors = _state.as_saved(_state.flatten(captured)[0], checkpoint.tensors())
        given, after = [], []
        for tensor in tensors:
            value = _state.host(tensor)
            if value is not tensor.value:
                after.append((tensor, value))
            given.append((tensor.info, *_state.memory(value, tensor.kind)))
        checkpoint.read(given)
        for tensor, value in after:
            _state.copy_back(tensor, value)
        restored = _state.with_values(captured, checkpoint.tree)
        return Saved(checkpoint.step, _objects.put_back(into, restored))


def _load_whole(checkpoint: _Checkpoint) -> Any:
    infos, tree = checkpoint.tensors(), checkpoint.tree
    values = [_state.fresh(_state.bytes_of(info)) for info in infos]
    buffers = [(ctypes.c_char * len(value)).from_buffer(value) if value else None
               for value in values]
    checkpoint.read([(info, ctypes.addressof(buffer) if buffer is not None else 0, len(value))
                     for info, buffer, value in zip(infos, buffers, values)])
    del buffers
    if tree is None:
        kind = "torch" if "torch" in sys.modules else "numpy"
        return {info.name: _state.view(info, kind, value) for info, value in zip(infos, values)}
    text = json.dumps(tree).encode()
    kinds = _state.kinds(text, len(infos))
    return _state.unflatten(text, [_state.view(info, kind or "torch", value)
                                   for info, kind, value in zip(infos, kinds, values)])


__all__ = ["Saved", "load_checkpoint", "save"]
