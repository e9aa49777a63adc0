#!/usr/bin/env python3
"""How long the default search of `longhaul plan` takes, model by model.

    bench/planner/search_time.py [--program build/release/src/bin/longhaul] [--gpu h100-sxm]
        [--gpus 64,512,16384] [--models NAME,...] [--threads N] [--markdown]

Plans every shipped model (or those named) on each number of GPUs with default options and prints
seconds of processor time (user and system), seconds by the clock, the proven gap and the best
layout's step. "none" means that no layout fits, or that none is legal. Prints the machine and its
load first. The gap is the share by which a layout that was not looked at could be faster at most: 0
where the best is the optimum.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, load average {os.getloadavg()[0]:.1f}"


def shipped_models(program):
    """The names that the refusal of an unknown one lists."""
    said = subprocess.run([program, "plan", "no-such-model-at-all", "h100-sxm:8"],
                          capture_output=True, text=True, check=False).stderr
    found = re.search(r"known: ([^()]*)", said)
    if not found:
        raise SystemExit(f"no list of models in: {said}")
    return [name.strip() for name in found.group(1).split(",")]


def measure(program, model, cluster, threads):
    command = [program, "plan", model, cluster]
    if threads:
        command += ["--threads", str(threads)]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    text = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    clock = time.monotonic() - begin
    limited = re.search(r"search ended at its limit: no layout is better"
                        r"(?: by more than ([\d.]+) %)?", text)
    gap = float(limited.group(1) or 0) if limited else 0.0
    step = re.search(r"The best, step by step \(([^,]*),", text)
    return usage.ru_utime + usage.ru_stime, clock, gap, step.group(1) if step else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/src/bin/longhaul"))
    parser.add_argument("--gpu", default="h100-sxm")
    parser.add_argument("--gpus", default="64,512,16384")
    parser.add_argument("--models", help="default: every shipped one")
    parser.add_argument("--threads", type=int, help="default: the program's, one a core")
    parser.add_argument("--markdown", action="store_true", help="print a table for a document")
    flags = parser.parse_args()
    models = flags.models.split(",") if flags.models else shipped_models(flags.program)
    counts = [int(count) for count in flags.gpus.split(",")]
    print(f"{machine()}; threads: {flags.threads or os.cpu_count()}", flush=True)
    row = "{:<18}{:>7}{:>10}{:>10}{:>9}  {}"
    if flags.markdown:
        row = "| {} | {} | {} | {} | {} | {} |"
    print(row.format("model", "gpus", "CPU s", "clock s", "gap %", "step"))
    if flags.markdown:
        print("|---|---:|---:|---:|---:|---:|")
    slowest = 0.0
    for model in models:
        for count in counts:
            cpu, clock, gap, step = measure(flags.program, model, f"{flags.gpu}:{count}",
                                            flags.threads)
            slowest = max(slowest, cpu)
            print(row.format(model, count, f"{cpu:.1f}", f"{clock:.1f}", f"{gap:.2f}", step),
                  flush=True)
    print(f"slowest: {slowest:.1f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
