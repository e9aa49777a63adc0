"""Tensors of which this process holds one box: PyTorch's DTensor and ShardedTensor, and Part."""

import sys
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from ._library import INVALID_ARGUMENT, LonghaulError


class Part:
    """This process's box of a tensor whose other boxes are on other processes.

    Use this for sharding that PyTorch's classes do not describe. `local` (a torch tensor or a NumPy
    array) is the box that begins at `offset` in a tensor of `shape`.
    """

    def __init__(self, local: Any, shape: Sequence[int], offset: Sequence[int]) -> None:
        self.local = local
        self.shape = tuple(int(n) for n in shape)
        self.offset = tuple(int(n) for n in offset)
        extent = tuple(int(n) for n in local.shape)
        if not len(extent) == len(self.shape) == len(self.offset) or any(
                o < 0 or o + e > s for o, e, s in zip(self.offset, extent, self.shape)):
            raise LonghaulError(INVALID_ARGUMENT, f"a box of {extent} at {self.offset} does not "
                                                  f"lie in a tensor of {self.shape}")


class Held(NamedTuple):
    """The box of a tensor on this process, and whether this process saves it."""

    local: Any
    shape: Tuple[int, ...]
    offset: Tuple[int, ...]
    saves: bool


def _class_in(value: Any, module: str, name: str) -> bool:
    return any(base.__name__ == name and base.__module__.startswith(module)
               for base in type(value).__mro__)


def held(value: Any) -> Optional[Held]:
    """Returns the box of a sharded tensor; None for any other value."""
    if isinstance(value, Part):
        return Held(value.local, value.shape, value.offset, True)
    if "torch" not in sys.modules:
        return None
    if _class_in(value, "torch.distributed", "DTensor"):
        return _of_dtensor(value)
    if _class_in(value, "torch.distributed", "ShardedTensor"):
        return _of_sharded_tensor(value)
    return None


def cut(extent: int, parts: int, index: int) -> Tuple[int, int]:
    """Begin and end of part `index` of `parts`; like torch.chunk, the last ones are short."""
    each = -(-extent // parts)
    begin = min(extent, index * each)
    return begin, min(extent, begin + each)


def _of_dtensor(value: Any) -> Held:
    mesh, shape = value.device_mesh, tuple(int(n) for n in value.shape)
    coordinate = mesh.get_coordinate()
    offset, extent = [0] * len(shape), list(shape)
    saves = coordinate is not None
    for position, placement in enumerate(value.placements):
        kind = type(placement).__name__
        index = 0 if coordinate is None else coordinate[position]
        if kind == "Shard":
            begin, end = cut(extent[placement.dim], mesh.size(position), index)
            offset[placement.dim] += begin
            extent[placement.dim] = end - begin
        elif kind == "Replicate":
            saves = saves and index == 0
        else:
            raise LonghaulError(INVALID_ARGUMENT, f"a DTensor placed as {placement} can't be saved "
                                                  "as a box: redistribute it first")
    local = value.to_local()
    if coordinate is not None and tuple(local.shape) != tuple(extent):
        raise LonghaulError(INVALID_ARGUMENT, f"a DTensor of {shape} holds {tuple(local.shape)} "
                                              f"here, {tuple(extent)} was expected")
    return Held(local, shape, tuple(offset), saves)


def _of_sharded_tensor(value: Any) -> Held:
    torch = sys.modules["torch"]
    shape = tuple(int(n) for n in value.metadata().size)
    shards: List[Any] = value.local_shards()
    if len(shards) > 1:
        raise LonghaulError(INVALID_ARGUMENT, "a ShardedTensor with several local shards can't be "
                                              "saved: give each as a longhaul.Part")
    if not shards:
        dtype = value.metadata().tensor_properties.dtype
        return Held(torch.empty((0,) * len(shape), dtype=dtype), shape, (0,) * len(shape), True)
    metadata = shards[0].metadata
    return Held(shards[0].tensor, shape, tuple(int(n) for n in metadata.shard_offsets), True)
