"""Objects of a state that have states of their own: modules, optimizers, loaders, schedulers.

`capture` replaces each of them by its state, `put_back` loads the restored states into them. A sharded
module keeps its shards. An optimizer whose module is part of the same state is captured with the names
of the parameters, so that it can be restored in another number of processes, and before its first
step.
"""

import sys
from typing import Any, Iterator, List, Optional

from . import _sharded


def _is_object(value: Any) -> bool:
    """Whether this value has a state of its own. Tensors and containers do not."""
    if isinstance(value, (dict, list, tuple, str, int, float, bool, type)) or value is None:
        return False
    return callable(getattr(value, "state_dict", None)) and \
        callable(getattr(value, "load_state_dict", None))


def _objects(state: Any) -> Iterator[Any]:
    if _is_object(state):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from _objects(value)
    elif isinstance(state, (list, tuple)) and _sharded.held(state) is None:
        for value in state:
            yield from _objects(value)


def _functions() -> Any:
    """PyTorch's functions for the states of distributed objects, where it has them (2.2 and later)."""
    try:
        from torch.distributed.checkpoint import state_dict
    except (ImportError, ValueError):  # ValueError: PyTorch 1.13 under Python 3.11
        return None
    return state_dict


def _parameters(optimizer: Any) -> List[Any]:
    return [value for group in optimizer.param_groups for value in group["params"]]


def _module_of(optimizer: Any, state: Any) -> Optional[Any]:
    """The module of the state that has all parameters of the optimizer."""
    torch = sys.modules["torch"]
    wanted = {id(value) for value in _parameters(optimizer)}
    for each in _objects(state):
        if isinstance(each, torch.nn.Module) and \
                wanted <= {id(value) for value in each.parameters()}:
            return each
    return None


def _named(value: Any, whole: Any) -> Any:
    """The module whose names an optimizer's state gets; None: the state has numbers."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.optim.Optimizer):
        return None
    return _module_of(value, whole) if _functions() is not None else None


def _capture(value: Any, whole: Any) -> Any:
    if _is_object(value):
        module = _named(value, whole)
        if module is not None:
            return _functions().get_optimizer_state_dict(module, value)
        return value.state_dict()
    if isinstance(value, dict):
        return {key: _capture(item, whole) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and _sharded.held(value) is None:
        items = [_capture(item, whole) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def capture(state: Any) -> Any:
    """Returns the state with the states of its objects in their places."""
    return _capture(state, state) if any(True for _ in _objects(state)) else state


def _put_back(value: Any, restored: Any, whole: Any) -> Any:
    if _is_object(value):
        module = _named(value, whole)
        if module is not None:
            _functions().set_optimizer_state_dict(module, value, restored)
        else:
            value.load_state_dict(restored)
        return value
    if isinstance(value, dict):
        return {key: _put_back(item, restored[key], whole) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and _sharded.held(value) is None:
        items = [_put_back(item, restored[i], whole) for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return restored


def put_back(into: Any, restored: Any) -> Any:
    """Loads the restored states into the objects of `into`; returns the state with the objects."""
    return _put_back(into, restored, into) if any(True for _ in _objects(into)) else restored
