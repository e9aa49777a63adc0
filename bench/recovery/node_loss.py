#!/usr/bin/env python3
"""How long a run stands still when a whole host is lost: the loss to the next training step.

    bench/recovery/node_loss.py --longhaul build/release/src/bin/longhaul

Hosts are network and process namespaces on this machine (tests/lab/network.py; needs root). A
controller with TLS has one, each agent has one, and examples/ddp.py trains on two of them, as it
stands, with its own checkpoint at each step. A random host of the run is lost, again and again:

  kill       all its processes are killed at once; its kernel ends their connections
  power off  its link is cut first, then its processes are killed: no connection ends, and only the
             missing heartbeats show the loss
  partition  its link is cut, and its processes live on
  stop       all its processes are stopped (SIGSTOP); its kernel answers on

in two clusters:

  spare      a third host is idle and takes the place of the lost one
  shrink     there is no other host: the job goes on with one (resources.minimum_nodes)

After each loss the host comes back. Each host is lost once, then the cluster begins anew: the
scheduler avoids nodes that were lost again and again. Measured from just before the loss to the end
of the first step after the restart, and to the end of the first new one, by rank 0's log, looked at
every 2 ms. Detection is the time to the controller's record of the fault. Meaningful on a quiet
machine only.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import recovery

sys.path.insert(0, f"{recovery.ROOT}/tests/lab")
import cluster  # noqa: E402
import network  # noqa: E402

LOSSES = ["kill", "power off", "partition", "stop"]


class NewestLog(recovery.Log):
    """The log of rank 0 in whichever attempt is the newest."""

    def until(self, wanted, seconds=recovery.LIMIT_S):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for attempt, step in self.steps():
                if wanted(attempt, step):
                    return time.time(), step
            time.sleep(0.002)
        raise recovery.NothingCame(f"nothing came for {seconds} s")


class Run:
    """A job of two nodes of which one may be lost."""

    def __init__(self, arguments, hosts, folder):
        self.cluster = cluster.Cluster(arguments.longhaul, folder, hosts, slots=arguments.procs,
                                       config="scheduling: {elastic_period: 5s}\n")
        self.hosts = hosts
        self.lost = set()
        resources = {"nodes": 2, "processes_per_node": arguments.procs}
        if hosts == 2:
            resources["minimum_nodes"] = 1
        self.cluster.submit("ddp", {
            "command": [arguments.python, recovery.SCRIPT, "--steps", str(recovery.ENDLESS),
                        "--step-time", str(arguments.step_time), "--checkpoint", f"{folder}/ddp.pt",
                        "--checkpoint-every", "1"],
            "resources": resources, "max_restarts": 1_000_000})
        self.log = NewestLog(f"{folder}/runs/ddp/logs/attempt-*/rank-0.log")
        self.log.until(lambda attempt, step: step >= 20)

    def status(self):
        return self.cluster.ask("status", "ddp")

    def lose(self, name, loss):
        host = self.cluster.network[name]
        {"kill": host.kill, "power off": host.power_off, "partition": lambda: host.link("down"),
         "stop": lambda: host.signal_all(signal.SIGSTOP)}[loss]()

    def bring_back(self, name, loss):
        host = self.cluster.network[name]
        if loss == "partition":
            return host.link("up")
        if loss == "stop":
            return host.signal_all(signal.SIGCONT)
        host.power_on()
        self.cluster.start_agent(name)

    def not_lost_yet(self):
        return [name for name in self.status()["gang"] if name not in self.lost]

    def measure(self, generator, loss, pause):
        """The seconds to the fault's detection, the first step and the first new step."""
        until = time.monotonic() + pause + generator.uniform(0, 1)
        _, highest = self.log.until(lambda attempt, step: time.monotonic() > until)
        name = generator.choice(self.not_lost_yet())
        self.lost.add(name)
        faults = len(self.status().get("faults", []))
        before, tail = self.log.attempts, [highest]
        lost = time.time()
        self.lose(name, loss)

        def first(attempt, step):
            if attempt == before:
                tail.append(step)
            return attempt > before
        first_at, step = self.log.until(first)
        new_at = first_at
        if step <= max(tail):
            new_at, _ = self.log.until(lambda attempt, step: step > max(tail))
        new_faults = self.status()["faults"][faults:]
        stages = {stage: new_faults[0][f"{stage}_at_ns"] * 1e-9 - lost
                  for stage in ("detected", "decided", "started")}
        self.bring_back(name, loss)
        cluster.wait_for("the host comes back",
                         lambda: len(self.cluster.connected()) == self.hosts)
        if self.hosts == 2:
            cluster.wait_for("the job grows", lambda: len(self.status()["gang"]) == 2)
            grown = self.log.attempts
            self.log.until(lambda attempt, step: attempt >= grown and step > max(tail) + 20)
        return {**stages, "first_step": first_at - lost, "new_step": new_at - lost,
                "fault": new_faults[0]["what"], "faults": len(new_faults)}


