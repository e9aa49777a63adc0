"""A nested state as named, flat tensors, and back.

Tensors keep their place in the nesting as their name ("model/0.weight"). Everything else goes, as
JSON with the tensors' places marked, into one more tensor of bytes, padded so that a number that
grows by a digit does not change the plan.
"""

import json
import math
import sys
from typing import Any, Dict, List, NamedTuple, Tuple

from . import _sharded
from ._library import LonghaulError, PartInfo, TensorInfo

TREE = "longhaul/tree"
_TREE_STEP = 4096

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


class Tensor(NamedTuple):
    """A tensor of a state: what it is, the object, and whose it is ("torch" or "numpy")."""

    info: TensorInfo
    value: Any
    kind: str
    saves: bool = True  # of a box: whether this process is the one that saves it


def _bad(place: str, what: str) -> LonghaulError:
    return LonghaulError(_INVALID_ARGUMENT, f"state{place and '/' + place}: {what}")


def _kind(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return "numpy"
    return ""


def _describe(place: str, value: Any, kind: str) -> Tensor:
    if kind == "numpy":
        numpy = sys.modules["numpy"]
        value = numpy.asarray(value)
        if not value.flags.c_contiguous or value.dtype.byteorder == ">":
            value = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
        dtype = _FROM_NUMPY.get(value.dtype.name)
    else:
        value = value.detach()
        if value.layout != sys.modules["torch"].strided:
            raise _bad(place, f"a tensor of layout {value.layout} cannot be saved")
        dtype = _FROM_TORCH.get(str(value.dtype))
    if dtype is None:
        raise _bad(place, f"dtype {value.dtype} cannot be saved")
    return Tensor(TensorInfo(place, dtype, tuple(int(n) for n in value.shape)), value, kind)


def flatten(state: Any) -> Tuple[List[Tensor], bytes]:
    """The tensors of a state in order, and the rest as JSON."""
    tensors: List[Tensor] = []

    def walk(value: Any, place: str) -> Any:
        box = _sharded.held(value)
        kind = _kind(value if box is None else box.local)
        if kind and box is not None:
            local = _describe(place or "state", box.local, kind)
            part = PartInfo(box.shape, box.offset)
            tensors.append(local._replace(info=local.info._replace(part=part), saves=box.saves))
            return {"t": len(tensors) - 1, "k": kind}
        if kind:
            tensors.append(_describe(place or "state", value, kind))
            return {"t": len(tensors) - 1, "k": kind}
        if isinstance(value, dict):
            entries = []
            for key, item in value.items():
                if not isinstance(key, (str, int)) or isinstance(key, bool):
                    raise _bad(place, f"a key must be a string or an integer, not {key!r}")
                entries.append([key, walk(item, f"{place}/{key}" if place else str(key))])
            return {"d": entries}
        if isinstance(value, (list, tuple)):
            items = [walk(item, f"{place}/{i}" if place else str(i))
                     for i, item in enumerate(value)]
            return {"l" if isinstance(value, list) else "u": items}
        if isinstance(value, float) and not math.isfinite(value):
            return {"f": str(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"v": value}
        raise _bad(place, f"a {type(value).__name__} cannot be saved: use dicts, lists, tensors, "
                          "numbers and strings")

    tree = json.dumps(walk(state, "")).encode()
    return tensors, tree


def pad(tree: bytes) -> bytes:
    """The JSON with spaces up to a size that leaves it room."""
    return tree.ljust((len(tree) + _TREE_STEP // 4) // _TREE_STEP * _TREE_STEP + _TREE_STEP)


def unflatten(tree: bytes, tensors: List[Any]) -> Any:
    """The state again. `tensors` are those of `flatten`, in its order."""

    def build(node: Dict[str, Any]) -> Any:
        if "t" in node:
            return tensors[node["t"]]
        if "d" in node:
            return {key: build(item) for key, item in node["d"]}
        if "l" in node:
            return [build(item) for item in node["l"]]
        if "u" in node:
            return tuple(build(item) for item in node["u"])
        return float(node["f"]) if "f" in node else node["v"]

    return build(json.loads(tree))


def kinds(tree: bytes, count: int) -> List[str]:
    """Whose each tensor was, "torch" or "numpy"."""
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
    """How many bytes a tensor has."""
    return math.prod(info.shape) * _DTYPES[info.dtype][0]


def view(info: TensorInfo, kind: str, value: bytearray) -> Any:
    """A tensor over these bytes, without a copy."""
    _, numpy_name, torch_name = _DTYPES[info.dtype]
    if kind == "torch":
        import torch
        dtype = getattr(torch, torch_name)
        if not value:
            return torch.empty(info.shape, dtype=dtype)
        return torch.frombuffer(value, dtype=dtype).reshape(info.shape)
    import numpy
    return numpy.frombuffer(value, dtype=numpy_name).reshape(info.shape)


def memory(value: Any, kind: str) -> Tuple[int, int]:
    """Address and bytes of a contiguous tensor in host memory."""
    if kind == "torch":
        return value.data_ptr(), value.numel() * value.element_size()
    return value.ctypes.data, value.nbytes



def host(tensor: Tensor) -> Any:
    """The tensor's value in contiguous host memory: itself where it is."""
    if tensor.kind == "numpy":
        return tensor.value
    return tensor.value.cpu().contiguous()


def copy_back(tensor: Tensor, value: Any) -> None:
    """What was read into the copy that `host` made, into the tensor."""
    tensor.value.copy_(value)


def renumber(tree: bytes, tensors: List[Tensor]) -> bytes:
    """The tree with the tensors that this process saves counted alone."""
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
    """`into` with the tree's plain values in place of its own; tensors stay what they are."""
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
    if "v" in tree or "f" in tree:
        return float(tree["f"]) if "f" in tree else tree["v"]
    return into


def not_finite(tensors: List[Tensor]) -> List[str]:
    """The names of the tensors that hold a NaN or an infinity."""
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
