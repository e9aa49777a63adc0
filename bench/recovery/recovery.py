#!/usr/bin/env python3
"""How long a run stands still when a worker is killed: kill -9 to the next step.

    bench/recovery/recovery.py --longhaul build/release/src/bin/longhaul

A random worker of a run with small steps and a snapshot or checkpoint at each of them is killed
again and again, under launchers that have the same number of workers on this machine:

  trainer       longhaul run JOB.yaml: the built-in C++ trainer, forked from a fork server, restored
                from memory
  script        longhaul run -- python3 examples/ddp.py: a torchrun script as it stands, forked from
                a process that has loaded its packages; it reads its own checkpoint
  script, cold  the same with --no-fork-server
  elastic       longhaul run -- python3 examples/ddp_elastic.py: the others keep their process
                (PyTorch 2 only)
  torchrun      torchrun examples/ddp.py, default flags
  torchrun 0.1  the same with --monitor_interval 0.1

Measured from just before the signal is sent to the end of the first step after the restart, and to
the end of the first new one (beyond the highest reached before). For the trainer these are the
stages of the fault that `longhaul run --json` prints, for the others it is when the line about the
step appears in rank 0's log, looked at every 2 ms. The script's steps are slowed down to the
trainer's median. Meaningful on a quiet machine only: the load average is part of the result.
"""
import argparse
import glob
import json
import math
import os
import queue
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "examples", "ddp.py")
ELASTIC = os.path.join(ROOT, "examples", "ddp_elastic.py")
ENDLESS = 10_000_000  # steps; each run is ended when its kills are done
LIMIT_S = 120  # for one recovery
STAGES = ["detected", "decided", "started", "rendezvous", "restoring", "stepping", "first_step",
          "new_step"]


def job_file(arguments):
    global_batch = 4 * arguments.nodes * arguments.procs
    return f"""
name: recovery
model: {{layers: 2, hidden: 64, heads: 2, sequence: 64}}
data: {{include: [data/*.txt], held_out: 0.1}}
train: {{steps: {ENDLESS}, global_batch: {global_batch}, evaluate_every: 0}}
snapshot: {{interval_steps: 1}}
resources: {{nodes: {arguments.nodes}, processes_per_node: {arguments.procs}}}
max_restarts: 1000000
"""


