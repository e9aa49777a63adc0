"""What snapshots of tensors cost, and whether they come back bit-equal. Part of hardware_check.

Run by tools/hardware_check as the only worker of a job, on a GPU or on the processor. The first
attempt takes a snapshot and kills itself. The second one restores it, compares every byte, and
measures how long training would stop for

  plain        a copy of each tensor to the host (page-locked memory for a GPU)
  snapshot     longhaul.snapshot
  stream       longhaul.snapshot(stream=...) until it returns (GPU only)
  async_save   torch.distributed.checkpoint.async_save until it returns

medians, of states whose tensors have changed between any two. Writes a JSON object to --result.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

import longhaul

TENSORS = 16
STEP = 7


def make_state(bytes_in_all, device, seed):
    draws = torch.Generator().manual_seed(seed)
    count = bytes_in_all // TENSORS // 4
    return {f"layer-{i}": torch.randn(count, generator=draws).to(device) for i in range(TENSORS)}


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(device, action):
    synchronize(device)
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure(arguments, state):
    """The median of each kind, in seconds."""
    device = arguments.device
    pinned = {name: torch.empty(value.shape, dtype=value.dtype, pin_memory=device == "cuda")
              for name, value in state.items()}
    side = torch.cuda.Stream() if device == "cuda" else None
    folder = tempfile.mkdtemp(dir="/dev/shm", prefix="hardware-check-")
    step = STEP

    def plain():
        for name, value in state.items():
            pinned[name].copy_(value, non_blocking=True)
        synchronize(device)

    def change():
        for value in state.values():
            value.add_(1.0)

    from torch.distributed.checkpoint import async_save
    times = {"plain": [], "snapshot": [], "stream": [], "async_save": []}
    try:
        for number in range(arguments.repeats):
            change()
            times["plain"].append(seconds(device, plain))
            change()
            step += 1
            times["snapshot"].append(
                seconds(device, lambda: longhaul.snapshot(state, step)))
            longhaul.wait()
            if side is not None:
                change()
                step += 1
                times["stream"].append(
                    seconds(device, lambda: longhaul.snapshot(state, step, stream=side)))
                longhaul.wait()
            change()
            pending = []
            times["async_save"].append(seconds(device, lambda: pending.append(
                async_save(state, checkpoint_id=os.path.join(folder, str(number))))))
            pending[0].result()
            shutil.rmtree(os.path.join(folder, str(number)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {kind: statistics.median(each[1:]) for kind, each in times.items() if len(each) > 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--result", required=True)
    arguments = parser.parse_args()
    dist.init_process_group("gloo" if arguments.device == "cpu" else "cpu:gloo,cuda:nccl")
    if arguments.device == "cuda":
        torch.cuda.set_device(0)
    expected = make_state(arguments.bytes, arguments.device, seed=3)
    saved = longhaul.restore()
    if saved is None:
        longhaul.snapshot(expected, STEP)
        longhaul.report(STEP, loss=0.0, tokens=1)
        longhaul.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    equal = saved.step == STEP and all(
        torch.equal(saved.state[name], value.cpu()) for name, value in expected.items())
    figures = {"bytes": arguments.bytes, "bit_equal": equal,
               "seconds": measure(arguments, expected)}
    with open(arguments.result, "w", encoding="utf-8") as file:
        json.dump(figures, file)
    longhaul.report(STEP + 1, loss=0.0, tokens=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
