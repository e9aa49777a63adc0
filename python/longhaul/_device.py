"""Copies of tensors on a device to pinned host memory. This is the only module that uses CUDA.

The device is behind an interface, so that tests can check the order of copies, events and snapshots
without a device. tools/hardware_check runs `Cuda` itself (parts ddp, fsdp2, snapshots).
"""

import sys
from typing import Any, Protocol


class Device(Protocol):
    """The operations of a device that a snapshot requires.

    Streams are the caller's own objects; None stands for the current stream.
    """

    def holds(self, value: Any) -> bool:
        """Whether this PyTorch tensor is on the device."""

    def pinned(self, like: Any) -> Any:
        """Returns a tensor of the same shape and dtype in page-locked host memory."""

    def copy(self, value: Any, buffer: Any, stream: Any) -> None:
        """Enqueues a copy on the stream, after the work enqueued on the current stream so far."""

    def mark(self, stream: Any) -> Any:
        """Returns an event after all work of the stream; its synchronize() blocks until then."""


class Cuda:
    """PyTorch's CUDA device, and devices with the same interface, such as ROCm."""

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