class Child:
    """A process whose lines are read by a thread, ended with all that it has started."""

    def __init__(self, words, folder, **environment):
        self.mark = uuid.uuid4().hex
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True, env={**os.environ, **environment, "RECOVERY_MARK": self.mark})
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def members(self):
        """The environments of the run's processes."""
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    entries = file.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
            if environment.get("RECOVERY_MARK") == self.mark:
                yield pid, environment

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                pass
        for pid, _ in list(self.members()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def kill(pid):
    """The time just before, in seconds since the Unix epoch."""
    now = time.time()
    os.kill(pid, signal.SIGKILL)
    return now


# ------------------------------------------------------------------------------------ the trainer

def next_notification(child, deadline):
    try:
        line = child.lines.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        return None
    if line is None:
        raise RuntimeError("longhaul run has ended: look into its run directory")
    return json.loads(line)


def until(child, wanted, seconds=LIMIT_S):
    """The first notification that is wanted; those before it are passed over."""
    deadline = time.monotonic() + seconds
    while notification := next_notification(child, deadline):
        if wanted(notification):
            return notification
    raise RuntimeError(f"nothing came for {seconds} s")


def worker_pids(arguments, folder):
    answer = subprocess.run([arguments.longhaul, "status", "--json"], cwd=folder, check=True,
                            capture_output=True, text=True)
    return [int(pid) for pid in json.loads(answer.stdout)["jobs"][0]["worker_pids"]]


def pass_time(child, seconds):
    """Keeps reading, so that the pipe doesn't fill; the times of a step that came by."""
    steps = []
    deadline = time.monotonic() + seconds
    while notification := next_notification(child, deadline):
        if notification["type"] == "step":
            steps.append(notification["step"]["step_seconds"])
    return steps


def measure_trainer(arguments, folder, generator):
    os.mkdir(f"{folder}/data")
    for i in range(40):
        with open(f"{folder}/data/{i}.txt", "w") as file:
            file.writelines(f"line {i * j} of a text that repeats itself\n" for j in range(200))
    with open(f"{folder}/recovery.yaml", "w") as file:
        file.write(job_file(arguments))
    child = Child([arguments.longhaul, "run", "recovery.yaml", "--json"], folder)
    samples, steps = [], []
    try:
        until(child, lambda shown: shown["type"] == "step" and shown["step"]["step"] >= 20)
        for number in range(1, arguments.kills + 1):
            steps += pass_time(child, generator.uniform(0.2, 0.6))
            killed = kill(generator.choice(worker_pids(arguments, folder)))
            fault = until(child, lambda notification: notification["type"] == "fault" and
                          notification["fault"]["number"] == number and
                          notification["fault"]["new_step_at_ns"] != 0)["fault"]
            stages = {name: fault[f"{name}_at_ns"] * 1e-9 - killed for name in STAGES}
            samples.append({"first_step": stages["first_step"], "new_step": stages["new_step"],
                            "stages": stages, "class": fault["class_name"]})
    finally:
        child.end()
    return samples, statistics.median(step for step in steps if step > 0)


# ------------------------------------------------------------------------------------- the script

class NothingCame(RuntimeError):
    """The launcher still runs, and its workers do not train."""


class Log:
    """Rank 0's lines about steps: the log of the newest attempt, followed."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.attempts = 0
        self.path, self.offset, self.rest = None, 0, ""

    def newest(self):
        found = glob.glob(self.pattern)
        return max(found, key=lambda path: int(re.search(r"attempt[-_](\d+)", path)[1]),
                   default=None)

    def steps(self):
        """(attempts so far, step) of each line since the last call."""
        path = self.newest()
        if path is None:
            return
        if path != self.path:
            self.path, self.offset, self.rest = path, 0, ""
            self.attempts += 1
        with open(path) as file:
            file.seek(self.offset)
            text = self.rest + file.read()
            self.offset = file.tell()
        *lines, self.rest = text.split("\n")
        for line in lines:
            if found := re.match(r"step (\d+) ", line):
                yield self.attempts, int(found[1])

    def until(self, child, wanted, seconds=LIMIT_S):
        """When the first (attempt, step) that is wanted was seen, and the step."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if child.process.poll() is not None:
                raise RuntimeError("the launcher has ended")
            for attempt, step in self.steps():
                if wanted(attempt, step):
                    return time.time(), step
            time.sleep(0.002)
        raise NothingCame(f"nothing came for {seconds} s")


def start_script(words, step_seconds, folder, python):
    os.mkdir(folder)
    return Child([*words, "--steps", str(ENDLESS), "--step-time", str(step_seconds),
                  "--checkpoint", "ddp.pt", "--checkpoint-every", "1"], folder, PYTHON_EXEC=python,
                 PYTHONPATH=os.path.join(ROOT, "python"))


def measure_script(words, log_pattern, kills, step_seconds, folder, generator, python):
    """A sample of each kill. After one from which the launcher does not recover, it is started
    anew; the times of that kill are infinite."""
    samples, runs = [], 0
    while len(samples) < kills:
        runs += 1
        child = start_script(words, step_seconds, f"{folder}-{runs}", python)
        log = Log(f"{folder}-{runs}/{log_pattern}")
        try:
            log.until(child, lambda attempt, step: step >= 20)
            while len(samples) < kills:
                samples.append(measure_kill(child, log, generator))
        except NothingCame as nothing:
            print(f"{words[0]}: {nothing} after a kill", file=sys.stderr)
            samples.append({"first_step": math.inf, "new_step": math.inf})
        finally:
            child.end()
    return samples


def measure_kill(child, log, generator):
    pause = time.monotonic() + generator.uniform(2, 4)
    _, highest = log.until(child, lambda attempt, step: time.monotonic() > pause)
    workers = [pid for pid, environment in child.members() if "RANK" in environment]
    killed = kill(generator.choice(workers))
    before = log.attempts
    tail = [highest]

    def first(attempt, step):
        if attempt == before:
            tail.append(step)
        return attempt > before
    first_at, step = log.until(child, first)
    new_at = first_at
    if step <= max(tail):
        new_at, _ = log.until(child, lambda attempt, step: step > max(tail))
    return {"first_step": first_at - killed, "new_step": new_at - killed}


# -------------------------------------------------------------------------------------- the result

def percentile(values, share):
    """The smallest value that `share` of all don't exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * share) - 1]


def summary(samples, name):
    values = [sample[name] for sample in samples]
    return {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95), "max": max(values)}


def print_table(result):
    best = result["systems"].get("torchrun 0.1")
    before, after = result["load_average_before"][0], result["load_average_after"][0]
    print(f"commit {result['commit']}, seed {result['seed']}, {result['workers']} workers on "
          f"{result['cores']} cores, load average {before:.1f} before, {after:.1f} after, "
          f"step {1e3 * result['step_seconds']:.1f} ms")
    print(f"{'kill -9 to ... (seconds)':26}{'first step':>24}{'first new step':>24}")
    columns = "".join(f"{name:>8}" for name in ["p50", "p95", "max"] * 2)
    print(f"{'launcher':14}{'kills':>12}{columns}  p50 against torchrun 0.1")
    for name, system in result["systems"].items():
        row = f"{name:14}{len(system['samples']):12}"
        for kind in ("first_step", "new_step"):
            row += "".join(f"{system[kind][column]:8.3f}" for column in ("p50", "p95", "max"))
        ratio = best["new_step"]["p50"] / system["new_step"]["p50"] if best else None
        print(row + (f"  {ratio:.1f} x as fast" if ratio else ""))
    stages = result["systems"]["trainer"]["stages_p50"]
    print("trainer's stages, p50 ms after the kill: " +
          ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in stages.items()))


def commit():
    answer = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                            capture_output=True, text=True)
    return answer.stdout.strip() or "unknown"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--kills", type=int, default=50, help="of the trainer's workers (50)")
    parser.add_argument("--script-kills", type=int, default=200,
                        help="of the script's workers that are forked (200)")
    parser.add_argument("--cold-kills", type=int, default=10,
                        help="of those that start cold, under each launcher (10)")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--procs", type=int, default=2, help="workers on each node (2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch")
    parser.add_argument("--torchrun", default="/usr/bin/torchrun")
    parser.add_argument("--json", action="store_true", help="all samples as JSON, no table")
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    return arguments


def main():
    arguments = parse_arguments()
    generator = random.Random(arguments.seed)
    workers = arguments.nodes * arguments.procs
    folder = tempfile.mkdtemp(prefix="recovery-")
    load_before, measured_commit = os.getloadavg(), commit()
    try:
        samples, step_seconds = measure_trainer(arguments, folder, generator)
        systems = {"trainer": {"samples": samples}}
        torch = subprocess.run(
            [arguments.python, "-c", "import torch; print(torch.__version__)"],
            capture_output=True, text=True).stdout
        torchrun = [arguments.torchrun, "-r", "1", "-t", "1", "--log_dir", "logs",
                    "--nproc_per_node", str(workers), "--max_restarts", "1000000"]
        run = [arguments.longhaul, "run", "--nodes", str(arguments.nodes), "--procs",
               str(arguments.procs), "--max-restarts", "1000000"]
        scripts = {
            "script": ([*run, SCRIPT], "runs/ddp/logs/attempt-*/rank-0.log"),
            "elastic": ([*run, ELASTIC], "runs/ddp_elastic/logs/attempt-*/rank-0.log"),
            "script, cold": ([*run, "--no-fork-server", SCRIPT],
                             "runs/ddp/logs/attempt-*/rank-0.log"),
            "torchrun": ([*torchrun, SCRIPT], "logs/*/attempt_*/0/stdout.log"),
            "torchrun 0.1": ([*torchrun, "--monitor_interval", "0.1", SCRIPT],
                             "logs/*/attempt_*/0/stdout.log"),
        }
        for name, (words, pattern) in scripts.items():
            if not torch or shutil.which(words[0]) is None:
                print(f"{name}: SKIPPED, no PyTorch or no {words[0]}", file=sys.stderr)
                continue
            if name == "elastic" and not torch.startswith("2."):
                print(f"elastic: SKIPPED, needs PyTorch 2, found {torch.strip()}", file=sys.stderr)
                continue
            forked = name in ("script", "elastic")
            kills = arguments.script_kills if forked else arguments.cold_kills
            if kills == 0:
                continue
            systems[name] = {"samples": measure_script(
                words, pattern, kills, step_seconds,
                f"{folder}/{re.sub('[ ,]+', '-', name)}", generator, arguments.python)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for system in systems.values():
        for kind in ("first_step", "new_step"):
            system[kind] = summary(system["samples"], kind)
    systems["trainer"]["stages_p50"] = {
        name: percentile([sample["stages"][name] for sample in samples], 0.5) for name in STAGES}
    result = {"commit": measured_commit, "seed": arguments.seed, "workers": workers,
              "cores": os.cpu_count(), "load_average_before": load_before,
              "load_average_after": os.getloadavg(), "step_seconds": step_seconds,
              "command": sys.argv, "systems": systems}
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
