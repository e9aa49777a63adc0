"""The state of a script in which each process holds all of it: one rank sends it to all others."""

from typing import Any, Callable, List, Sequence


def synchronize(torch: Any, dist: Any, step: int, objects: Sequence[Any], device: Any) -> int:
    """Gives all ranks the state of the rank with the most steps (of several, the lowest). Returns
    the number of its steps."""
    mine = torch.tensor([step], dtype=torch.int64, device=device)
    steps = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, mine)
    counts = [int(each.item()) for each in steps]
    source = counts.index(max(counts))
    for each in objects:
        if isinstance(each, torch.nn.Module):
            _broadcast_module(dist, each, source, device)
        else:
            _broadcast_state(torch, dist, each, source, dist.get_rank(), device)
    return counts[source]


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


def _broadcast_state(torch: Any, dist: Any, target: Any, source: int, rank: int,
                     device: Any) -> None:
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
