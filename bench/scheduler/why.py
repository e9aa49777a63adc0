#!/usr/bin/env python3
"""How long `longhaul status JOB --why` takes on a cluster with a day of the Philly trace.

    ninja -C build/release longhaul fleet_bench
    bench/scheduler/why.py philly.csv [--day 2017-10-12] [--jobs 1500] [--hosts 64] [--samples 60]

Starts a real controller with connected agents of 8 worker slots, with 8 hosts on each leaf, and
submits the jobs that arrived last before noon of that day: each in the queue of its tenant, whose
guarantee is its share of those jobs' GPU-time, with its true duration as the expected one. Those
that do not fit wait. Then it explains waiting jobs, evenly spread over all of them. For each:

  command   from the start of the program to its end
  request   the same request over HTTP, without the program
  processor processor time that the controller used meanwhile, other work of it included

The controller, the agents and the client share the machine's cores.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SLOTS = 8
LIMIT_S = 300


def read_jobs(path, day, count):
    """The `count` jobs that arrived last before noon of the day, in the order of their arrival."""
    noon = datetime.datetime.fromisoformat(day) + datetime.timedelta(hours=12)
    with open(path, newline="") as file:
        rows = [(datetime.datetime.fromisoformat(row["timestamp"]), number, row)
                for number, row in enumerate(csv.DictReader(file))]
    rows = sorted(row for row in rows if row[0] < noon and int(row[2]["num_gpus"]) <= 64)
    if len(rows) < count:
        raise SystemExit(f"{path}: {len(rows)} jobs arrived before {noon}, expected {count}")
    return [row[2] for row in rows[-count:]]


def job_file(number, row):
    gpus = int(row["num_gpus"])
    nodes, slots = (gpus // SLOTS, SLOTS) if gpus > SLOTS else (1, gpus)
    seconds = max(1, round(float(row["duration"])))
    return {"name": f"job-{number}", "command": ["train"],
            "resources": {"nodes": nodes, "processes_per_node": slots},
            "scheduling": {"queue": row["cluster"], "expected_duration": f"{seconds}s"}}


def write_configuration(folder, rows, hosts):
    nodes = [{"name": f"node-{number}", "kind": "host",
              "at": {"block": f"block-{(number - 1) // 32}", "leaf": f"leaf-{(number - 1) // 8}"}}
             for number in range(1, hosts + 1)]
    (folder / "cluster.yaml").write_text(json.dumps({
        "levels": ["leaf", "block"], "models": {"CPU": {"memory": "1GiB"}},
        "kinds": {"host": {"model": "CPU", "devices": SLOTS, "cpu": SLOTS, "memory": "64GiB"}},
        "nodes": nodes}))
    time_of = {}
    for row in rows:
        time_of[row["cluster"]] = (time_of.get(row["cluster"], 0)
                                   + float(row["duration"]) * int(row["num_gpus"]))
    total = sum(time_of.values())
    queues = [{"name": name, "guarantee": {"accelerators": int(hosts * SLOTS * own / total)}}
              for name, own in sorted(time_of.items())]
    (folder / "controller.yaml").write_text(json.dumps({
        "cluster": "cluster.yaml", "queues": queues}))


class Controller:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.log = open(folder / "controller.log", "w")
        self.process = subprocess.Popen(
            [program, "controller", "--state-dir", f"{folder}/state", "--config",
             f"{folder}/controller.yaml"], stdout=self.log, stderr=subprocess.STDOUT)
        self.endpoint = folder / "state/endpoint.json"
        until = time.monotonic() + LIMIT_S
        while not self.endpoint.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.close()
                raise SystemExit("the controller does not start:\n"
                                 + (folder / "controller.log").read_text())
            time.sleep(0.05)
        self.rest = json.loads(self.endpoint.read_text())["rest"]
        self.token = (folder / "state/token").read_text().strip()
        self.environment = {**os.environ, "LONGHAUL_ENDPOINT": str(self.endpoint)}

    def get(self, path):
        request = urllib.request.Request(self.rest + path,
                                         headers={"Authorization": "Bearer " + self.token})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())

    def run(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True,
                              text=True, env=self.environment)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def processor_seconds(self):
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in threads) * 1e-9

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def quantile(values, q):
    return sorted(values)[round(q * (len(values) - 1))]


def connect_agents(arguments, folder, controller):
    """The agents of all hosts, in one process."""
    output = folder / "agents"
    with open(output, "w") as log:
        fleet = subprocess.Popen([arguments.fleet, controller.endpoint, str(SLOTS)],
                                 stdin=subprocess.PIPE, stdout=log, text=True)
    fleet.stdin.write(f"connect 1 {arguments.hosts}\n")
    fleet.stdin.flush()
    until = time.monotonic() + LIMIT_S
    while f"connected {arguments.hosts} " not in output.read_text():
        if fleet.poll() is not None or time.monotonic() > until:
            fleet.kill()
            raise SystemExit("the agents do not connect")
        time.sleep(0.05)
    return fleet


def submit(controller, folder, rows):
    for number, row in enumerate(rows):
        (folder / "job.yaml").write_text(json.dumps(job_file(number, row)))
        controller.run("submit", "job.yaml", "--run-directory", f"{folder}/run-{number}")
    time.sleep(5)  # what fits has started


def explain(controller, samples):
    jobs = controller.get("/v1/jobs")["jobs"]
    waiting = [job["job"]["id"] for job in jobs if job["state"] == "queued"]
    if len(waiting) < samples:
        raise SystemExit(f"{len(waiting)} jobs wait, expected {samples} or more: raise --jobs")
    result = {"waiting": len(waiting), "with_a_fix": 0, "command": [], "request": [],
              "processor": []}
    for sample in range(samples):
        job = waiting[sample * len(waiting) // samples]
        before, begin = controller.processor_seconds(), time.monotonic()
        answer = controller.get(f"/v1/jobs/{job}/why")
        result["request"].append(time.monotonic() - begin)
        result["processor"].append(controller.processor_seconds() - before)
        result["with_a_fix"] += bool(answer["fix"])
        begin = time.monotonic()
        controller.run("status", job, "--why")
        result["command"].append(time.monotonic() - begin)
    return result


def measure(arguments, folder):
    rows = read_jobs(arguments.trace, arguments.day, arguments.jobs)
    write_configuration(folder, rows, arguments.hosts)
    controller = Controller(arguments.longhaul, folder)
    fleet = None
    try:
        fleet = connect_agents(arguments, folder, controller)
        submit(controller, folder, rows)
        return explain(controller, arguments.samples)
    finally:
        if fleet:
            fleet.kill()
            fleet.wait()
        controller.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="philly.csv")
    parser.add_argument("--longhaul", default=f"{ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--fleet", default=f"{ROOT}/build/release/src/service/fleet_bench")
    parser.add_argument("--day", default="2017-10-12")
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=60)
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="why-"))
    try:
        result = measure(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.hosts} hosts, {arguments.jobs:,} jobs, of which {result['waiting']:,} wait; "
          f"{result['with_a_fix']} of {arguments.samples} explained have a fix; load average "
          f"{os.getloadavg()[0]:.1f}")
    for name in ("command", "request", "processor"):
        values = [value * 1e3 for value in result[name]]
        print(f"{name:10} p50 {quantile(values, 0.5):7.1f} ms   p95 {quantile(values, 0.95):7.1f} "
              f"ms   most {max(values):7.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