def print_table(result):
    print(f"commit {result['commit']}, seed {result['seed']}, {result['workers']} workers on "
          f"{result['cores']} cores, load average {result['load_average_before'][0]:.1f} before, "
          f"{result['load_average_after'][0]:.1f} after")
    columns = "".join(f"{name:>8}" for name in ["p50", "p95", "max"] * 3)
    print(f"{'seconds to ...':24}{'detection':>24}{'first step':>24}{'first new step':>24}")
    print(f"{'cluster, loss':18}{'losses':>6}{columns}")
    for row in result["rows"]:
        text = f"{row['cluster'] + ', ' + row['loss']:18}{len(row['samples']):6}"
        for kind in ("detected", "first_step", "new_step"):
            figures = recovery.summary(row["samples"], kind)
            text += "".join(f"{figures[column]:8.3f}" for column in ("p50", "p95", "max"))
        print(text)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--losses", type=int, default=10, help="of each kind (10)")
    parser.add_argument("--kind", action="append", choices=LOSSES, help="only these (all)")
    parser.add_argument("--cluster", action="append", choices=["spare", "shrink"],
                        help="only this (both)")
    parser.add_argument("--procs", type=int, default=2, help="workers on each host (2)")
    parser.add_argument("--pause", type=float, default=8, help="seconds between losses (8)")
    parser.add_argument("--step-time", type=float, default=0.02, help="of a step, seconds (0.02)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch")
    parser.add_argument("--json", action="store_true", help="all samples as JSON, no table")
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    return arguments


def measure_cluster(arguments, name, loss, generator, most):
    """Loses each host of one cluster, `most` of them at most."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="node-loss-"))
    samples, run = [], None
    try:
        run = Run(arguments, 3 if name == "spare" else 2, folder)
        while len(samples) < most and run.not_lost_yet():
            samples.append(run.measure(generator, loss, arguments.pause))
            print(f"{name}, {loss}: {samples[-1]}", file=sys.stderr, flush=True)
        return samples
    finally:
        if run is not None:
            run.cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    arguments = parse_arguments()
    if missing := network.why_not():
        sys.exit(f"node_loss.py: SKIPPED: {missing}")
    if subprocess.run([arguments.python, "-c", "import torch"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"node_loss.py: SKIPPED: {arguments.python} has no PyTorch")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the hosts end with it
    generator = random.Random(arguments.seed)
    load_before, rows = os.getloadavg(), []
    for name in arguments.cluster or ["spare", "shrink"]:
        for loss in arguments.kind or LOSSES:
            samples = []
            while len(samples) < arguments.losses:
                samples += measure_cluster(arguments, name, loss, generator,
                                           arguments.losses - len(samples))
            rows.append({"cluster": name, "loss": loss, "samples": samples})
    result = {"commit": recovery.commit(), "seed": arguments.seed, "workers": 2 * arguments.procs,
              "cores": os.cpu_count(), "load_average_before": load_before,
              "load_average_after": os.getloadavg(), "command": sys.argv, "rows": rows}
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
