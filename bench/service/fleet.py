#!/usr/bin/env python3
"""The time in which a controller reaches all of 2,048 agents with 8 workers each.

    ninja -C build/release longhaul fleet_bench
    bench/service/fleet.py

The controller is real, and so are the connections and the agents' decisions; the workers are
answers that come at once (src/service/controller/agents/fleet_bench.cc). A job needs all agents but
the last one that connects:

  rendezvous  from the welcome of that agent until all have the order to start their workers
  loss        one connection is broken; from the controller's record of the fault until all others
              have the order to end their workers or to start those of the next attempt. A broken
              connection counts as a loss after a grace period of 1 s, which is not included.
  replaced    from the same moment until all, with an idle agent in the place of the lost one, have
              the order to start

Printed with the processor time and the memory of the controller. Agents and controller share the
machine's cores.
"""
import argparse
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT_S = 120


class Fleet:
    """The agents: what they have printed, by its kind."""

    def __init__(self, program, endpoint, slots):
        self.process = subprocess.Popen([program, endpoint, str(slots)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, *words):
        """When a line began with these words."""
        until = time.monotonic() + LIMIT_S
        wanted, newest = [str(word) for word in words], None
        while time.monotonic() < until:
            try:
                newest = self.lines.get(timeout=1)
            except queue.Empty:
                continue
            if newest[:len(wanted)] == wanted:
                return float(newest[-1])
        raise SystemExit(f"no '{' '.join(wanted)}' within {LIMIT_S} s; the newest line: {newest}")

    def close(self):
        self.process.kill()
        self.process.wait()


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def ask(arguments, folder, *words):
    done = subprocess.run([arguments.longhaul, *words], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "LONGHAUL_ENDPOINT": f"{folder}/state/endpoint.json"})
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def write_cluster(arguments, folder):
    """Declares the nodes, 64 on each leaf, so that the job is accepted before all have joined."""
    nodes = [{"name": f"node-{number}", "kind": "host", "at": {"leaf": f"leaf-{number // 64}"}}
             for number in range(1, arguments.agents + 2)]
    (folder / "cluster.yaml").write_text(json.dumps({
        "levels": ["leaf"], "models": {"CPU": {"memory": "1GiB"}},
        "kinds": {"host": {"model": "CPU", "devices": arguments.slots, "cpu": arguments.slots,
                           "memory": "64GiB"}},
        "nodes": nodes}))
    (folder / "controller.yaml").write_text("cluster: cluster.yaml\n")


def with_controller(arguments, folder, measure):
    """The result of `measure` with a controller of the folder, which is removed."""
    with open(folder / "controller.log", "w") as log:
        controller = subprocess.Popen(
            [arguments.longhaul, "controller", "--state-dir", f"{folder}/state", "--config",
             f"{folder}/controller.yaml"],
            stdout=log, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + LIMIT_S
        while not (folder / "state/endpoint.json").exists():
            if controller.poll() is not None or time.monotonic() > until:
                reason = (folder / "controller.log").read_text()[-500:]
                raise SystemExit(f"the controller does not start: {reason}")
            time.sleep(0.05)
        return measure(arguments, folder, controller)
    finally:
        controller.kill()
        controller.wait()
        shutil.rmtree(folder, ignore_errors=True)


def measure(arguments, folder, controller):
    endpoint = folder / "state/endpoint.json"
    fleet = Fleet(arguments.fleet, endpoint, arguments.slots)
    result = {}
    try:
        count, begin = arguments.agents, time.time()
        fleet.say(f"connect 1 {count - 1}")
        result["connect"] = fleet.wait("connected", count - 1) - begin
        (folder / "job.yaml").write_text(json.dumps({
            "name": "fleet", "command": ["train"],
            "resources": {"nodes": count, "processes_per_node": arguments.slots}}))
        ask(arguments, folder, "submit", "job.yaml", "--run-directory", f"{folder}/run")
        time.sleep(1)
        fleet.say(f"connect {count} {count}")
        joined = fleet.wait("connected", count)
        result["rendezvous"] = fleet.wait("started", 1, count) - joined
        time.sleep(2)
        before = processor_seconds(controller.pid)
        time.sleep(arguments.idle)
        result["idle_cores"] = (processor_seconds(controller.pid) - before) / arguments.idle
        fleet.say(f"connect {count + 1} {count + 1}")
        fleet.wait("connected", count + 1)
        time.sleep(2)
        broken = time.time()
        fleet.say(f"break {count // 2} 0")
        told = fleet.wait("told", 1, count - 1)
        started = fleet.wait("started", 2, count)
        fault = json.loads(ask(arguments, folder, "status", "fleet", "--json"))["faults"][-1]
        detected = fault["detected_at_ns"] * 1e-9
        result.update(detected=detected - broken, loss=told - detected,
                      replaced=started - detected, peak_mib=peak_mib(controller.pid),
                      processor_seconds=processor_seconds(controller.pid))
        return result
    finally:
        fleet.close()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--fleet", default=f"{ROOT}/build/release/src/service/fleet_bench")
    parser.add_argument("--agents", type=int, default=2048)
    parser.add_argument("--slots", type=int, default=8, help="workers of an agent (8)")
    parser.add_argument("--idle", type=float, default=20, help="seconds of heartbeats (20)")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fleet-"))
    load = os.getloadavg()
    write_cluster(arguments, folder)
    result = with_controller(arguments, folder, measure)
    result.update(agents=arguments.agents, ranks=arguments.agents * arguments.slots,
                  cores=os.cpu_count(), load_average_before=load)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['agents']:,} agents, {result['ranks']:,} ranks, {result['cores']} cores, load "
          f"average {load[0]:.1f} before")
    rows = [("all connected", "connect", "s", ""), ("rendezvous", "rendezvous", "s", "1"),
            ("loss told to all", "loss", "s", "0.5"), ("replaced", "replaced", "s", ""),
            ("detection", "detected", "s", ""),
            ("controller, heartbeats only", "idle_cores", "cores", ""),
            ("controller, peak memory", "peak_mib", "MiB", "1,024")]
    for name, key, unit, goal in rows:
        print(f"{name:28}{result[key]:10.3f} {unit:6}{f'goal {goal}' if goal else ''}")


if __name__ == "__main__":
    sys.exit(main())
