"""The order of copies, events and snapshots for tensors on a device: a fake one, and a fake worker API."""

import ctypes
import threading
import unittest

import longhaul
from longhaul import LonghaulError, _device

try:
    import torch
except ImportError:
    torch = None


class FakeDevice:
    """Tensors that were sent to it are on it; a copy is done when its event is waited for."""

    def __init__(self, log):
        self.log, self.mine, self.queue, self.gate = log, [], [], threading.Event()

    def send(self, tensor):
        self.mine.append(tensor)
        return tensor

    def holds(self, value):
        return any(value.data_ptr() == one.data_ptr() for one in self.mine)

    def pinned(self, like):
        self.log.append("pinned")
        return torch.empty_like(like)

    def copy(self, value, buffer, stream):
        self.log.append(f"copy on {stream}")
        self.queue.append((buffer, value.clone()))  # in order of the stream: as it is now

    def mark(self, stream):
        device = self

        class Event:
            def synchronize(self):
                device.gate.wait(30)
                for buffer, value in device.queue:
                    buffer.copy_(value)
                device.queue = []
                device.log.append("copied")

        return Event()


class FakeWorkerApi:
    def __init__(self, log):
        self.log, self.tensors, self.fails, self.gate = log, [], False, threading.Event()
        self.gate.set()

    def register(self, tensors):
        self.tensors = tensors

    def snapshot_begin_staged(self, step, stopped_ns, ready):
        self.stopped_ns = stopped_ns

        def copy():
            ready()
            self.gate.wait(30)
            self.log.append(f"sealed {step}: {self.values(0)}")

        self.thread = threading.Thread(target=copy)
        self.thread.start()

    def snapshot_wait(self):
        self.thread.join()
        if self.fails:
            raise LonghaulError(8, "no room")

    def values(self, number):
        _, address, size = self.tensors[number]
        return torch.frombuffer(bytearray(ctypes.string_at(address, size)),
                                dtype=torch.float32).tolist()

    def report(self, step):
        self.log.append(f"reported {step.step}")

    def close(self):
        self.log.append("closed")


@unittest.skipIf(torch is None, "PyTorch is not installed")
class DeviceTensors(unittest.TestCase):
    def setUp(self):
        self.log = []
        self.device, self.worker = FakeDevice(self.log), FakeWorkerApi(self.log)
        self.addCleanup(setattr, _device, "device", _device.device)
        _device.device = self.device
        longhaul._session, longhaul._opened = longhaul._Session(self.worker), True
        self.addCleanup(longhaul.close)
        self.state = {"w": self.device.send(torch.tensor([1.0, 2.0])), "cpu": torch.zeros(2)}

    def test_with_a_stream_it_returns_before_the_copy_and_seals_what_was_there(self):
        longhaul.snapshot(self.state, 1, stream="side")
        self.assertEqual(self.log, ["pinned", "copy on side"])
        longhaul.report(1)
        self.device.gate.set()
        longhaul.wait()
        self.assertEqual(self.log[2:], ["reported 1", "copied", "sealed 1: [1.0, 2.0]"])

    def test_buffers_are_made_once(self):
        self.device.gate.set()
        for step in (1, 2):
            longhaul.snapshot(self.state, step, stream="side")
            longhaul.wait()
            self.state["w"].mul_(2)
        self.assertEqual(self.log.count("pinned"), 1)
        self.assertEqual(self.log[-1], "sealed 2: [2.0, 4.0]")

    def test_without_a_stream_it_waits_for_the_devices_copy_alone(self):
        self.device.gate.set()
        self.worker.gate.clear()
        longhaul.snapshot(self.state, 3)
        self.assertEqual(self.log[:3], ["pinned", "copy on None", "copied"])
        self.assertGreater(self.worker.stopped_ns, 0)
        # From here on the caller may write: also what is not on the device was copied.
        self.state["w"].mul_(2)
        self.state["cpu"].add_(1)
        longhaul.report(3)
        self.assertIn("reported 3", self.log)
        cpu = next(number for number, (info, _, _) in enumerate(self.worker.tensors)
                   if "cpu" in info.name)
        self.assertEqual(self.worker.values(cpu), [0.0, 0.0])
        self.worker.gate.set()
        longhaul.wait()
        self.assertEqual(self.log[-1], "sealed 3: [1.0, 2.0]")

    def test_what_went_wrong_behind_is_raised_by_wait_once(self):
        self.device.gate.set()
        self.worker.fails = True
        longhaul.snapshot(self.state, 4, stream="side")
        with self.assertRaisesRegex(LonghaulError, "no room"):
            longhaul.wait()
        longhaul.wait()


if __name__ == "__main__":
    unittest.main()
