#!/usr/bin/env python3
"""What training stops for: our snapshot, torch.save to tmpfs and PyTorch's asynchronous checkpoint.

The same state for all, 1 GiB in 468 tensors of a GPT's sizes. Ours is the program blocking_bench
(beside the copy alone, with its first save, and copy on write with the 20 steps after it); the
others run in the Pythons given, each save timed after two that warm up. A Python whose torch has no
asynchronous checkpoint is told so. Figures mean something only on an idle machine; the load is
printed.
"""
import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

OTHERS = '''
import logging, os, shutil, statistics, sys, tempfile, time, warnings
warnings.filterwarnings("ignore")
import torch
logging.disable(logging.WARNING)

mib, rounds = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
d = 16
while 12 * (d + 16) ** 2 <= mib * 2**20 / 39 / 4:
    d += 16
rows = [3, 0, 1, 0, 4, 0, 4, 0, 0, 0, 0, 0]
state = {f"layer.{i}": torch.rand(rows[i % 12] * d, d) if rows[i % 12] else torch.rand(d)
         for i in range(468)}
gib = sum(4 * tensor.numel() for tensor in state.values()) / 2**30
folder = tempfile.mkdtemp(dir="/dev/shm")


def show(what, seconds):
    kept = seconds[2:]
    print(f"torch {torch.__version__}, {what}: {statistics.median(kept) / gib:.4f} s/GiB "
          f"(first {seconds[0] / gib:.4f})", flush=True)


def timed(work):
    begin = time.monotonic()
    result = work()
    return time.monotonic() - begin, result


try:
    path = os.path.join(folder, "state.pt")
    show("torch.save to tmpfs", [timed(lambda: torch.save(state, path))[0]
                                 for _ in range(rounds + 2)])
    os.remove(path)
    copies = {name: tensor.clone() for name, tensor in state.items()}
    show("copy_ to tensors that are there", [
        timed(lambda: [copies[name].copy_(tensor) for name, tensor in state.items()])[0]
        for _ in range(rounds + 2)])
    del copies
    try:
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        dcp.async_save
    except (ImportError, AttributeError):
        print(f"torch {torch.__version__}: no asynchronous checkpoint")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        blocked, whole = [], []
        for i in range(rounds + 2):
            target = os.path.join(folder, f"dcp{i}")
            begin = time.monotonic()
            seconds, future = timed(lambda: dcp.async_save(state, checkpoint_id=target))
            blocked.append(seconds)
            future = getattr(future, "upload_completion", future)
            future.result()
            whole.append(time.monotonic() - begin)
            shutil.rmtree(target)
        show("async_save, blocked", blocked)
        show("async_save, until written to tmpfs", whole)
        dist.destroy_process_group()
finally:
    shutil.rmtree(folder, ignore_errors=True)
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=21, help="of ours; of the others a quarter")
    parser.add_argument("--python", action="append", default=[],
                        help="one with torch; may be repeated; /usr/bin/python3 when none is given")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} before", flush=True)
    program = os.path.join(options.build, "src/checkpoint/blocking_bench")
    failed = subprocess.run([program, "--mib", str(options.mib), "--rounds",
                             str(options.rounds)]).returncode
    for python in options.python or ["/usr/bin/python3"]:
        rounds = max(3, options.rounds // 4)
        failed |= subprocess.run([python, "-c", OTHERS, str(options.mib), str(rounds)]).returncode
    print(f"load {os.getloadavg()[0]:.1f} after")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
