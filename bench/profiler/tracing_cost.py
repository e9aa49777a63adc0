#!/usr/bin/env python3
"""What tracing costs the built-in trainer: with it off, and on.

  tracing_cost.py [--build build/release] [--pairs 3] [--steps 60]

Runs one job of one worker in turns: untraced, and traced from its sixth step on. A run's cost is
the CPU time of its processes, less that of a run of six steps, over the steps between; by CPU time,
since the machine may be shared. Prints one JSON object: the steps' costs and the ratios of their
medians. What tracing costs where it is off can't be told from a run: it is a comparison with null
an operator (docs/trainer-trace.md); `off_again` is how unlike two untraced runs are, the bound of
what could be seen.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

import refit

FIRST = 6


def cpu_seconds(program, text, folder):
    file = folder / "job.json"
    file.write_text(json.dumps(text))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "run", str(file), "--quiet", "--run-dir", str(folder / "run")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    program = str((arguments.build / "src/bin/longhaul").resolve())
    steps = arguments.steps

    def run(count, traced):
        text = refit.job((1, 1, 1), 8, count, False)
        if traced:
            text["trace"] = {"first_step": FIRST, "steps": min(100, count - FIRST)}
        with tempfile.TemporaryDirectory() as name:
            return cpu_seconds(program, text, pathlib.Path(name))

    rows = {"off": [], "on": [], "off_again": []}
    for _ in range(arguments.pairs):
        short = run(FIRST, False)
        for kind in rows:
            rows[kind].append((run(steps, kind == "on") - short) / (steps - FIRST))
    off = statistics.median(rows["off"])
    print(json.dumps({
        "load": os.getloadavg()[0],
        "cpu_ms_a_step": {kind: [round(1e3 * s, 2) for s in list_] for kind, list_ in rows.items()},
        "on_over_off": round(statistics.median(rows["on"]) / off, 4),
        "off_again_over_off": round(statistics.median(rows["off_again"]) / off, 4),
    }, indent=1))


if __name__ == "__main__":
    main()
