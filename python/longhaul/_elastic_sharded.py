"""The state of a script in which each process holds a shard: `fully_shard`, PyTorch 2.6 and newer.

The model of an attempt is bound to its groups, so each attempt makes it anew, and the state moves
from the survivors' old model to the new one. Ranks that hold the same boxes of the same tensors
are replicas of each other (one dimension of a mesh of two). If the newest step that a rank still
has exists for each set of boxes, it is sent to the ranks that lack it, and no step is lost. Else
all ranks return to the newest snapshot that is complete.
"""

import hashlib
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

from . import _objects, _sharded, _state


class Carried(NamedTuple):
    """A survivor's state after `step`, without anything that holds a group."""

    step: int
    boxes: int  # equal on ranks that hold the same boxes
    tensors: List[Any]
    tree: bytes


def named(torch: Any, objects: Sequence[Any]) -> Dict[str, Any]:
    """The objects under the names that they have in snapshots: model, optimizer, object; a second
    one of a kind is model2."""
    found: Dict[str, Any] = {}
    for each in objects:
        kind = ("model" if isinstance(each, torch.nn.Module) else
                "optimizer" if isinstance(each, torch.optim.Optimizer) else "object")
        number = sum(1 for name in found if name.rstrip("0123456789") == kind) + 1
        found[kind if number == 1 else f"{kind}{number}"] = each
    return found


def check(torch: Any, objects: Sequence[Any], world_size: int) -> Optional[bool]:
    """None: no object is sharded. Else whether each shard is on several ranks.

    Raises ValueError for what cannot be continued, with the remedy.
    """
    kinds: List[Set[str]] = []
    mesh = None
    for module in (each for each in objects if isinstance(each, torch.nn.Module)):
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not _sharded._class_in(tensor, "torch.distributed", "DTensor"):
                continue
            if mesh is None:
                mesh = tensor.device_mesh
                kinds = [set() for _ in range(mesh.ndim)]
            if tensor.device_mesh != mesh:
                raise ValueError(f"parameter {name} is on the device mesh {tensor.device_mesh}, "
                                 f"and others are on {mesh}: longhaul.elastic supports one mesh; "
                                 "use the same mesh in every call of fully_shard")
            for kind, placement in zip(kinds, tensor.placements):
                kind.add(type(placement).__name__)
        _refuse(module, mesh is not None)
    if mesh is None:
        return None
    _check_mesh(mesh, kinds, world_size)
    return bool(mesh.ndim == 2)


def _refuse(module: Any, sharded: bool) -> None:
    for each in module.modules():
        if type(each).__name__ == "FullyShardedDataParallel":
            raise ValueError("the model contains a FullyShardedDataParallel, which "
                             "longhaul.elastic does not support: use "
                             "torch.distributed.fsdp.fully_shard")
        compiled = getattr(each, "_compiled_call_impl", None) is not None
        if sharded and (compiled or type(each).__name__ == "OptimizedModule"):
            raise ValueError("the model is sharded and compiled: longhaul.elastic does not support "
                             "torch.compile with fully_shard; leave torch.compile out")


def _check_mesh(mesh: Any, kinds: List[Set[str]], world_size: int) -> None:
    allowed = ([{"Shard"}], [{"Replicate"}, {"Shard"}])
    if kinds not in allowed:
        found = ", ".join(f"dimension {number}: {' and '.join(sorted(kind))}"
                          for number, kind in enumerate(kinds))
        raise ValueError(
            f"the model's parameters are placed on {mesh} as {found}: longhaul.elastic supports "
            "fully_shard with a mesh of one dimension, or of two, of which the first replicates "
            "and the second shards. Tensor, pipeline and expert parallelism are not supported: "
            "start such a script without longhaul.elastic, with longhaul.snapshot")
    if mesh.size() != world_size:
        raise ValueError(f"the model's device mesh {mesh} has {mesh.size()} ranks, and the job has "
                         f"{world_size}: longhaul.elastic requires a mesh of all ranks")


def boxes_of(state: Dict[str, Any], torch: Any) -> int:
    """A number that is equal on ranks that hold the same boxes of the modules' tensors."""
    digest = hashlib.sha256()
    modules = {name: each for name, each in state.items() if isinstance(each, torch.nn.Module)}
    for tensor in _state.flatten(_objects.capture(modules))[0]:
        digest.update(repr(tensor.info).encode())
    return int.from_bytes(digest.digest()[:7], "little")


def carry(step: int, boxes: int, state: Dict[str, Any]) -> Carried:
    """The state of a failed attempt. `step` is at least 1, so that the optimizer has a state."""
    tensors, tree = _state.flatten(_objects.capture(state))
    return Carried(step, boxes, [tensor.value for tensor in tensors], tree)


def common_step(held: Sequence[int], boxes: Sequence[int]) -> Optional[int]:
    """The newest step that a rank of each set of boxes holds; 0 stands for no state."""
    steps = [{step for step, other in zip(held, boxes) if other == each and step > 0}
             for each in set(boxes)]
    return max(set.intersection(*steps), default=None)


def from_replicas(torch: Any, dist: Any, state: Dict[str, Any], carried: Optional[Carried],
                  step: int, held: Sequence[int], boxes: Sequence[int], device: Any) -> None:
    """Fills `state` with the state after `step`, which a rank with this one's boxes holds."""
    rank = dist.get_rank()
    peers = [each for each, other in enumerate(boxes) if other == boxes[rank]]
    source = next(each for each in peers if held[each] == step)
    captured = _objects.capture(state)
    tensors = [tensor.value for tensor in _state.flatten(captured)[0]]
    tree = b""
    if carried is not None and carried.step == step:
        tree = carried.tree
        _check_same([list(each.shape) for each in carried.tensors], tensors)
        for into, value in zip(tensors, carried.tensors):
            into.copy_(value)
        for peer in peers if rank == source else []:
            if held[peer] != step:
                _send(torch, dist, tensors, tree, peer, device)
    else:
        tree = _receive(torch, dist, tensors, source, device)
    _objects.put_back(state, _state.with_values(captured, json.loads(tree)))


def _check_same(shapes: List[List[int]], tensors: List[Any]) -> None:
    own = [list(each.shape) for each in tensors]
    if shapes != own:
        raise ValueError(f"the state of the survivors has {len(shapes)} tensors of other shapes "
                         f"than the {len(own)} of this process: make the same objects in each "
                         "attempt, and give them to synchronize in the same order on every rank")


def _send(torch: Any, dist: Any, tensors: List[Any], tree: bytes, peer: int, device: Any) -> None:
    shapes = json.dumps([list(each.shape) for each in tensors]).encode()
    for data in (shapes, tree):
        dist.send(torch.tensor([len(data)], dtype=torch.int64, device=device), peer)
        dist.send(torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device), peer)
    for each in tensors:
        if each.numel() > 0:
            dist.send(each.to(device).contiguous(), peer)


def _receive(torch: Any, dist: Any, tensors: List[Any], source: int, device: Any) -> bytes:
    def receive_bytes() -> bytes:
        size = torch.zeros(1, dtype=torch.int64, device=device)
        dist.recv(size, source)
        data = torch.empty(int(size.item()), dtype=torch.uint8, device=device)
        dist.recv(data, source)
        return bytes(data.cpu().numpy())

    shapes, tree = receive_bytes(), receive_bytes()
    _check_same(json.loads(shapes), tensors)
    for each in tensors:
        if each.numel() > 0:
            data = torch.empty(each.shape, dtype=each.dtype, device=device)
            dist.recv(data, source)
            each.copy_(data)
    return tree
