#!/usr/bin/env python3
"""What snapshots cost a whole run: one run with a snapshot each --every seconds, in windows.

Every rank multiplies matrices and updates a state of its own in place; all begin each window of
steps together. A period of --every seconds is six windows. The first begins with a snapshot, which
goes to the peer's memory and to disk asynchronously, and ends within two windows. What the two take
longer than the mean of the two before and the two behind them is what the snapshot costs, so what
drifts slowly falls out; that over the rest of the period is the slow-down. Four snapshots come
before: they touch the pages of every slot, here and at the peer, which costs a run once; what that
took is printed apart. Prints each period's slow-down and the median. Needs NumPy in
/usr/bin/python3.
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

mib, every, periods = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
state = {f"layer.{i}": numpy.ones(mib * 1024 * 1024 // 4 // 64, numpy.float32) for i in range(64)}
matrix = numpy.ones((512, 512), numpy.float32) / 512
longhaul.restore()
step, meetings = 1, 0

# The largest value of all ranks, once all have come.
def agree(value):
    global meetings
    meetings += 1
    name = f"{sys.argv[4]}/{meetings}."
    with open(name + f"{rank}.new", "w") as file:
        file.write(repr(value))
    os.rename(name + f"{rank}.new", name + str(rank))
    values = []
    for other in range(world):
        while not os.path.exists(name + str(other)):
            time.sleep(0.001)
        values.append(float(open(name + str(other)).read()))
    return max(values)

# Seconds until all ranks have done so many steps.
def window(count, snapshot=False):
    global step
    begin = time.monotonic()
    for index in range(count):
        for _ in range(8):
            matrix @ matrix
        for tensor in state.values():
            tensor *= 1.0
        step += 1
        if snapshot and index == 0:
            longhaul.snapshot(state, step)
        longhaul.report(step, loss=1.0)
    agree(0)
    return time.monotonic() - begin

WARM, QUIET, WINDOWS = 4, 60, 6
window(QUIET)
count = max(10, int(QUIET * every / WINDOWS / agree(window(QUIET))))
warm = sum(window(count, True) + window(count) for _ in range(WARM))
plain = [window(count) for _ in range(2)]
if rank == 0:
    print(f"first {warm - WARM * sum(plain):.3f}", flush=True)
    print(f"took {plain[0]:.4f}", flush=True)
    print(f"took {plain[1]:.4f}", flush=True)
for turn in range(WINDOWS * periods):
    took = window(count, turn % WINDOWS == 0)
    if rank == 0:
        print(f"took {took:.4f}", flush=True)
longhaul.wait()
agree(0)
'''

WINDOWS = 6


def costs(windows):
    """Of each period: what its snapshot cost, over what the period takes without. `windows`: the
    two before the first period, and six a period."""
    shares = []
    for first in range(2, len(windows) - WINDOWS + 1, WINDOWS):
        around = windows[first - 2:first] + windows[first + 2:first + 4]
        plain = statistics.mean(around)
        shares.append((sum(windows[first:first + 2]) - 2 * plain) / (WINDOWS * plain))
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--periods", type=int, default=12)
    parser.add_argument("--every", type=float, default=30, help="seconds between snapshots")
    parser.add_argument("--mib", type=int, default=256, help="state of a rank")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        meetings = os.path.join(folder, "meetings")
        os.mkdir(meetings)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1",
                       "PYTHONPATH": os.path.join(ROOT, "python")}
        done = subprocess.run(
            [os.path.join(options.build, "src/bin/longhaul"), "run", "--nodes", "2", "--procs",
             "1", "--run-dir", "run", "--", "/usr/bin/python3", "-B", script,
             str(options.mib), str(options.every), str(options.periods), meetings],
            cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment)
        if done.returncode != 0:
            print(done.stdout)
            return 1
        first = float(re.search(r"first (-?[\d.]+)", done.stdout)[1])
        windows = [float(took) for took in re.findall(r"took ([\d.]+)", done.stdout)]
        saved = os.path.join(folder, "run")
        committed = sum("MANIFEST" in names for _, _, names in os.walk(saved))
    print(f"state {options.mib} MiB a rank, a snapshot every {options.every} s, load {before:.1f} "
          f"before, {os.getloadavg()[0]:.1f} after")
    print(f"the first four snapshots: {first:.2f} s, once; windows of "
          f"{statistics.median(windows):.2f} s")
    shares = costs(windows)
    print("slow-down, %: " + ", ".join(f"{100 * share:.2f}" for share in shares))
    print(f"median {100 * statistics.median(shares):.2f} %, "
          f"mean {100 * statistics.mean(shares):.2f} %; {committed} checkpoints on disk at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
