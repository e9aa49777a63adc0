"""The optimizers of include/longhaul.h: structs of options and functions. Does not import torch."""

import ctypes
from ctypes import (
    CFUNCTYPE, POINTER, Structure, c_double, c_int, c_int32, c_size_t, c_uint64, c_void_p)
from typing import Any, Dict, List, Optional, Type

from ._library import OK, CError, LonghaulError, find_library, load

# int product(argument, m, n, k, a, b, transpose_b, out)
Product = CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t, c_size_t, c_void_p, c_void_p, c_int, c_void_p)


def _options(name: str, *members: str) -> Type[Structure]:
    """A struct of options: its size, and doubles."""
    fields = [("size", c_size_t)] + [(member, c_double) for member in members]
    return type(name, (Structure,), {"_fields_": fields})


class CUpdate(Structure):
    _fields_ = [("size", c_size_t), ("number", c_uint64), ("rate", c_double), ("decay", c_double),
                ("scale", c_double)]


class CMuon(Structure):
    _fields_ = [("size", c_size_t), ("momentum", c_double), ("like_adamw", c_int32),
                ("reserved", c_int32)]


CAdamW = _options("CAdamW", "beta1", "beta2", "epsilon")
CAgd = _options("CAgd", "beta1", "beta2", "delta")
CLion = _options("CLion", "beta1", "beta2")
CAdafactor = _options("CAdafactor", "epsilon", "least", "threshold")
CGroupAdam = _options("CGroupAdam", "beta1", "beta2", "epsilon", "l1", "l2", "l21")
CGroupAdaGrad = _options("CGroupAdaGrad", "power", "initial", "l1", "l2", "l21")
CSharpness = _options("CSharpness", "radius", "gamma")

_POINTER: Any = c_void_p
_SIZE: Any = c_size_t
# The arguments between the struct or structs of options and the error.
_FUNCTIONS: Dict[str, List[Any]] = {
    "longhaul_adamw": [_POINTER, _SIZE] + 4 * [_POINTER],
    "longhaul_agd": [_POINTER, _SIZE] + 4 * [_POINTER],
    "longhaul_lion": [_POINTER, _SIZE] + 3 * [_POINTER],
    "longhaul_adafactor": [_POINTER, _SIZE, _SIZE] + 3 * [_POINTER],
    "longhaul_muon": [_POINTER, _SIZE, _SIZE] + 3 * [_POINTER] + [Product, _POINTER],
    "longhaul_group_adam": [_POINTER, _SIZE, _SIZE] + 6 * [_POINTER],
    "longhaul_group_adagrad_begin": [_POINTER, _SIZE] + 3 * [_POINTER],
    "longhaul_group_adagrad": [_POINTER, _SIZE, _SIZE] + 5 * [_POINTER],
    "longhaul_sharpness_perturb": [c_double, _SIZE] + 3 * [_POINTER],
    "longhaul_sharpness_mix": [_SIZE] + 2 * [_POINTER],
    "longhaul_sharpness_correct": [c_double, _SIZE] + 3 * [_POINTER],
}

_library: Optional[Any] = None


def function(name: str) -> Any:
    """A function of the library; loads the library at the first call."""
    global _library
    if _library is None:
        library = load(find_library())
        for each, arguments in _FUNCTIONS.items():
            declared = getattr(library, each)
            declared.restype = c_int
            declared.argtypes = [_POINTER] + arguments + [POINTER(CError)]
        _library = library
    return getattr(_library, name)


def sized(options: Structure, **members: Any) -> Structure:
    """Sets the size and the given members."""
    setattr(options, "size", ctypes.sizeof(options))
    for name, value in members.items():
        setattr(options, name, value)
    return options


def raise_unless_ok(code: int, error: CError) -> None:
    if code != OK:
        raise LonghaulError(code, error.message.decode(errors="replace"))
