#!/usr/bin/env python3
"""How much a job is slowed by another one on its node that misbehaves.

usage: isolation.py [LONGHAUL] [--pairs N] [--seconds S] [--no-control-groups] [--json FILE]

A controller and an agent run on this machine. The victim is a job whose steps are a fixed amount of
arithmetic; the neighbour is a job that

  killed      is killed with SIGKILL 0.2 s after each start, and is started again
  fork bomb   starts processes until it reaches its limit (limits.processes), again and again
  full disk   fills its disk, empties it and fills it again: a tmpfs of 64 MiB as root, else its
              files up to 64 MiB
  output      writes to its log without end, with limits.log_size 16 MiB

Each job has a core of its own (taskset), because neither control groups with equal weights nor the
scheduler give a job a core of which others keep off. The machine needs two cores for the two jobs;
what the kernel, the agent and the controller do for the neighbour may run on either.

Windows without a neighbour, beside one that computes as a job should, and beside the one that
misbehaves alternate, so that a slow drift of the machine meets all three. The ratio that the limit
is for is that of the last two: two cores may share caches, memory and, as hardware threads, even
their units, so that any neighbour slows the victim, and what counts here is that a job's
misbehaviour adds nothing. Printed are the medians of the victim's step times, that ratio of the
medians and the same for the 95th percentiles. The exit code is 1 when a ratio of medians exceeds
the limit.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 1.05
# Ends when its file is there. A step is some milliseconds of arithmetic in the cache.
VICTIM = """
import os, sys, time
with open(sys.argv[1], "w", buffering=1) as out:
    while not os.path.exists(sys.argv[2]):
        begin = time.monotonic()
        x = 0
        for i in range(100_000):
            x = (x * 31 + i) & 0xFFFFFFFF
        end = time.monotonic()
        out.write(f"{end} {end - begin}\\n")
"""
BURN = "import os, signal, threading; " \
       "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()\n" \
       "while True: pass"
FILL = """
import os, sys
while True:
    try:
        with open(sys.argv[1] + "/fill", "wb", buffering=0) as file:
            for _ in range(1024):
                file.write(bytes(1 << 16))
    except OSError:
        pass
    os.unlink(sys.argv[1] + "/fill")
