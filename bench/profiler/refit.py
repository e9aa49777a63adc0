#!/usr/bin/env python3
"""A device file refitted from a trace of one layout, held against runs of others.

  refit.py [--build build/release] [--rounds 3] [--steps 30] [--priority] [--keep FOLDER]

Each round runs the built-in trainer as 2 x 2 x 2 (data x tensor x pipeline) with tracing on, refits
a device file from its traces (`longhaul profile --refit`), then runs other layouts untraced with
that file, whose steps it predicts; what is measured is the median distance of two steps by the
clock. A shared machine may be a fifth slower a minute later, which no trace of before can know: so
the traced layout runs again, untraced, before and after each other one, and each prediction is also
told at that run's pace: times the traced layout's steps around it over its steps in the trace
(tracing itself is in that pace: tracing_cost.py). Errors are told both ways, each round's and their
median. The machine should be idle; --priority runs at a nice value of -15, before most of what a
busy one does (needs the right to). Takes two minutes a round; with --keep, rounds are added to
those kept there. Prints one JSON object.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TRACED = (2, 2, 2)
# data, tensor, pipeline, micro batch: fewer ranks, as many, and none in parts.
OTHERS = [(1, 2, 2, 4), (4, 1, 2, 4), (2, 1, 2, 4), (1, 1, 4, 4), (2, 2, 1, 4), (2, 1, 1, 4)]
FIRST_TRACED_STEP = 6
TRACED_STEPS = 8
PACE_STEPS = 12


def job(layout, micro_batch, steps, traced):
    data, tensor, pipeline = layout
    text = {
        "name": "refit",
        "model": {"kind": "gpt", "layers": 4, "hidden": 128, "heads": 4, "sequence": 128},
        "data": {"include": ["/usr/include/**/*.h"], "max_bytes": "8MiB"},
        "train": {"steps": steps, "global_batch": 32, "evaluate_every": 0},
        "layout": {"data": data, "tensor": tensor, "pipeline": pipeline},
        "resources": {"nodes": 1, "processes_per_node": data * tensor * pipeline,
                      "micro_batch": micro_batch},
        "sample": {"bytes": 8},
    }
    if traced:
        text["trace"] = {"first_step": FIRST_TRACED_STEP, "steps": TRACED_STEPS}
    return text


class Bench:
    def __init__(self, arguments, folder):
        self.program = str((arguments.build / "src/bin/longhaul").resolve())
        self.priority = arguments.priority
        self.folder = folder
        self.device = pathlib.Path()

    def call(self, *words):
        environment = dict(os.environ)
        if self.device.is_file():
            environment["LONGHAUL_DEVICE_FILE"] = str(self.device)
        process = subprocess.Popen([self.program, *map(str, words)], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   preexec_fn=(lambda: os.nice(-15)) if self.priority else None)
        output = process.communicate(timeout=300)[0]
        if process.returncode != 0:
            sys.exit(f"longhaul {' '.join(map(str, words))} failed:\n{output}")
        return output

    def run(self, name, text):
        file = self.folder / "job.json"
        file.write_text(json.dumps(text))
        run = self.folder / name
        self.call("run", file, "--quiet", "--run-dir", run)
        return run, json.loads((run / "report.json").read_text())


def name_of(layout):
    return "-".join(map(str, layout))


def one_round(bench, where, steps):
    where.mkdir()
    bench.device = pathlib.Path()
    traced, _ = bench.run(where / "traced",
                          job(TRACED, 4, FIRST_TRACED_STEP + TRACED_STEPS + 2, traced=True))
    bench.call("profile", traced / "traces", "--refit", where / "refitted.json")
    bench.device = where / "refitted.json"
    for turn, layout in enumerate([None, *OTHERS]):
        if layout:
            bench.run(where / name_of(layout), job(layout[:3], layout[3], steps, False))
        bench.run(where / f"pace-{turn}", job(TRACED, 4, PACE_STEPS, False))


def told(where, name):
    report = json.loads((where / name / "report.json").read_text())
    return report["prediction"]["step_seconds"]


def traced_step(where):
    with open(where / "traced/metrics.csv", encoding="utf-8") as file:
        ends = {int(row["step"]): float(row["seconds"]) for row in csv.DictReader(file)}
    traced = range(FIRST_TRACED_STEP, FIRST_TRACED_STEP + TRACED_STEPS)
    return statistics.median(ends[step] - ends[step - 1] for step in traced)


def one_told(where, turn, layout):
    """What a round tells of a layout, with the pace at it: above 1 is slower than in the trace."""
    around = [told(where, f"pace-{at}")["measured"] for at in (turn, turn + 1)]
    return {**told(where, name_of(layout)), "pace": sum(around) / 2 / traced_step(where)}


def percents(errors):
    return [round(100 * error, 1) for error in errors]


def row(layout, rounds):
    errors = [step["predicted"] / step["measured"] - 1 for step in rounds]
    paced = [step["predicted"] * step["pace"] / step["measured"] - 1 for step in rounds]
    return {
        "layout": "x".join(map(str, layout[:3])),
        "micro_batch": layout[3],
        "predicted_ms": [round(1e3 * step["predicted"], 1) for step in rounds],
        "measured_ms": [round(1e3 * step["measured"], 1) for step in rounds],
        "pace": [round(step["pace"], 3) for step in rounds],
        "error_percent": round(100 * statistics.median(errors), 1),
        "errors_percent": percents(errors),
        "error_at_its_pace_percent": round(100 * statistics.median(paced), 1),
        "errors_at_its_pace_percent": percents(paced),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--priority", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the traces and files here")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.keep or pathlib.Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(arguments, folder)
        done = len(list(folder.glob("round-*")))
        rounds = range(done + arguments.rounds)
        for turn in rounds[done:]:
            one_round(bench, folder / f"round-{turn}", arguments.steps)
        rows = [row(layout, [one_told(folder / f"round-{turn}", at, layout) for turn in rounds])
                for at, layout in enumerate(OTHERS)]
    print(json.dumps({"traced": "x".join(map(str, TRACED)), "load": [load, os.getloadavg()[0]],
                      "layouts": rows}, indent=1))


if __name__ == "__main__":
    main()
