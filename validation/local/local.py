#!/usr/bin/env python3
"""Runs small jobs on this machine and holds predicted step time and memory against measured ones.

    validation/local/local.py --program build/release/src/bin/longhaul [--device device.json]
                              [--calibrate] [--rounds 3] [--only headers-gpt] [--csv results.csv]

Calibrate first. Each case is a copy of examples/headers-gpt.yaml with fewer steps, in a layout of
its own, or another model; nothing of the planner is fitted to any of them. Rounds of one case are
spread over the whole run, and the table has the median of their medians. --priority gives the
run's own processes more of the machine than others have (needs the right to).
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
import threading

# name, layers, hidden, heads, sequence, global batch, nodes, workers a node, micro batch (0: the
# planner chooses)
CASES = [
    ("headers-gpt", 4, 128, 4, 128, 32, 0, 0, 0),
    ("one worker", 4, 128, 4, 128, 32, 1, 1, 8),
    ("one worker, whole batch", 4, 128, 4, 128, 32, 1, 1, 32),
    ("two workers", 4, 128, 4, 128, 32, 2, 1, 16),
    ("two workers, micro 4", 4, 128, 4, 128, 32, 1, 2, 4),
    ("four workers, micro 1", 4, 128, 4, 128, 32, 2, 2, 1),
    ("wide", 2, 256, 4, 256, 16, 2, 1, 4),
    ("wider, short", 4, 512, 8, 64, 16, 2, 1, 8),
    ("narrow", 2, 64, 2, 64, 64, 2, 1, 32),
    ("narrow, deep", 8, 64, 4, 64, 64, 2, 2, 16),
    ("deep", 12, 128, 4, 128, 16, 2, 1, 4),
    ("long", 2, 128, 8, 512, 8, 2, 1, 2),
    ("wide heads", 3, 384, 3, 128, 16, 2, 1, 4),
]


def raise_priority(process, stop):
    """Each process of a run has a session of its own, and with it a scheduling group."""
    done = set()
    while not stop.is_set():
        children = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = pathlib.Path("/proc", pid, "stat").read_text()
                children.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(pid))
            except OSError:
                pass
        todo = [process]
        while todo:
            pid = todo.pop()
            todo += children.get(pid, [])
            if pid in done:
                continue
            done.add(pid)
            try:
                pathlib.Path("/proc", str(pid), "autogroup").write_text("-20")
            except OSError:
                pass
        stop.wait(0.2)


def start(arguments, words, environment):
    """Runs the program to its end; returns its exit code and what it wrote."""
    process = subprocess.Popen([arguments.program, *words], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    stop = threading.Event()
    if arguments.priority:
        threading.Thread(target=raise_priority, args=(process.pid, stop), daemon=True).start()
    output = process.communicate(timeout=600)[0]
    stop.set()
    return process.returncode, output


def run(arguments, case, directory):
    name, layers, hidden, heads, sequence, batch, nodes, workers, micro = case
    job = {
        "name": "local",
        "model": {"kind": "gpt", "layers": layers, "hidden": hidden, "heads": heads,
                  "sequence": sequence},
        "data": {"include": ["/usr/include/**/*.h"], "max_bytes": "32MiB"},
        "train": {"steps": arguments.steps, "global_batch": batch, "evaluate_every": 0},
        "sample": {"bytes": 8},
    }
    if nodes:
        job["resources"] = {"nodes": nodes, "processes_per_node": workers, "micro_batch": micro}
    file = directory / "job.json"
    file.write_text(json.dumps(job))
    environment = dict(os.environ)
    if arguments.device:
        environment["LONGHAUL_DEVICE_FILE"] = os.path.abspath(arguments.device)
    code, output = start(arguments, ["run", str(file), "--quiet", "--run-dir",
                                     str(directory / "run")], environment)
    if code != 0:
        sys.exit(f"{name}: longhaul run failed:\n{output}")
    return json.loads((directory / "run" / "report.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", help="a device file instead of the default one")
    parser.add_argument("--calibrate", action="store_true", help="measure the machine first")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--only", help="cases whose name holds this")
    parser.add_argument("--csv", help="also write the table here")
    parser.add_argument("--priority", action="store_true")
    arguments = parser.parse_args()
    if arguments.calibrate:
        words = ["calibrate"] + (["--output", arguments.device] if arguments.device else [])
        code, output = start(arguments, words, dict(os.environ))
        print(output)
        if code != 0:
            sys.exit("longhaul calibrate failed")
    cases = [case for case in CASES if not arguments.only or arguments.only in case[0]]
    reports = {case[0]: [] for case in cases}
    for _ in range(arguments.rounds):
        for case in cases:
            with tempfile.TemporaryDirectory() as directory:
                reports[case[0]].append(run(arguments, case, pathlib.Path(directory)))
    rows = []
    for case in cases:
        name = case[0]
        runs = reports[name]
        told = runs[0]["prediction"]
        step = statistics.median(r["prediction"]["step_seconds"]["measured"] for r in runs)
        memory = statistics.median(r["prediction"]["worker_memory_bytes"]["measured"] for r in runs)
        layout = runs[0]["layout"]
        rows.append({
            "case": name,
            "model": "x".join(str(size) for size in case[1:3]) + f", {case[3]} heads, {case[4]}",
            "batch": case[5],
            "workers": layout["nodes"] * layout["processes_per_node"],
            "micro": told["micro_batch"],
            "step_ms": round(1e3 * told["step_seconds"]["predicted"], 1),
            "measured_ms": round(1e3 * step, 1),
            "step_error_percent": round(100 * (told["step_seconds"]["predicted"] / step - 1), 1),
            "memory_mib": round(told["worker_memory_bytes"]["predicted"] / 2**20, 1),
            "measured_mib": round(memory / 2**20, 1),
            "memory_error_percent":
                round(100 * (told["worker_memory_bytes"]["predicted"] / memory - 1), 1),
            "level": told["level"],
        })
    keys = list(rows[0])
    print("| " + " | ".join(keys) + " |\n|" + " --- |" * len(keys))
    for row in rows:
        print("| " + " | ".join(str(row[key]) for key in keys) + " |")
    for kind in ("step", "memory"):
        errors = [abs(row[kind + "_error_percent"]) for row in rows]
        print(f"\n{kind}: mean error {statistics.mean(errors):.1f} %, largest {max(errors):.1f} %")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, keys)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