"""


class Cluster:
    """A controller and an agent in a folder of their own."""

    def __init__(self, program, options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="isolation-"))
        self.program = program
        self.environment = {**os.environ,
                            "LONGHAUL_ENDPOINT": str(self.folder / "state/endpoint.json")}
        self.children = []
        self.start("controller", "--state-dir", "state")
        self.wait((self.folder / "state/endpoint.json").exists, "the controller")
        address = json.loads((self.folder / "state/endpoint.json").read_text())["agents"]
        root = ["--allow-root"] if os.geteuid() == 0 else []
        self.start("agent", "--controller", address, "--token-file", "state/token", "--node",
                   "node-1", "--slots", "2", "--state-dir", "agent", *root, *options)
        self.wait(lambda: len(json.loads(self.call("nodes", "--json"))["nodes"]) == 1, "the agent")

    def start(self, *words):
        with open(self.folder / f"{words[0]}.log", "w") as log:
            self.children.append(subprocess.Popen(
                [self.program, *words], cwd=self.folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def call(self, *words, check=True):
        done = subprocess.run([self.program, *words], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def wait(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited a minute for {what}; the logs are in {self.folder}")
            time.sleep(0.02)

    def submit(self, name, core, command, **keys):
        (self.folder / f"{name}.json").write_text(json.dumps({
            "name": name, "command": ["taskset", "-c", str(core), *command],
            "resources": {"nodes": 1, "processes_per_node": 1}, "max_restarts": 1_000_000, **keys}))
        return self.call("submit", f"{name}.json", "--json")

    def mechanism(self):
        """The line of the agent's log about what enforces limits."""
        lines = (self.folder / "agent.log").read_text().splitlines()
        found = [line.split(": ", 1)[1] for line in lines if "limits of jobs" in line]
        return found[0] if found else "no line about the limits of jobs"

    def close(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
        for child in reversed(self.children):
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Neighbour:
    """One of the cases: a job that is submitted again whenever it has ended in its window."""

    def __init__(self, cluster, core, disk):
        self.cluster, self.core = cluster, core
        self.jobs = {
            "calm": (["python3", "-c", "while True: pass"], {}),
            "killed": (["python3", "-c", BURN], {}),
            "fork bomb": (["sh", "-c", "while :; do sleep 600 & done"],
                          {"limits": {"processes": 1024}}),
            "full disk": (["python3", "-c", FILL, str(disk)], {}),
            "output": (["yes"], {"limits": {"log_size": "16MiB"}}),
        }
        self.number = 0

    def run(self, case, seconds):
        """Returns how many jobs were submitted."""
        command, keys = self.jobs[case]
        end = time.monotonic() + seconds
        submitted = 0
        name = None
        while time.monotonic() < end:
            if name is None or self.state(name) in ("failed", "succeeded", "stopped"):
                self.number += 1
                submitted += 1
                name = f"neighbour-{self.number}"
                self.cluster.submit(name, self.core, command, **keys)
            time.sleep(0.2)
        if self.state(name) not in ("failed", "succeeded", "stopped"):
            self.cluster.call("stop", name, check=False)
        self.cluster.wait(lambda: self.state(name) in ("failed", "succeeded", "stopped"), name)
        return submitted

    def state(self, name):
        return json.loads(self.cluster.call("status", name, "--json"))["state"]


def steps(path, windows):
    """The durations of the steps that ended in one of the windows."""
    found = []
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) == 2 and any(a <= float(fields[0]) < b for a, b in windows):
            found.append(float(fields[1]))
    return found


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(cluster, neighbour, case, pairs, seconds):
    path = cluster.folder / "steps.txt"
    windows = {"alone": [], "calm": [], case: []}
    jobs = 0
    for _ in range(pairs):
        for kind in windows:
            begin = time.monotonic()
            if kind == "alone":
                time.sleep(seconds)
            else:
                submitted = neighbour.run(kind, seconds)
                jobs += submitted if kind == case else 0
            windows[kind].append((begin, time.monotonic()))
            time.sleep(0.5)  # what the kernel still frees
    alone, calm, beside = (steps(path, each) for each in windows.values())
    medians = [1e3 * statistics.median(each) for each in (alone, calm, beside)]
    return {
        "case": case, "pairs": pairs, "steps": len(calm) + len(beside), "jobs": jobs,
        "alone_ms": medians[0], "calm_ms": medians[1], "beside_ms": medians[2],
        "ratio": medians[2] / medians[1], "limit": LIMIT,
        "ratio_p95": percentile(beside, 0.95) / percentile(calm, 0.95)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("longhaul", nargs="?",
                        default=str(ROOT / "build/release/src/bin/longhaul"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--cases", default="killed,fork bomb,full disk,output")
    parser.add_argument("--no-control-groups", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or shutil.which("taskset") is None:
        print("isolation.py: needs two cores and taskset (util-linux)", file=sys.stderr)
        return 2
    cluster = Cluster(os.path.abspath(options.longhaul),
                      ["--no-control-groups"] if options.no_control_groups else [])
    disk = cluster.folder / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "isolation", str(disk)]).returncode == 0
    results = []
    try:
        cluster.submit("victim", cores[0], ["python3", "-c", VICTIM,
                                            str(cluster.folder / "steps.txt"),
                                            str(cluster.folder / "over")])
        cluster.wait(lambda: (cluster.folder / "steps.txt").exists(), "the victim")
        print(cluster.mechanism())
        print(f"{'case':10}  {'alone ms':>8}  {'calm ms':>8}  {'case ms':>8}  {'ratio':>6}  "
              f"{'limit':>5}  {'p95 ratio':>9}  {'jobs':>4}")
        neighbour = Neighbour(cluster, cores[1], disk)
        for case in options.cases.split(","):
            row = measure(cluster, neighbour, case, options.pairs, options.seconds)
            results.append(row)
            print(f"{case:10}  {row['alone_ms']:8.2f}  {row['calm_ms']:8.2f}  "
                  f"{row['beside_ms']:8.2f}  {row['ratio']:6.3f}  {LIMIT:5.2f}  "
                  f"{row['ratio_p95']:9.3f}  {row['jobs']:4}", flush=True)
        (cluster.folder / "over").touch()
        cluster.wait(lambda: neighbour.state("victim") == "succeeded", "the victim's end")
        if json.loads(cluster.call("status", "victim", "--json"))["attempt"] != 1:
            raise RuntimeError("the victim was restarted")
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=False)
        cluster.close()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(row["ratio"] > LIMIT for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
