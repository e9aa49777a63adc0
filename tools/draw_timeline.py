#!/usr/bin/env python3
"""Draws docs/timeline.svg: the timeline of a real run in which a worker and then a node are killed.

  draw_timeline.py [LONGHAUL] [--out FILE] [--steps N]

Runs a small job of the built-in trainer on two local nodes with two workers each, in a folder that
is removed afterwards, and copies the timeline.svg of its report. LONGHAUL is the program (default:
build/release/src/bin/longhaul).
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parent.parent
JOB = """
name: killed-worker-and-node
model: {{layers: 4, hidden: 64, heads: 4, sequence: 64}}
data: {{include: [/usr/include/**/*.h], max_bytes: 4MiB}}
train: {{steps: {steps}, global_batch: 32, evaluate_every: 0}}
layout: {{data: 4, tensor: 1, pipeline: 1}}
snapshot: {{interval_steps: 5}}
sample: {{bytes: 0}}
"""


def draw(program, out, steps):
    """Returns the text that the run printed; raises CalledProcessError when it fails."""
    faults = f"kill worker 1 at step {steps * 3 // 10}; kill node 2 at step {steps * 6 // 10}"
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB.format(steps=steps))
        done = subprocess.run([program, "run", str(job), "--inject", faults], cwd=folder,
                              check=True, timeout=300, capture_output=True, text=True)
        shutil.copyfile(pathlib.Path(folder) / "runs/killed-worker-and-node/timeline.svg", out)
        return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", type=pathlib.Path,
                        default=PROJECT / "build/release/src/bin/longhaul")
    parser.add_argument("--out", type=pathlib.Path, default=PROJECT / "docs/timeline.svg")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    try:
        print(draw(str(options.program.resolve()), options.out, options.steps))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stdout}{error.stderr}")


if __name__ == "__main__":
    main()
