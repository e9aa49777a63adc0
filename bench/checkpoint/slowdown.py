#!/usr/bin/env python3
"""What snapshots cost a whole run: pairs of runs of one script, with and without them.

Every rank multiplies matrices and updates a state of its own in place; with snapshots it takes one
every --every seconds, which goes to the peer's memory and to disk behind the run. Prints each
pair's ratio of the time that the steps took and the median. Needs NumPy in /usr/bin/python3.
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

mib, seconds, every = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
state = {f"layer.{i}": numpy.ones(mib * 1024 * 1024 // 4 // 64, numpy.float32) for i in range(64)}
matrix = numpy.ones((512, 512), numpy.float32) / 512
longhaul.restore()

def steps(count, first, snapshots):
    next_snapshot = time.monotonic() + every / 2
    for step in range(first, first + count):
        for _ in range(8):
            matrix @ matrix
        for tensor in state.values():
            tensor *= 1.0
        if snapshots and time.monotonic() >= next_snapshot:
            longhaul.snapshot(state, step)
            next_snapshot += every
        longhaul.report(step, loss=1.0)

longhaul.snapshot(state, 1)  # the arena is made and touched before the clock runs
begin = time.monotonic()
steps(10, 2, False)
count = max(10, int(seconds * 10 / (time.monotonic() - begin)))
for turn, snapshots in enumerate([True, False, False, True]):
    begin = time.monotonic()
    steps(count, 100 + turn * count, snapshots)
    print(f"took {int(snapshots)} {time.monotonic() - begin:.4f}", flush=True)
longhaul.wait()
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--runs", type=int, default=5, help="each gives two pairs a rank")
    parser.add_argument("--seconds", type=float, default=120, help="of each half of a pair")
    parser.add_argument("--every", type=float, default=30, help="seconds between snapshots")
    parser.add_argument("--mib", type=int, default=256, help="state of a rank")
    options = parser.parse_args()
    ratios = []
    before = os.getloadavg()[0]
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "worker.py")
            with open(script, "w") as file:
                file.write(WORKER)
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1",
                           "PYTHONPATH": os.path.join(ROOT, "python")}
            done = subprocess.run(
                [os.path.join(options.build, "src/bin/longhaul"), "run", "--nodes", "2", "--procs",
                 "1", "--run-dir", "run", "--", "/usr/bin/python3", "-B", script,
                 str(options.mib), str(options.seconds), str(options.every)],
                cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environment)
            if done.returncode != 0:
                print(done.stdout)
                return 1
            for rank in range(2):
                took = re.findall(rf"\[rank {rank}\] took (\d) ([\d.]+)", done.stdout)
                with_, without, again, with_again = (float(seconds) for _, seconds in took)
                ratios += [with_ / without, with_again / again]
    print(f"state {options.mib} MiB a rank, a snapshot every {options.every} s, load {before:.1f} "
          f"before, {os.getloadavg()[0]:.1f} after")
    print("with over without: " + ", ".join(f"{ratio:.4f}" for ratio in ratios))
    print(f"median {statistics.median(ratios):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
