#!/usr/bin/env python3
"""What the first saves of a run cost beside the later ones, through the whole product.

One rank under `longhaul run` with a state of NumPy arrays: restore, a step, `prepare` (unless
--unprepared), --wait seconds of work, then eight snapshots one after the other, each timed where
training stops. There are three slots, so the first three are each the first into theirs. Prints
each and the ratio of the first three to the median of the last three, over --runs runs. Needs NumPy
in /usr/bin/python3.
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
import sys, time
import numpy, longhaul

mib, wait, prepared = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1"
state = {f"layer.{i}": numpy.ones(mib * 1024 * 1024 // 4 // 64, numpy.float32) for i in range(64)}
longhaul.restore()
longhaul.due(0)
if prepared:
    longhaul.prepare(state)
end = time.monotonic() + wait
step = 0
while time.monotonic() < end:
    for tensor in state.values():
        tensor *= 1.0
    step += 1
    longhaul.report(step, loss=1.0)
for i in range(8):
    for tensor in state.values():
        tensor *= 1.0
    step += 1
    own = time.thread_time()
    begin = time.monotonic()
    longhaul.snapshot(state, step)
    print(f"took {time.monotonic() - begin:.5f} {time.thread_time() - own:.5f}", flush=True)
    longhaul.report(step, loss=1.0)
    time.sleep(1)
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--wait", type=float, default=10, help="seconds before the first save")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--unprepared", action="store_true")
    options = parser.parse_args()
    ratios, own_ratios = [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "worker.py")
            with open(script, "w") as file:
                file.write(WORKER)
            done = subprocess.run(
                [os.path.join(options.build, "src/bin/longhaul"), "run", "--nodes", "1",
                 "--procs", "1", "--run-dir", "run", "--", "/usr/bin/python3", "-B", script,
                 str(options.mib), str(options.wait), str(int(not options.unprepared))],
                cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        took = [(float(a), float(b))
                for a, b in re.findall(r"took ([\d.]+) ([\d.]+)", done.stdout)]
        if done.returncode != 0 or len(took) != 8:
            print(done.stdout)
            return 1
        steady = statistics.median(wall for wall, _ in took[5:])
        own_steady = statistics.median(own for _, own in took[5:])
        ratios.append([wall / steady for wall, _ in took[:3]])
        own_ratios.append([own / own_steady for _, own in took[:3]])
        gib = options.mib / 1024
        print("s/GiB: " + " ".join(f"{wall / gib:.4f}" for wall, _ in took)
              + "; own: " + " ".join(f"{own / gib:.4f}" for _, own in took), flush=True)
    for name, rows in (("on the clock", ratios), ("own time", own_ratios)):
        print(f"{name}: first {statistics.median(row[0] for row in rows):.2f} of steady, second "
              f"{statistics.median(row[1] for row in rows):.2f}, third "
              f"{statistics.median(row[2] for row in rows):.2f}; load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
