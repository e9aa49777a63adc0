"""Converts a nested state to named, flat tensors, and back.

The name of a tensor is the path of keys to it in the nested state, joined by dots as PyTorch joins
them ("model.0.weight"). All other values are stored as JSON, with the positions of the tensors, in
one more tensor of bytes. This tensor is padded, so that a number that grows by a digit does not
change the plan.
"""

import json
import math
import mmap
import sys
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from . import _sharded
from ._library import FAILED_PRECONDITION, LonghaulError, PartInfo, TensorInfo

TREE = "longhaul/tree"
_TREE_STEP = 4096
_MAX_DEPTH = 64  # kMaxTreeDepth of src/checkpoint/formats/state_tree.h
_MAX_DIGITS = 600  # limit for an integer beyond 64 bits

# safetensors' name -> bytes of an element, NumPy's name and PyTorch's
_DTYPES = {
    "BOOL": (1, "bool", "bool"), "U8": (1, "uint8", "uint8"), "I8": (1, "int8", "int8"),
    "I16": (2, "int16", "int16"), "I32": (4, "int32", "int32"), "I64": (8, "int64", "int64"),
    "U16": (2, "uint16", "uint16"), "U32": (4, "uint32", "uint32"),
    "U64": (8, "uint64", "uint64"), "F16": (2, "float16", "float16"),
    "F32": (4, "float32", "float32"), "F64": (8, "float64", "float64"),
    "BF16": (2, None, "bfloat16"), "F8_E4M3": (1, None, "float8_e4m3fn"),
    "F8_E5M2": (1, None, "float8_e5m2"),
}
_FROM_NUMPY = {names[1]: dtype for dtype, names in _DTYPES.items() if names[1]}
_FROM_TORCH = {"torch." + names[2]: dtype for dtype, names in _DTYPES.items()}
_INVALID_ARGUMENT = 3
_LARGE = 64 << 10  # bytes; memory of at least this size gets its own mapping
_HUGE = 4 << 20    # bytes; memory of at least this size uses huge pages


class Tensor(NamedTuple):
    """A tensor of a state: its description, the object, and its library ("torch" or "numpy")."""

    info: TensorInfo
    value: Any
    kind: str
    saves: bool = True  # for a box: whether this process saves it
    old_name: str = ""  # its name in older checkpoints: "model/0.weight"


_Path = Tuple[str, ...]


def _bad(path: _Path, what: str) -> LonghaulError:
    return LonghaulError(_INVALID_ARGUMENT, f"{'.'.join(('state',) + path)}: {what}")


