#!/usr/bin/env python3
"""What faults cost: the useful steps of a run with a fault every 30 seconds.

    bench/recovery/chaos.py --longhaul build/release/src/bin/longhaul

Hosts are namespaces on this machine (tests/lab/network.py; needs root). examples/ddp.py trains on
all of them but one, which is idle, with its own checkpoint at each step. Every 30 seconds one of
these happens, drawn from a seed:

  worker      kill -9 of a random worker (three of five faults)
  host        all processes of a random host of the job are killed; it comes back after 10 s
  controller  kill -9 of the controller; it is started again after 0.2 s

The steps that the job advanced in that time, per second, are compared with those of the minutes
before and after without faults: steps that are repeated after a fault do not count. Meaningful on
a quiet machine only.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import recovery

import node_loss

sys.path.insert(0, f"{recovery.ROOT}/tests/lab")
import cluster  # noqa: E402
import network  # noqa: E402

FAULTS = ["worker", "worker", "worker", "host", "controller"]
HOST_AWAY_S = 10


class Chaos:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.generator = random.Random(arguments.seed)
        self.cluster = cluster.Cluster(arguments.longhaul, folder, arguments.nodes + 1,
                                       slots=arguments.procs)
        self.cluster.submit("chaos", {
            "command": [arguments.python, recovery.SCRIPT, "--steps", str(recovery.ENDLESS),
                        "--step-time", str(arguments.step_time), "--checkpoint", f"{folder}/ddp.pt",
                        "--checkpoint-every", "1"],
            "resources": {"nodes": arguments.nodes, "processes_per_node": arguments.procs},
            "max_restarts": 1_000_000})
        self.log = node_loss.NewestLog(f"{folder}/runs/chaos/logs/attempt-*/rank-0.log")
        self.highest = 0
        self.log.until(lambda attempt, step: step >= 20)

    def watch(self, seconds):
        """Follows the log for this long. The time of each step that was new."""
        until, times = time.monotonic() + seconds, []
        while time.monotonic() < until:
            for _, step in self.log.steps():
                if step > self.highest:
                    self.highest = step
                    times.append(time.time())
            time.sleep(0.002)
        return times

    def rate(self, seconds):
        before, begin = self.highest, time.monotonic()
        self.watch(seconds)
        return (self.highest - before) / (time.monotonic() - begin)

    def gang(self):
        return self.cluster.ask("status", "chaos")["gang"]

    def workers(self):
        return [pid for name in self.gang() for pid in self.cluster.network[name].processes()
                if is_worker(pid)]

    def inject(self, fault):
        """Injects the fault and follows the run for the time between two faults. The longest time
        between two new steps."""
        rest = self.arguments.every
        lost = None
        if fault == "worker":
            os.kill(self.generator.choice(self.workers()), signal.SIGKILL)
        elif fault == "controller":
            self.cluster.restart_controller(0.2)
        else:
            lost = self.generator.choice(self.gang())
            self.cluster.network[lost].kill()
        begin = time.time()
        times = self.watch(HOST_AWAY_S)
        if lost is not None:
            self.cluster.network[lost].power_on()
            self.cluster.start_agent(lost)
        times += self.watch(rest - (time.time() - begin))
        return max(after - before for before, after in zip([begin, *times], [*times, time.time()]))


def is_worker(pid):
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(entry.startswith(b"RANK=") for entry in entries) and b"--step-time" in words


def measure(arguments, folder):
    chaos = Chaos(arguments, folder)
    try:
        chaos.watch(10)
        before = chaos.rate(60 * arguments.calm)
        begin, first, pauses = time.monotonic(), chaos.highest, []
        while time.monotonic() - begin < 60 * arguments.minutes:
            fault = chaos.generator.choice(FAULTS)
            pauses.append({"fault": fault, "pause": chaos.inject(fault)})
            print(f"{time.monotonic() - begin:6.0f} s  {fault:10} longest pause "
                  f"{pauses[-1]['pause']:.2f} s", file=sys.stderr, flush=True)
        during = (chaos.highest - first) / (time.monotonic() - begin)
        after = chaos.rate(60 * arguments.calm)
        return {"before": before, "during": during, "after": after, "pauses": pauses,
                "share": 2 * during / (before + after)}
    finally:
        chaos.cluster.close()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--minutes", type=float, default=15, help="with faults (15)")
    parser.add_argument("--calm", type=float, default=2, help="minutes before and after (2)")
    parser.add_argument("--every", type=float, default=30, help="seconds between faults (30)")
    parser.add_argument("--nodes", type=int, default=4, help="hosts of the job (4)")
    parser.add_argument("--procs", type=int, default=2, help="workers on each host (2)")
    parser.add_argument("--step-time", type=float, default=0.1, help="of a step, seconds (0.1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch")
    parser.add_argument("--json", action="store_true", help="all samples as JSON")
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    if arguments.every <= HOST_AWAY_S:
        parser.error(f"--every must be more than {HOST_AWAY_S} s, after which a host comes back")
    return arguments


def main():
    arguments = parse_arguments()
    if missing := network.why_not():
        sys.exit(f"chaos.py: SKIPPED: {missing}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the hosts end with it
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    load_before = os.getloadavg()
    try:
        result = measure(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result.update(commit=recovery.commit(), seed=arguments.seed, cores=os.cpu_count(),
                  workers=arguments.nodes * arguments.procs, load_average_before=load_before,
                  load_average_after=os.getloadavg(), command=sys.argv)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(f"commit {result['commit']}, seed {result['seed']}, {result['workers']} workers on "
          f"{result['cores']} cores, load average {load_before[0]:.1f} before, "
          f"{result['load_average_after'][0]:.1f} after")
    for fault in sorted(set(FAULTS)):
        pauses = [one["pause"] for one in result["pauses"] if one["fault"] == fault]
        if pauses:
            print(f"{len(pauses):3} x {fault:10} longest pause p50 "
                  f"{recovery.percentile(pauses, 0.5):.2f} s, max {max(pauses):.2f} s")
    print(f"steps a second: {result['before']:.2f} before, {result['during']:.2f} with a fault "
          f"every {arguments.every:.0f} s, {result['after']:.2f} after: {result['share']:.2%}")


if __name__ == "__main__":
    main()
