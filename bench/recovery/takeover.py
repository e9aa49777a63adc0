#!/usr/bin/env python3
"""How long until a controller that stands by has taken over from one that is killed.

    bench/recovery/takeover.py --longhaul build/release/src/bin/longhaul

Two controllers share an event log in PostgreSQL on this machine (docs/standby.md). A job of the
built-in trainer runs on two agents. The leader is killed (kill -9) at random moments, again and
again, and started anew to stand by. The REST addresses are asked for the job every few
milliseconds.

  answers  from the kill until the other controller answers for the job
  report   from the kill until it has taken a report of a step that the killed one had not

With --pause the leader is stopped by SIGSTOP instead, as a machine that disappears, and killed
once the other one leads.

The bar is 2 s. Fails if a worker was started again, if a step is missing, or above the bar.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import signal
import sys
import time

import recovery

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import postgres_server  # noqa: E402
import standby_cluster  # noqa: E402

ASK_EVERY_S = 0.005
LIMIT_S = 30
BAR_S = 2.0


def step_of(port, token):
    """The newest step of the job as the controller on this port knows it; None: no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/v1/jobs", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        jobs = json.loads(answer.read()).get("jobs")
        return jobs[0].get("step", 0) if answer.status == 200 and jobs else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def await_step(port, token, above):
    """Returns when the controller on this port has a step above this one."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        step = step_of(port, token)
        if step is not None and step > above:
            return time.monotonic()
        time.sleep(ASK_EVERY_S)
    raise RuntimeError(f"no report of a step above {above} within {LIMIT_S} s")


def measure(cluster, kills, pause, generator):
    token = "5" * 64
    leader, standby = 0, 1
    processes = {0: cluster.leader(0), 1: cluster.standby(1)}
    cluster.begin()
    answers, reports = [], []
    for number in range(kills):
        time.sleep(generator.uniform(0.3, 1.5))
        before = step_of(cluster.ports[2 * leader], token)
        killed = time.monotonic()
        processes[leader].send_signal(signal.SIGSTOP if pause else signal.SIGKILL)
        port = cluster.ports[2 * standby]
        answers.append(await_step(port, token, -1) - killed)
        reports.append(await_step(port, token, before) - killed)
        processes[leader].kill()
        processes[leader].wait()
        processes[leader] = cluster.standby(leader)
        leader, standby = standby, leader
        print(f"fault {number + 1} of {kills}: {reports[-1]:.3f} s", file=sys.stderr)
    return answers, reports


def failures_of(history, steps):
    states = [each["state"]["state"] for each in history if "state" in each]
    attempts = {each["attempt"]["attempt"] for each in history if "attempt" in each}
    failures = []
    if states[-1] != "succeeded":
        failures.append(f"the job {states[-1]}")
    if attempts != {1}:
        failures.append(f"attempts {sorted(attempts)}")
    if [step for step, _ in standby_cluster.steps_of(history)] != list(range(1, steps + 1)):
        failures.append("steps are missing")
    return failures


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pause", action="store_true", help="SIGSTOP instead of SIGKILL")
    parser.add_argument("--steps", type=int, default=12_000, help="enough for all kills (12000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="all samples as JSON, no table")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if postgres_server.missing():
        sys.exit(postgres_server.missing())
    programs = [os.path.abspath(arguments.longhaul)]
    programs.append(f"{os.path.dirname(programs[0])}/longhaul-trainer")
    load_before = os.getloadavg()
    server = postgres_server.Server()
    cluster = standby_cluster.Cluster(programs, server, "takeover", arguments.steps)
    try:
        answers, reports = measure(cluster, arguments.kills, arguments.pause,
                                   random.Random(arguments.seed))
        failures = failures_of(cluster.history(), arguments.steps)
    finally:
        cluster.close()
        server.close()
    result = {"commit": recovery.commit(), "seed": arguments.seed, "cores": os.cpu_count(),
              "load_average_before": load_before, "load_average_after": os.getloadavg(),
              "command": sys.argv, "answers": answers, "reports": reports, "failures": failures}
    if arguments.json:
        print(json.dumps(result))
    else:
        print(f"commit {result['commit']}, {result['cores']} cores, load average "
              f"{load_before[0]:.1f} before, {result['load_average_after'][0]:.1f} after")
        for name, samples in (("answers", answers), ("report", reports)):
            p50, p95, longest = (recovery.percentile(samples, share) for share in (0.5, 0.95, 1))
            print(f"{len(samples)} faults, {name:7} p50 {p50:.3f}, p95 {p95:.3f}, max "
                  f"{longest:.3f} s; the bar is {BAR_S} s")
        print("; ".join(failures) or "the job succeeded, no worker was started again, and no step "
              "is missing")
    sys.exit(1 if failures or max(reports) > BAR_S else 0)


if __name__ == "__main__":
    main()
