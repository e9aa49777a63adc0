#!/usr/bin/env python3
"""How fast traces are read, in how much memory, beside HolisticTraceAnalysis.

  profiler.py --build build/release [--gigabytes 1] [--within MIB] [--hta PYTHON] [TRACE...]

Generates a job's traces (simulated; tensor 8, data 4, pipeline 4, a slow rank), profiles them with
`longhaul profile`, with --within again in so much memory, and reads each TRACE given with
profiler_read_bench. Speeds are bytes of JSON a second of CPU time, user and system; memory is the
largest resident set. With --hta, a Python that has HolisticTraceAnalysis, each TRACE is loaded by
it too. Prints one JSON object.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

RANKS = (8, 4, 4)
LAYERS, MICRO_BATCHES, SLOW_RANK = 8, 16, 77
BYTES_A_STEP = 125e6  # of all ranks' JSON; measured

HTA = """
import resource, sys
from hta.trace_analysis import TraceAnalysis
def seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime
begin = seconds()
TraceAnalysis(trace_files={0: sys.argv[1]})
print("RESULT", seconds() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def profile(build, folder, *flags):
    """CPU seconds, peak memory and the first finding of one `longhaul profile`."""
    with tempfile.NamedTemporaryFile("w+") as out:
        begin = time.monotonic()
        process = subprocess.Popen(
            [str(build / "src/bin/longhaul"), "profile", str(folder), "--json", *flags], stdout=out)
        _, status, use = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit("longhaul profile failed")
        out.seek(0)
        report = json.load(out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    cpu_s = use.ru_utime + use.ru_stime
    return {
        "json_bytes": size,
        "seconds": time.monotonic() - begin,
        "cpu_seconds": cpu_s,
        "mb_per_cpu_second": size / 1e6 / cpu_s,
        "peak_memory_bytes": use.ru_maxrss * 1024,
        "peak_memory_over_json": use.ru_maxrss * 1024 / size,
        "first_finding": report["findings"][0],
        "warnings": report["warnings"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--within", type=int, help="MiB of memory for all of it")
    parser.add_argument("--hta", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("traces", nargs="*")
    arguments = parser.parse_args()
    tools = arguments.build / "src/profiler"
    result = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        steps = max(1, round(arguments.gigabytes * 1e9 / BYTES_A_STEP))
        run([tools / "profiler_generate_traces", folder, *RANKS, LAYERS, MICRO_BATCHES, steps,
             SLOW_RANK], stdout=subprocess.DEVNULL)
        result["generated"] = profile(arguments.build, folder)
        if arguments.within:
            result["within"] = profile(arguments.build, folder, "--memory-mib",
                                       str(arguments.within))
    for trace in arguments.traces:
        row = {"read": run([tools / "profiler_read_bench", trace],
                           stdout=subprocess.PIPE).stdout.strip()}
        if arguments.hta:
            text = run([arguments.hta, "-c", HTA, trace], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL).stdout
            words = [line.split() for line in text.splitlines() if line.startswith("RESULT")][0]
            row["hta_cpu_seconds"] = float(words[1])
            row["hta_peak_memory_bytes"] = int(words[2])
        result[os.path.basename(trace)] = row
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
