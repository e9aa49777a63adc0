"""Checkpoints on disk without an agent: saved by any number of processes, loaded by any other.

Each process writes its own pieces and reads its own boxes: nothing is gathered. With
torch.distributed initialised, `save` is a collective; every process may call `load` alone.
"""

import ctypes
import json
import os
import re
import sys
from ctypes import byref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _state
from ._library import (
    FAILED_PRECONDITION, NOT_FOUND, CError, CPiece, LonghaulError, TensorInfo, find_library, load,
    tensor_arrays)


class Saved(NamedTuple):
    """A restored state and the step after which it was taken."""

    step: int
    state: Any


_library: Optional[ctypes.CDLL] = None
_epochs: Dict[str, int] = {}  # of the folders that this process has saved to


def _functions() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = load(find_library())
    return _library


def _raise(code: int, error: CError) -> None:
    if code != 0:
        raise LonghaulError(code, error.message.decode(errors="replace"))


def _distributed() -> Any:
    """torch.distributed where it is initialised."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    return torch.distributed if torch.distributed.is_initialized() else None


def _next_epoch(folder: str) -> int:
    """One above every epoch in the folder: a step that is saved again never meets its older self."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [re.fullmatch(r"step-\d+\.e(\d+)(\.partial)?", name) for name in names]
    return max((int(match.group(1)) for match in found if match), default=-1) + 1


def _share(distributed: Any, value: Any) -> List[Any]:
    """The values of all processes, by rank."""
    if distributed is None:
        return [value]
    values: List[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def _attempt(work: Any) -> Tuple[Any, Optional[LonghaulError]]:
    try:
        return work(), None
    except LonghaulError as error:
        return None, error


def _agree(distributed: Any, result: Any, error: Optional[LonghaulError]) -> List[Any]:
    """What every process made; all of them raise when one failed, so that none waits for it."""
    told = _share(distributed, (result, None if error is None else (error.code, str(error))))
    if error is not None:
        raise error
    for rank, (_, other) in enumerate(told):
        if other is not None:
            raise LonghaulError(other[0], f"rank {rank}: {other[1]}")
    return [made for made, _ in told]


def save(folder: str, state: Any, step: int, *, job: str = "python",
         finite: bool = False) -> None:
    """Saves the state after `step` as a checkpoint in `folder`; when it returns it is durable.

    Sharded tensors (DTensor, ShardedTensor, Part) are saved as the boxes that the processes hold,
    other tensors and values by rank 0. A failure on any rank raises on all of them, and leaves the
    older checkpoints as they were. With `finite`, a tensor that holds a NaN or an infinity is such
    a failure: a poisoned state is never the newest checkpoint.
    """
    distributed = _distributed()
    rank = 0 if distributed is None else distributed.get_rank()
    world = 1 if distributed is None else distributed.get_world_size()
    folder = os.path.abspath(folder)

    def begin() -> int:
        if rank == 0 and folder not in _epochs:
            _epochs[folder] = _next_epoch(folder)
        return _epochs.get(folder, 0)

    epoch = _agree(distributed, *_attempt(begin))[0]
    if world > 1 or distributed is not None:
        _epochs[folder] = epoch

    def write() -> Tuple[int, int, int, int]:
        tensors, tree = _state.flatten(state)
        poisoned = _state.not_finite(tensors) if finite else []
        if poisoned:
            raise LonghaulError(FAILED_PRECONDITION, f"not saved, {len(poisoned)} tensors hold NaN "
                                                     f"or infinities: {', '.join(poisoned[:5])}")
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
            os.fsencode(folder), step, epoch, rank, world, array, parts, len(given), byref(piece),
            byref(error)), error)
        del held
        return piece.rank, piece.bytes, piece.header_bytes, piece.hash

    pieces = _agree(distributed, *_attempt(write))

    def commit() -> None:
        if rank != 0:
            return
        array = (CPiece * world)(*[CPiece(*piece) for piece in pieces])
        error = CError()
        _raise(_functions().longhaul_commit(
            os.fsencode(folder), job.encode(), step, epoch, array, world, byref(error)), error)

    _agree(distributed, *_attempt(commit))


class _Checkpoint:
    """One that is open."""

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


def load_checkpoint(path: str, into: Any = None) -> Optional[Saved]:
    """The newest committed step of a folder, or one step by its own folder; None when there is none.

    With `into`, a state of the same names: its tensors are filled in place, each process's boxes of
    them, whatever layout they were saved from, and the result is that state with the saved values
    in it. Without, all of it as whole tensors on the CPU. Every byte that is used was verified.
    """
    try:
        checkpoint = _Checkpoint(path)
    except LonghaulError as error:
        if error.code == NOT_FOUND:
            return None
        raise
    with checkpoint:
        if into is None:
            return Saved(checkpoint.step, _load_whole(checkpoint))
        tensors, _ = _state.flatten(into)
        given, after = [], []
        for tensor in tensors:
            value = _state.host(tensor)
            if value is not tensor.value:
                after.append((tensor, value))
            given.append((tensor.info, *_state.memory(value, tensor.kind)))
        checkpoint.read(given)
        for tensor, value in after:
            _state.copy_back(tensor, value)
        return Saved(checkpoint.step, _state.with_values(into, checkpoint.tree))


def _load_whole(checkpoint: _Checkpoint) -> Any:
    infos, tree = checkpoint.tensors(), checkpoint.tree
    values = [bytearray(_state.bytes_of(info)) for info in infos]
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