def _kind(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return "numpy"
    return ""


def _describe(path: _Path, value: Any, kind: str) -> Tensor:
    if kind == "numpy":
        numpy = sys.modules["numpy"]
        value = numpy.asarray(value)
        if not value.flags.c_contiguous or value.dtype.byteorder == ">":
            value = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
        dtype = _FROM_NUMPY.get(value.dtype.name)
    else:
        value = value.detach()
        if value.layout != sys.modules["torch"].strided:
            raise _bad(path, f"a tensor of layout {value.layout} cannot be saved")
        dtype = _FROM_TORCH.get(str(value.dtype))
    if dtype is None:
        raise _bad(path, f"dtype {value.dtype} cannot be saved")
    info = TensorInfo(".".join(path) or "tensor", dtype, tuple(int(n) for n in value.shape))
    return Tensor(info, value, kind, old_name="/".join(path) or "state")


def _plain(value: Any, path: _Path) -> Dict[str, Any]:
    """The tree node of a plain value."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"f": str(value)}
    if isinstance(value, int) and not -2 ** 63 <= value < 2 ** 63:
        if abs(value) >= 10 ** _MAX_DIGITS:
            raise _bad(path, f"an integer of more than {_MAX_DIGITS} digits cannot be saved")
        return {"i": str(int(value))}
    if value is None or isinstance(value, (bool, int, float)):
        return {"v": value}
    if isinstance(value, str):
        _check_text(value, path)
        return {"v": value}
    raise _bad(path, f"a {type(value).__name__} cannot be saved: use dicts, lists, tensors, "
                     "numbers and strings")


def _check_text(text: str, path: _Path) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _bad(path, f"the string {text!r} is not valid Unicode and cannot be saved") from None


def _check_key(key: Any, path: _Path) -> str:
    if not isinstance(key, (str, int)) or isinstance(key, bool):
        raise _bad(path, f"a key must be a string or an integer, not {key!r}")
    if isinstance(key, int) and not -2 ** 63 <= key < 2 ** 63:
        raise _bad(path, f"the key {key} is an integer beyond 64 bits")
    _check_text(str(key), path)
    return str(key)


def flatten(state: Any) -> Tuple[List[Tensor], bytes]:
    """Returns the tensors of a state in order, and all other values as JSON."""
    tensors: List[Tensor] = []
    names: Set[str] = set()

    def add(tensor: Tensor, path: _Path) -> Dict[str, Any]:
        if tensor.info.name in names:
            raise _bad(path, f"another tensor is named {tensor.info.name!r} too: names are the "
                             "keys joined by dots, as PyTorch joins them; rename one of the keys")
        names.add(tensor.info.name)
        tensors.append(tensor)
        return {"t": len(tensors) - 1, "k": tensor.kind}

    def walk(value: Any, path: _Path) -> Any:
        box = _sharded.held(value)
        kind = _kind(value if box is None else box.local)
        if kind and box is not None:
            local = _describe(path, box.local, kind)
            part = PartInfo(box.shape, box.offset)
            return add(local._replace(info=local.info._replace(part=part), saves=box.saves), path)
        if kind:
            return add(_describe(path, value, kind), path)
        if len(path) >= _MAX_DEPTH and isinstance(value, (dict, list, tuple)) and value:
            raise _bad(path, f"nested deeper than {_MAX_DEPTH} levels")
        if isinstance(value, dict):
            return {"d": [[key, walk(item, path + (_check_key(key, path),))]
                          for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            items = [walk(item, path + (str(i),)) for i, item in enumerate(value)]
            return {"l" if isinstance(value, list) else "u": items}
        return _plain(value, path)

    tree = json.dumps(walk(state, ())).encode()
    return tensors, tree


def as_saved(tensors: Sequence[Tensor], saved: Sequence[TensorInfo]) -> List[Tensor]:
    """Returns the tensors with the names of the checkpoint; older checkpoints use other names."""
    names = {info.name for info in saved}

    def named(tensor: Tensor) -> Tensor:
        if tensor.info.name in names or tensor.old_name not in names:
            return tensor
        return tensor._replace(info=tensor.info._replace(name=tensor.old_name))

    return [named(tensor) for tensor in tensors]


def pad(tree: bytes) -> bytes:
    """Pads the JSON with spaces to a size that leaves room for growth."""
    return tree.ljust((len(tree) + _TREE_STEP // 4) // _TREE_STEP * _TREE_STEP + _TREE_STEP)


def _value(node: Dict[str, Any]) -> Any:
    """The plain value of a tree node."""
    if "f" in node:
        return float(node["f"])
    return int(node["i"]) if "i" in node else node["v"]


def unflatten(tree: bytes, tensors: List[Any]) -> Any:
    """Rebuilds the state. `tensors` are those of `flatten`, in its order."""

    def build(node: Dict[str, Any]) -> Any:
        if "t" in node:
            return tensors[node["t"]]
        if "d" in node:
            return {key: build(item) for key, item in node["d"]}
        if "l" in node:
            return [build(item) for item in node["l"]]
        if "u" in node:
            return tuple(build(item) for item in node["u"])
        return _value(node)

    return build(json.loads(tree))


def kinds(tree: bytes, count: int) -> List[str]:
    """The library of each tensor, "torch" or "numpy"."""
    found = [""] * count

    def look(node: Dict[str, Any]) -> None:
        if "t" in node:
            found[node["t"]] = node.get("k", "torch")
        for item in node.get("l", node.get("u", [])):
            look(item)
        for _, item in node.get("d", []):
            look(item)

    look(json.loads(tree))
    return found


def bytes_of(info: TensorInfo) -> int:
    """The size of a tensor in bytes."""
    return math.prod(info.shape) * _DTYPES[info.dtype][0]


def fresh(count: int) -> Any:
    """Allocates writable memory of `count` bytes for a read.

    Large memory is mapped from the system without being filled. A bytearray would be written once
    with zeros, which creates every page and costs many times as much as copying into existing
    pages.
    """
    if count < _LARGE:
        return bytearray(count)
    memory_ = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None and count >= _HUGE:
        try:
            memory_.madvise(advice)
        except OSError:  # a kernel without huge pages
            pass
    return memory_


def _torch_for(tensor: str, dtype_name: str) -> Tuple[Any, Any]:
    """Returns PyTorch and its dtype of this name; raises an error with the remedy if it has none."""
    install = f"{sys.executable} -m pip install --upgrade torch"
    try:
        import torch
        torch.frombuffer
    except ImportError as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = (f"which {sys.executable} does not have: run {install}" if absent else
                  f"which {sys.executable} cannot load ({first}); it may be built for another "
                  f"Python: run {install} --force-reinstall")
    except AttributeError:
        reason = f"but PyTorch {torch.__version__} is too old, expected at least 1.10: run {install}"
    else:
        dtype = getattr(torch, dtype_name, None)
        if dtype is not None:
            return torch, dtype
        reason = (f"but PyTorch {torch.__version__} is too old for its dtype {dtype_name}: "
                  f"run {install}")
    raise LonghaulError(FAILED_PRECONDITION, f"{tensor} is a tensor of PyTorch, {reason}")


def view(info: TensorInfo, kind: str, value: Any) -> Any:
    """Returns a tensor over these bytes, without a copy. `value` was returned by `fresh`."""
    _, numpy_name, torch_name = _DTYPES[info.dtype]
    if kind == "torch" or numpy_name is None:
        torch, dtype = _torch_for(info.name, torch_name)
        if not value:
            return torch.empty(info.shape, dtype=dtype)
        return torch.frombuffer(value, dtype=dtype).reshape(info.shape)
    import numpy
    return numpy.frombuffer(value, dtype=numpy_name).reshape(info.shape)


def memory(value: Any, kind: str) -> Tuple[int, int]:
    """Address and size in bytes of a contiguous tensor in host memory."""
    if kind == "torch":
        return value.data_ptr(), value.numel() * value.element_size()
    return value.ctypes.data, value.nbytes



def host(tensor: Tensor) -> Any:
    """The tensor's value in contiguous host memory: the value itself if it is there already."""
    if tensor.kind == "numpy":
        return tensor.value
    return tensor.value.cpu().contiguous()


def copy_back(tensor: Tensor, value: Any) -> None:
    """Copies the data that was read into the copy made by `host` back into the tensor."""
    tensor.value.copy_(value)


def renumber(tree: bytes, tensors: List[Tensor]) -> bytes:
    """Renumbers the tensors of the tree, counting only those that this process saves."""
    numbers: Dict[int, int] = {}
    for index, tensor in enumerate(tensors):
        if tensor.info.part is None or tensor.saves:
            numbers[index] = len(numbers)

    def walk(node: Any) -> Any:
        if "t" in node:
            if node["t"] not in numbers:
                return {"v": None}
            return {**node, "t": numbers[node["t"]]}
        if "d" in node:
            return {"d": [[key, walk(item)] for key, item in node["d"]]}
        for kind in ("l", "u"):
            if kind in node:
                return {kind: [walk(item) for item in node[kind]]}
        return node

    return json.dumps(walk(json.loads(tree))).encode()


def with_values(into: Any, tree: Any) -> Any:
    """Returns `into` with the plain values of the tree; tensors are not changed."""
    if _sharded.held(into) is not None or _kind(into) or tree is None or "t" in tree:
        return into
    if isinstance(into, dict):
        saved = {key: node for key, node in tree.get("d", [])}
        return {key: with_values(value, saved.get(key)) for key, value in into.items()}
    if isinstance(into, (list, tuple)):
        nodes = tree.get("l", tree.get("u", []))
        items = [with_values(value, nodes[i] if i < len(nodes) else None)
                 for i, value in enumerate(into)]
        return items if isinstance(into, list) else tuple(items)
    if "v" in tree or "f" in tree or "i" in tree:
        return _value(tree)
    return into


def not_finite(tensors: List[Tensor]) -> List[str]:
    """The names of the tensors that contain NaN or an infinity."""
    names = []
    for tensor in tensors:
        if tensor.info.dtype[0] not in "FB" or tensor.info.dtype == "BOOL":
            continue
        if tensor.kind == "numpy":
            fine = bool(sys.modules["numpy"].isfinite(tensor.value).all())
        else:
            value = tensor.value
            if tensor.info.dtype.startswith("F8"):
                value = value.float()
            fine = bool(sys.modules["torch"].isfinite(value).all())
        if not fine:
            names.append(tensor.info.name)
    return names
