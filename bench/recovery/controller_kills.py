#!/usr/bin/env python3
"""How long nobody can be asked when the controller is killed, and whether training notices.

    bench/recovery/controller_kills.py --longhaul build/release/src/bin/longhaul

The controller of a run with the built-in trainer is killed (kill -9) at random moments, again and
again; `longhaul run` starts it anew. Meanwhile its REST API is asked for the job every few
milliseconds. The same run without kills is the comparison.

  pause   from the kill until the new controller answers for the job
  gap     between the ends of two steps in succession, by the workers' own clocks (metrics.csv)

A run counts as failed if it does not end well, if a worker was restarted or if a step is missing
in the report. Meaningful on a quiet machine only: the load average is part of the result.
"""
import argparse
import csv
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.parse

import recovery

ASK_EVERY_S = 0.005
LIMIT_S = 60
JOB = """
name: kills
model: {{layers: 2, hidden: 64, heads: 2, sequence: 64}}
data: {{include: [data/*.txt], held_out: 0.1}}
train: {{steps: {steps}, global_batch: 16, evaluate_every: 0}}
snapshot: {{interval_steps: 10}}
resources: {{nodes: 2, processes_per_node: 2}}
"""


class Controller:
    """The newest controller of a run, by its endpoint.json."""

    def __init__(self, folder):
        self.path = folder / "runs/kills/cluster/endpoint.json"

    def endpoint(self):
        try:
            return json.loads(self.path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def answers(self, pid):
        """The step of the job, asked of any controller but the one of `pid`; None: no answer."""
        endpoint = self.endpoint()
        if endpoint is None or endpoint["pid"] == pid:
            return None
        address = urllib.parse.urlsplit(endpoint["rest"]).netloc or endpoint["rest"]
        token = pathlib.Path(endpoint["token_file"]).read_text().strip()
        connection = http.client.HTTPConnection(address, timeout=1)
        try:
            connection.request("GET", "/v1/jobs", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            jobs = json.loads(answer.read())["jobs"]
            return jobs[0].get("step", 0) if answer.status == 200 and jobs else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def wait(self, pid=None):
        until = time.monotonic() + LIMIT_S
        while self.answers(pid) is None:
            if time.monotonic() > until:
                raise RuntimeError(f"no controller answers for {LIMIT_S} s")
            time.sleep(ASK_EVERY_S)


def run(arguments, kills, generator, folder):
    """The pauses and the gaps of a run, and why it counts as failed."""
    (folder / "data").mkdir(parents=True)
    for i in range(40):
        lines = (f"line {i * j} of a text that repeats itself\n" for j in range(200))
        (folder / f"data/{i}.txt").write_text("".join(lines))
    (folder / "kills.yaml").write_text(JOB.format(steps=arguments.steps))
    child = recovery.Child([arguments.longhaul, "run", "kills.yaml", "--json"], folder)
    controller, pauses = Controller(folder), []
    try:
        controller.wait()
        for _ in range(kills):
            time.sleep(generator.uniform(0.3, 2 * arguments.every - 0.3))
            if child.process.poll() is not None:
                raise RuntimeError(f"the run ended after {len(pauses)} kills: raise --steps")
            pid = controller.endpoint()["pid"]
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            controller.wait(pid)
            pauses.append(time.monotonic() - killed)
        if kills > 0:
            print(f"{kills} kills are done, the run goes on to its end", file=sys.stderr)
        child.process.wait()
    finally:
        child.end()
    report = json.loads((folder / "runs/kills/report.json").read_text())
    with open(folder / "runs/kills/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    failures = []
    if report["state"] != "succeeded":
        failures.append(f"it {report['state']}: {report['reason']}")
    if report["restarts"] != 0:
        failures.append(f"{report['restarts']} restarts")
    if [int(row["step"]) for row in rows] != list(range(1, arguments.steps + 1)):
        failures.append("steps are missing in the report")
    ends = [float(row["seconds"]) for row in rows]
    gaps = [after - before for before, after in zip(ends[20:], ends[21:])]
    return {"pauses": pauses, "gaps": gaps, "failures": failures}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between kills (1.5)")
    parser.add_argument("--steps", type=int, default=20_000, help="enough for all kills (20000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="all samples as JSON, no table")
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    return arguments


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the run ends with it
    generator = random.Random(arguments.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="controller-kills-"))
    load_before = os.getloadavg()
    try:
        calm = run(arguments, 0, generator, folder / "calm")
        killed = run(arguments, arguments.kills, generator, folder / "killed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = {"commit": recovery.commit(), "seed": arguments.seed, "cores": os.cpu_count(),
              "load_average_before": load_before, "load_average_after": os.getloadavg(),
              "command": sys.argv, "calm": calm, "killed": killed}
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"commit {result['commit']}, {result['cores']} cores, load average {load_before[0]:.1f} "
          f"before, {result['load_average_after'][0]:.1f} after")
    figures = {name: recovery.percentile(killed["pauses"], share)
               for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1))}
    print(f"{len(killed['pauses'])} kills, pause p50 {figures['p50']:.3f}, p95 "
          f"{figures['p95']:.3f}, max {figures['max']:.3f} s")
    for name, one in (("without kills", calm), ("with kills", killed)):
        print(f"{name:14} gap p50 {1e3 * statistics.median(one['gaps']):.1f}, p99.9 "
              f"{1e3 * recovery.percentile(one['gaps'], 0.999):.1f}, max "
              f"{1e3 * max(one['gaps']):.1f} ms over {len(one['gaps'])} steps; "
              f"{'; '.join(one['failures']) or 'it succeeded'}")
    sys.exit(1 if calm["failures"] or killed["failures"] else 0)


if __name__ == "__main__":
    main()
