#!/usr/bin/env python3
"""The scheduler's figures in one run: the class's benchmarks, then the openb lists by the class.

    bench/scheduler/scheduler.py [--build build/release] [--traces FOLDER] [--seeds 10]

FOLDER is alibaba-openb-2023 of the published traces (csv/ and expected_fgd/ inside); without it the
lists are skipped. Prints the machine and the load average before and after.
"""
import argparse
import os
import pathlib
import subprocess
import sys


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, load average {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--traces")
    parser.add_argument("--seeds", type=int, default=10)
    flags = parser.parse_args()
    room = pathlib.Path(flags.build) / "src/scheduler"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    print(f"commit {commit.stdout.strip()}, {machine()}", flush=True)
    codes = [subprocess.run([room / "scheduler_class_bench"]).returncode]
    if flags.traces:
        codes.append(
            subprocess.run(
                [room / "openb_replay_bench", flags.traces, "--class", "--seeds", str(flags.seeds)]
            ).returncode
        )
    else:
        print("openb lists skipped: no --traces")
    print(machine())
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
