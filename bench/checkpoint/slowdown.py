#!/usr/bin/env python3
"""What snapshots cost a whole run: turns of one run with and without them.

Every rank multiplies matrices and updates a state of its own in place. Turns of --every seconds
alternate, in the order with, without, without, with; one with takes one snapshot a third into it,
which goes to the peer's memory and to disk behind the run within the turn. So neighbours in time
are compared and what drifts slowly falls out. Four snapshots come before: they touch the pages of
every slot, here and at the peer, which costs a run once; what that took is printed apart. Prints
the ratio of each pair and the median. Needs NumPy in /usr/bin/python3.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

WORKER = '''
import os, sys, time
import numpy, longhaul

mib, every, pairs = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
state = {f"layer.{i}": numpy.ones(mib * 1024 * 1024 // 4 // 64, numpy.float32) for i in range(64)}
matrix = numpy.ones((512, 512), numpy.float32) / 512
longhaul.restore()

def steps(count, first, snapshot_at):
    for step in range(first, first + count):
        for _ in range(8):
            matrix @ matrix
        for tensor in state.values():
            tensor *= 1.0
        if step == snapshot_at:
            longhaul.snapshot(state, step)
        longhaul.report(step, loss=1.0)

WARM, QUIET = 4, 60
begin = time.monotonic()
steps(QUIET, 2, 0)
step_seconds = (time.monotonic() - begin) / QUIET
apart = max(10, int(5 / step_seconds))  # what goes on behind one snapshot ends before the next
begin = time.monotonic()
for warm in range(WARM):
    steps(apart, 100 + warm * apart, 100 + warm * apart)
print(f"first {time.monotonic() - begin - WARM * apart * step_seconds:.3f}", flush=True)
first_step = 100 + WARM * apart
begin = time.monotonic()
steps(QUIET, first_step, 0)
count = max(10, int(every * QUIET / (time.monotonic() - begin)))
first_step += QUIET
for turn in range(2 * pairs):
    first = first_step + turn * count
    with_snapshot = turn % 4 in (0, 3)
    begin = time.monotonic()
    # A third into the turn: what runs behind it ends within.
    steps(count, first, first + count // 3 if with_snapshot else 0)
    print(f"took {int(with_snapshot)} {time.monotonic() - begin:.4f}", flush=True)
longhaul.wait()
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--pairs", type=int, default=8, help="of turns; each rank gives as many")
    parser.add_argument("--every", type=float, default=30, help="seconds between snapshots")
    parser.add_argument("--mib", type=int, default=256, help="state of a rank")
    options = parser.parse_args()
    ratios, seconds = [], []
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1",
                       "PYTHONPATH": os.path.join(ROOT, "python")}
        done = subprocess.run(
            [os.path.join(options.build, "src/bin/longhaul"), "run", "--nodes", "2", "--procs",
             "1", "--run-dir", "run", "--", "/usr/bin/python3", "-B", script,
             str(options.mib), str(options.every), str(options.pairs)],
            cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment)
        if done.returncode != 0:
            print(done.stdout)
            return 1
        for rank in range(2):
            seconds += re.findall(rf"\[rank {rank}\] (took \d|first) ([\d.]+)", done.stdout)
            took = re.findall(rf"\[rank {rank}\] took (\d) ([\d.]+)", done.stdout)
            for one, other in zip(took[::2], took[1::2]):
                with_, without = (one, other) if one[0] == "1" else (other, one)
                ratios.append(float(with_[1]) / float(without[1]))
        saved = os.path.join(folder, "run")
        committed = sum("MANIFEST" in names for _, _, names in os.walk(saved))
    print(f"state {options.mib} MiB a rank, a snapshot every {options.every} s, load {before:.1f} "
          f"before, {os.getloadavg()[0]:.1f} after")
    firsts = [float(took) for what, took in seconds if what == "first"]
    turns = [float(took) for what, took in seconds if what != "first"]
    print(f"the first four snapshots: {statistics.mean(firsts):.2f} s a rank, once; turns of "
          f"{statistics.median(turns):.1f} s")
    print("with over without: " + ", ".join(f"{ratio:.4f}" for ratio in ratios))
    print(f"median {statistics.median(ratios):.4f}; {committed} checkpoints on disk at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
