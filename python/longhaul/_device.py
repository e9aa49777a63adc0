"""Tensors on a device, to pinned host memory on a stream: the one place that speaks of CUDA.

Behind an interface, so that the order of copies, events and snapshots is tested without a device.
`Cuda` itself has not been run on hardware.
"""

import sys
from typing import Any, Protocol


class Device(Protocol):
    """What a snapshot asks of a device. Streams are the caller's own objects; None: the current one."""

    def holds(self, value: Any) -> bool:
        """Whether this PyTorch tensor lies on the device."""

    def pinned(self, like: Any) -> Any:
        """A tensor of that form in page-locked host memory."""

    def copy(self, value: Any, buffer: Any, stream: Any) -> None:
        """Puts a copy on the stream, behind what the current stream has been given so far."""

    def mark(self, stream: Any) -> Any:
        """An event after all that the stream has been given; its synchronize() waits for it."""


class Cuda:
    """PyTorch's CUDA (and what poses as it, such as ROCm)."""

    def holds(self, value: Any) -> bool:
        return bool(value.is_cuda)

    def pinned(self, like: Any) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def copy(self, value: Any, buffer: Any, stream: Any) -> None:
        cuda = sys.modules["torch"].cuda
        target = stream or cuda.current_stream()
        target.wait_stream(cuda.current_stream())
        with cuda.stream(target):
            buffer.copy_(value, non_blocking=True)
        value.record_stream(target)

    def mark(self, stream: Any) -> Any:
        return (stream or sys.modules["torch"].cuda.current_stream()).record_event()


device: Device = Cuda()
