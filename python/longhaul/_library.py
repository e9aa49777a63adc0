"""The Python form of include/longhaul.h: structs, functions, and errors as exceptions."""

import ctypes
import ctypes.util
import os
import sys
from ctypes import (
    CDLL, CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t,
    c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

Ready = CFUNCTYPE(c_int, c_void_p)  # of longhaul_snapshot_begin_staged

OK = 0
INVALID_ARGUMENT = 3
NOT_FOUND = 5
FAILED_PRECONDITION = 9
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15


class LonghaulError(Exception):
    """A failed call; `code` is one of the canonical codes of include/longhaul.h."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


class LibraryNotFound(LonghaulError):
    """liblonghaul.so is absent or cannot be loaded. The message lists the searched places."""


class DamagedStep(NamedTuple):
    """A saved step that cannot be loaded, and the reason."""

    step: int
    attempt: int
    path: str
    reason: str


class CheckpointDamaged(LonghaulError):
    """There are checkpoints, but none of them can be loaded. `damaged` names each, newest first."""

    def __init__(self, message: str, damaged: Sequence[DamagedStep] = ()):
        super().__init__(DATA_LOSS, message)
        self.damaged = list(damaged)


class CheckpointWarning(UserWarning):
    """A saved step was damaged, and an older one was loaded in its place."""


class CError(Structure):
    _fields_ = [("code", c_int32), ("message", c_char * 508)]


class CTensor(Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t), ("dtype", c_char_p),
                ("shape", POINTER(c_int64)), ("dims", c_size_t)]


class CPart(Structure):
    _fields_ = [("of", c_char_p), ("shape", POINTER(c_int64)), ("offset", POINTER(c_int64))]


class CPiece(Structure):
    _fields_ = [("rank", c_uint32), ("bytes", c_uint64), ("header_bytes", c_uint64),
                ("hash", c_uint64)]


class CSavedStep(Structure):
    _fields_ = [("step", c_uint64), ("attempt", c_uint64), ("state", c_int), ("path", c_char_p),
                ("reason", c_char_p), ("complete", c_int)]


class CStep(Structure):
    _fields_ = [("step", c_uint64), ("data_ns", c_int64), ("snapshot_ns", c_int64),
                ("evaluation_ns", c_int64), ("communication_ns", c_int64), ("loss", c_double),
                ("validation_loss", c_double), ("gradient_norm", c_double), ("tokens", c_uint64),
                ("flops", c_double)]


class PartInfo(NamedTuple):
    """The position of a tensor in a global tensor of this shape."""

    shape: Tuple[int, ...]
    offset: Tuple[int, ...]


class TensorInfo(NamedTuple):
    """A tensor of a state. `dtype` is the name that safetensors uses, such as "F32"."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    part: Optional[PartInfo] = None  # None: the tensor is whole


# Where liblonghaul.so lies, seen from this folder: beside this file, in the wheel, and in an installation
# whose packages are in lib/longhaul/python.
_PLACES = ("liblonghaul.so", "lib/liblonghaul.so", "../../../liblonghaul.so")
_REMEDY = ("set LONGHAUL_LIBRARY to the path of liblonghaul.so, which `longhaul` installs and "
           "`ninja longhaul_worker_shared` builds")


def find_library() -> str:
    """Returns the path of liblonghaul.so; raises LibraryNotFound if it is not found."""
    named = os.environ.get("LONGHAUL_LIBRARY")
    if named:
        return named
    folder = os.path.dirname(os.path.realpath(__file__))
    for place in _PLACES:
        path = os.path.normpath(os.path.join(folder, place))
        if os.path.exists(path):
            return path
    found = ctypes.util.find_library("longhaul")
    if found:
        return found
    raise LibraryNotFound(FAILED_PRECONDITION,
                          "liblonghaul.so is neither named by LONGHAUL_LIBRARY nor in "
                          f"{folder} nor where the system looks: {_REMEDY}")


def load(path: str) -> CDLL:
    """Loads the library and declares its functions' types; raises LibraryNotFound on failure."""
    try:
        return _declare(CDLL(path))
    except (OSError, AttributeError) as error:
        raise LibraryNotFound(FAILED_PRECONDITION, f"cannot load {path} ({error}): {_REMEDY}; it "
                              "must be of this package's version") from error


def _declare(library: CDLL) -> CDLL:
    worker, error = c_void_p, POINTER(CError)
    for name, result, arguments in (
            ("longhaul_open", c_void_p, [error]),
            ("longhaul_close", None, [worker]),
            ("longhaul_config", c_char_p, [worker]),
            ("longhaul_phase", c_int, [worker, c_int, error]),
            ("longhaul_report_step", c_int, [worker, POINTER(CStep), error]),
            ("longhaul_result", c_int, [worker, c_char_p, error]),
            ("longhaul_register", c_int, [worker, POINTER(CTensor), c_size_t, error]),
            ("longhaul_register_parts", c_int,
             [worker, POINTER(CTensor), POINTER(CPart), c_size_t, error]),
            ("longhaul_write_piece", c_int,
             [c_char_p, c_uint64, c_uint64, c_uint32, c_uint32, POINTER(CTensor), POINTER(CPart),
              c_size_t, POINTER(CPiece), error]),
            ("longhaul_commit", c_int,
             [c_char_p, c_char_p, c_uint64, c_uint64, POINTER(CPiece), c_uint32, error]),
            ("longhaul_steps_open", c_void_p, [c_char_p, error]),
            ("longhaul_steps_close", None, [c_void_p]),
            ("longhaul_steps_get", POINTER(CSavedStep), [c_void_p, POINTER(c_size_t)]),
            ("longhaul_checkpoint_open", c_void_p, [c_char_p, error]),
            ("longhaul_checkpoint_close", None, [c_void_p]),
            ("longhaul_checkpoint_step", c_uint64, [c_void_p]),
            ("longhaul_checkpoint_tree", c_char_p, [c_void_p]),
            ("longhaul_checkpoint_tensors", POINTER(CTensor), [c_void_p, POINTER(c_size_t)]),
            ("longhaul_checkpoint_read", c_int,
             [c_void_p, POINTER(CTensor), POINTER(CPart), c_size_t, POINTER(c_uint64), error]),
            ("longhaul_saved", c_int, [worker, POINTER(POINTER(CTensor)), POINTER(c_size_t), error]),
            ("longhaul_snapshot_due", c_int, [worker, c_uint64]),
            ("longhaul_snapshot", c_int, [worker, c_uint64, error]),
            ("longhaul_snapshot_begin", c_int, [worker, c_uint64, error]),
            ("longhaul_snapshot_begin_staged", c_int,
             [worker, c_uint64, c_int64, Ready, c_void_p, error]),
            ("longhaul_snapshot_wait", c_int, [worker, error]),
            ("longhaul_snapshot_way", c_char_p, [worker]),
            ("longhaul_restore", c_int, [worker, POINTER(c_uint64), error])):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def tensor_arrays(tensors: Sequence[Tuple[TensorInfo, int, int]]) -> Tuple[Any, Any, List[Any]]:
    """Returns the arrays of longhaul_tensor and longhaul_part, and the objects they point to.

    Each tensor is given with the address and size of its memory, which the caller keeps alive.
    """
    array = (CTensor * max(1, len(tensors)))()
    parts = (CPart * max(1, len(tensors)))()
    kept: List[Any] = []

    def numbers(values: Sequence[int]) -> Any:
        kept.append((c_int64 * max(1, len(values)))(*values))
        return kept[-1]

    for entry, part, (info, address, count) in zip(array, parts, tensors):
        entry.name = info.name.encode()
        entry.data = address
        entry.bytes = count
        entry.dtype = info.dtype.encode()
        entry.shape = numbers(info.shape)
        entry.dims = len(info.shape)
        if info.part is not None:
            part.of = info.name.encode()
            part.shape = numbers(info.part.shape)
            part.offset = numbers(info.part.offset)
    return array, parts, kept


class WorkerApi:
    """A connection to the agent. At most one thread at a time may use it."""

    def __init__(self, library: CDLL):
        self._library = library
        self._ready: Any = None
        error = CError()
        self._worker = library.longhaul_open(byref(error))
        if not self._worker:
            raise LonghaulError(error.code, error.message.decode(errors="replace"))

    def close(self) -> None:
        self._library.longhaul_close(self._worker)
        self._worker = None

    def _call(self, name: str, *arguments: Any) -> None:
        error = CError()
        code = getattr(self._library, name)(self._worker, *arguments, byref(error))
        if code != OK:
            raise LonghaulError(code, error.message.decode(errors="replace"))

    def phase(self, kind: int) -> None:
        self._call("longhaul_phase", kind)

    def report(self, step: CStep) -> None:
        self._call("longhaul_report_step", byref(step))

    def result(self, json_text: str) -> None:
        self._call("longhaul_result", json_text.encode())

    def register(self, tensors: Sequence[Tuple[TensorInfo, int, int]]) -> None:
        """Registers tensors with the address and size of their memory, which the caller keeps."""
        array, parts, kept = tensor_arrays(tensors)
        self._call("longhaul_register_parts", array, parts, len(tensors))
        del kept

    def saved(self) -> List[TensorInfo]:
        array = POINTER(CTensor)()
        count = c_size_t()
        self._call("longhaul_saved", byref(array), byref(count))
        return [TensorInfo(array[i].name.decode(), array[i].dtype.decode(),
                           tuple(array[i].shape[d] for d in range(array[i].dims)))
                for i in range(count.value)]

    def due(self, step: int) -> bool:
        return bool(self._library.longhaul_snapshot_due(self._worker, step))

    def snapshot(self, step: int) -> None:
        self._call("longhaul_snapshot", step)

    def snapshot_begin(self, step: int) -> None:
        self._call("longhaul_snapshot_begin", step)

    def snapshot_begin_staged(self, step: int, stopped_ns: int, ready: Callable[[], None]) -> None:
        """`ready` is called by a thread of the library; an exception of it fails the snapshot."""
        def wait(_argument: Any) -> int:
            try:
                ready()
            except Exception as error:  # pylint: disable=broad-except
                print(f"longhaul: snapshot of step {step}: {error}", file=sys.stderr)
                return 1
            return 0

        callback = Ready(wait)
        self._call("longhaul_snapshot_begin_staged", step, stopped_ns, callback, None)
        self._ready = callback  # must live until the snapshot is done; the one before is done

    def snapshot_wait(self) -> None:
        self._call("longhaul_snapshot_wait")

    def snapshot_way(self) -> str:
        way: bytes = self._library.longhaul_snapshot_way(self._worker)
        return way.decode()

    def restore(self) -> int:
        step = c_uint64()
        self._call("longhaul_restore", byref(step))
        return step.value


def open_worker() -> Optional[WorkerApi]:
    """Connects to the agent; returns None if Longhaul did not start this process."""
    if "LONGHAUL_AGENT_SOCKET" not in os.environ:
        return None
    return WorkerApi(load(find_library()))
