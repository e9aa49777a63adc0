"""torch.distributed.checkpoint on Longhaul's storage.

    import torch.distributed.checkpoint as dcp
    from longhaul.dcp import Reader, Writer

    dcp.save(state, storage_writer=Writer("checkpoints", step))
    dcp.load(state, storage_reader=Reader("checkpoints"))

The planners stay PyTorch's own; `async_save` works as well. The checkpoint has Longhaul's format: `longhaul
checkpoint` and `load_checkpoint` read its tensors, every byte that is loaded was verified, and a step
is visible only once it is durable and complete. Values beside tensors (None, bool, int, float, str, and
lists and dicts of them) are stored as JSON; nothing is pickled. Requires PyTorch 2.4.
"""

import ctypes
import dataclasses
import io
import json
import os
from ctypes import byref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
    TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from . import _files, _state
from ._library import (
    FAILED_PRECONDITION, NOT_FOUND, CError, CPiece, LonghaulError, PartInfo, TensorInfo,
    tensor_arrays)

__all__ = ["Reader", "Writer"]

_VALUES = "longhaul/dcp"  # tensors of bytes: the values that each rank saved, as JSON


def _done(value: Any) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


class Writer(StorageWriter):
    """Writes one step of a folder of checkpoints."""

    def __init__(self, folder: str, step: int, *, job: str = "python") -> None:
        self.folder = os.path.abspath(folder)
        self.step, self.job = step, job
        self.attempt = 0

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id is not None:
            self.folder = os.path.abspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        """Called by the coordinator: gives each rank its number and the common attempt."""
        attempt = _files._next_attempt(self.folder)
        return [dataclasses.replace(plan, storage_data=(rank, len(plans), attempt))
                for rank, plan in enumerate(plans)]

    def write_data(self, plan: Any, planner: Any) -> Any:
        rank, world, self.attempt = plan.storage_data
        given: List[Tuple[TensorInfo, int, int]] = []
        kept: List[Any] = []
        values: Dict[str, Any] = {}
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                values[item.index.fqn] = self._value(item, planner)
                continue
            tensor = planner.resolve_data(item).detach().cpu().contiguous()
            kept.append(tensor)
            given.append((_info_of(item, tensor), *_state.memory(tensor, "torch")))
        if values:
            text = json.dumps(values).encode()
            buffer = ctypes.create_string_buffer(text, len(text))
            kept.append(buffer)
            given.append((TensorInfo(f"{_VALUES}.{rank}", "U8", (len(text),)),
                          ctypes.addressof(buffer), len(text)))
        piece, error = CPiece(), CError()
        array, parts, held = tensor_arrays(given)
        _files._raise(_files._functions().longhaul_write_piece(
            os.fsencode(self.folder), self.step, self.attempt, rank, world, array, parts, len(given),
            byref(piece), byref(error)), error)
        del held, kept
        facts = (piece.rank, piece.bytes, piece.header_bytes, piece.hash)
        results = [WriteResult(index=item.index, size_in_bytes=0, storage_data=facts)
                   for item in plan.items]
        # A rank without items of its own reports its file too.
        return _done(results or [WriteResult(MetadataIndex(""), size_in_bytes=0, storage_data=facts)])

    def _value(self, item: Any, planner: Any) -> Any:
        if not hasattr(planner, "lookup_object"):
            raise LonghaulError(FAILED_PRECONDITION, f"{item.index.fqn} is no tensor, and "
                                                     f"{type(planner).__name__} has no lookup_object")
        return json.loads(_state.flatten(planner.lookup_object(item.index))[1])

    def finish(self, metadata: Any, results: List[List[Any]]) -> None:
        """Called by the coordinator: commits the step."""
        pieces = [rank[0].storage_data for rank in results]
        array = (CPiece * len(pieces))(*[CPiece(*piece) for piece in pieces])
        error = CError()
        _files._raise(_files._functions().longhaul_commit(
            os.fsencode(self.folder), self.job.encode(), self.step, self.attempt, array, len(pieces),
            byref(error)), error)


def _info_of(item: Any, tensor: Any) -> TensorInfo:
    info = _state._describe((item.index.fqn,), tensor, "torch").info
    data = item.tensor_data
    shape, offset = tuple(map(int, data.size)), tuple(map(int, data.chunk.offsets))
    return info if info.shape == shape else info._replace(part=PartInfo(shape, offset))


class Reader(StorageReader):
    """Reads the newest committed step of a folder, or one step if `path` is the step's own folder."""

    def __init__(self, path: str) -> None:
        self.path = os.fspath(path)
        self.step: Optional[int] = None  # the step that is read, once it is open
        self._place = ""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id is not None:
            self.path = os.fspath(checkpoint_id)
        self._place = ""

    def _open(self) -> Any:
        if not self._place:
            found = [step for step in _files._steps(self.path) if step.state == _files._COMMITTED]
            if not found:
                raise LonghaulError(NOT_FOUND, f"no committed checkpoint in {self.path}")
            self._place, self.step = found[0].path, found[0].step
        return _files._Checkpoint(self._place)

    def read_metadata(self, *_: Any, **__: Any) -> Any:
        facts: Dict[str, Any] = {}
        with self._open() as checkpoint:
            for info in checkpoint.tensors():
                if not info.name.startswith("longhaul/"):
                    shape = torch.Size(info.shape)
                    dtype = getattr(torch, _state._DTYPES[info.dtype][2])
                    facts[info.name] = TensorStorageMetadata(
                        TensorProperties(dtype=dtype), shape,
                        [ChunkStorageMetadata(torch.Size([0] * len(shape)), shape)])
            for name in _values(checkpoint):
                facts[name] = BytesStorageMetadata()
        # The newest step may change while other ranks start to read: all of them use this one.
        return Metadata(facts, storage_data={"place": self._place, "step": self.step})

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *_: Any, **__: Any) -> None:
        self._place, self.step = metadata.storage_data["place"], metadata.storage_data["step"]

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> Any:
        with self._open() as checkpoint:
            infos = {info.name: info for info in checkpoint.tensors()}
            values = None
            given, made = [], []
            for item in plan.items:
                name = item.storage_index.fqn
                if item.type == LoadItemType.BYTE_IO:
                    values = _values(checkpoint) if values is None else values
                    stream = io.BytesIO()
                    torch.save(_state.unflatten(json.dumps(values[name]).encode(), []), stream)
                    stream.seek(0)
                    planner.load_bytes(item, stream)
                    continue
                info = infos[name]
                box = torch.empty(tuple(map(int, item.lengths)),
                                  dtype=getattr(torch, _state._DTYPES[info.dtype][2]))
                part = PartInfo(info.shape, tuple(map(int, item.storage_offsets)))
                wanted = TensorInfo(name, info.dtype, tuple(box.shape), part)
                given.append((wanted, *_state.memory(box, "torch")))
                made.append((item, box))
            checkpoint.read(given)
        for item, box in made:
            target = planner.resolve_tensor(item).detach()
            target.copy_(box)
            planner.commit_tensor(item, target)
        return _done(None)


def _values(checkpoint: Any) -> Dict[str, Any]:
    """The tree nodes of all values beside tensors, by name."""
    infos = [info for info in checkpoint.tensors() if info.name.startswith(_VALUES + ".")]
    buffers = [ctypes.create_string_buffer(_state.bytes_of(info)) for info in infos]
    checkpoint.read([(info, ctypes.addressof(buffer), len(buffer))
                     for info, buffer in zip(infos, buffers)])
    values: Dict[str, Any] = {}
    for buffer in buffers:
        values.update(json.loads(buffer.raw))
    return values
