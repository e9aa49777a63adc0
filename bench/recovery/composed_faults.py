#!/usr/bin/env python3
"""Composed faults and resizes: no sample is lost or repeated, and the weights are the same bits.

    bench/recovery/composed_faults.py --longhaul build/release/src/bin/longhaul

Two proofs on a cluster of agents on this machine (local_cluster.py):

  elastic   A job of 1 to 8 workers (fault_worker.py) is faulted and resized again and again. Its
            workers record each sample that they consume in files of their own, and
            fault_records.py, which uses nothing of Longhaul, checks that every epoch consumed each
            sample exactly once. The final weights are compared with those that one process
            computes.
  trainer   The built-in trainer with 4 workers under faults. Its last checkpoint is compared,
            tensor by tensor, with that of a run without faults, and its samples with those of that
            run.

Faults, drawn from a seed: kill -9 of a worker, of an agent (started again), of the controller
(started again), of all workers; SIGSTOP and SIGCONT of a worker; and compositions of two at once or
in a row, so that the second one meets the recovery from the first. A resize drains or uncordons as
many nodes as it takes (longhaul nodes), alone, before a fault or after one.

The exit code is 1 if a sample is lost or repeated, if bits differ, or if the job does not go on.
"""
import argparse
import collections
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

import fault_records
import fault_worker
import local_cluster
import recovery

sys.path.insert(0, f"{recovery.ROOT}/tests")
import main_job_test  # noqa: E402

NODES = 8
SAMPLES, BATCH, EPOCH_STEPS = 3000, 15, 200
CONFIG = "scheduling: {elastic_period: 1s}\n"
FAULTS = ["worker", "worker", "worker", "stop", "agent", "controller", "gang"]
# Two in a row, with this many seconds at most in between.
COMPOSED = [("worker", "worker", 0), ("worker", "agent", 0), ("worker", "controller", 0),
            ("agent", "agent", 0), ("stop", "controller", 0), ("worker", "worker", 0.4),
            ("worker", "agent", 0.4), ("agent", "controller", 0.4), ("gang", "worker", 0.4)]
TRAINER_JOB = """
model: {layers: 1, hidden: 32, heads: 2, sequence: 32}
train: {global_batch: 8, warmup_steps: 5, evaluate_every: 0, evaluate_sequences: 8}
"""
OPERATOR_LOOKS_S = 3
OVER = ("succeeded", "failed", "stopped")


def note(text):
    print(text, file=sys.stderr, flush=True)


class Injector:
    """Draws faults and resizes and brings them about from outside the product."""

    def __init__(self, cluster, generator, workers, nodes, resizes):
        self.cluster, self.generator = cluster, generator
        self.workers = workers  # () -> the pids of the present workers
        self.nodes = nodes
        self.resizes = resizes
        self.keep = list(nodes)  # the nodes that may have workers
        self.counts, self.compositions = collections.Counter(), collections.Counter()
        self.waits = []  # seconds from a composition to the next new step

    def signal(self, pid, number):
        """Signals a process of this cluster only: its pid may belong to another one by now."""
        mark = f"{local_cluster.MARK}={self.cluster.mark}".encode()
        try:
            if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, number)
                return True
        except OSError:
            pass
        return False

    def fault(self, kind):
        if kind in ("worker", "stop", "gang"):
            pids = sorted(self.workers())
            if not pids:
                return
            if kind == "gang":
                done = sum(self.signal(pid, signal.SIGKILL) for pid in pids) > 0
            elif kind == "worker":
                done = self.signal(self.generator.choice(pids), signal.SIGKILL)
            else:
                pid = self.generator.choice(pids)
                done = self.signal(pid, signal.SIGSTOP)
                time.sleep(self.generator.uniform(0.1, 0.8))
                self.signal(pid, signal.SIGCONT)
            self.counts[kind] += done
            return
        if kind == "agent":
            node = self.generator.choice(self.nodes)
            self.cluster.kill_agent(node)
            time.sleep(self.generator.uniform(0.02, 0.4))
            self.cluster.start_agent(node)
        else:
            self.cluster.kill_controller()
            time.sleep(self.generator.uniform(0.02, 0.3))
            self.cluster.start_controller()
        self.counts[kind] += 1

    def resize(self):
        """Drains and uncordons nodes until as many as drawn can have workers."""
        sizes = [n for n in range(1, len(self.nodes) + 1) if n != len(self.keep)]
        self.keep = sorted(self.generator.sample(self.nodes, self.generator.choice(sizes)))
        # First the nodes that come back, so that the job never has none.
        self.bring_back()
        for node in self.nodes:
            if node not in self.keep:
                self.operate("drain", node, "--no-wait")
        self.counts["resize"] += 1

    def bring_back(self):
        """Uncordons the nodes that may have workers. This also ends the probation of those that
        have failed too often to get any."""
        for node in self.keep:
            self.operate("uncordon", node)

    def operate(self, *words):
        """A command of the operator, who repeats it while an agent or the controller starts."""
        def done():
            try:
                return [self.cluster.call("nodes", *words)]
            except RuntimeError as error:
                self.refusal = str(error)
                return None
        try:
            local_cluster.wait_for(" ".join(words), done, 20, 0.2)
        except TimeoutError:
            raise RuntimeError(self.refusal) from None

    def act(self):
        """Brings about one composition; returns its name."""
        chance = self.generator.random()
        between = self.generator.uniform(0, 0.3)
        if self.resizes and chance < 0.2:
            actions, between = ["resize"], 0
        elif self.resizes and chance < 0.35:
            actions = ["resize", self.generator.choice(FAULTS)]
        elif self.resizes and chance < 0.5:
            actions = [self.generator.choice(FAULTS), "resize"]
        elif chance < 0.75:
            first, second, longest = self.generator.choice(COMPOSED)
            actions, between = [first, second], self.generator.uniform(0, longest)
        else:
            actions, between = [self.generator.choice(FAULTS)], 0
        for i, action in enumerate(actions):
            if i > 0:
                time.sleep(between)
            self.resize() if action == "resize" else self.fault(action)
        self.compositions[" + ".join(actions)] += 1
        return " + ".join(actions)

    def total(self):
        return sum(self.counts.values())


def wait_for_step(injector, steps, before, enough):
    """Waits for a step above `before`, as an operator who looks every few seconds: a cluster of
    which all nodes are drained or on probation gets nodes back. Returns the seconds."""
    began = looked = time.monotonic()
    while not (steps() > before or enough()):
        now = time.monotonic()
        if now - began > local_cluster.LIMIT_S:
            raise TimeoutError
        if now - looked > OPERATOR_LOOKS_S:
            looked = now
            injector.bring_back()
        time.sleep(0.02)
    return time.monotonic() - began


def inject(injector, steps, job, enough, pause):
    """Injects until enough() holds. After most compositions the job must get to a new step first;
    the others are followed by the next one at once."""
    began, in_a_row = time.monotonic(), 0
    while not enough():
        before = steps()
        name = injector.act()
        in_a_row += 1
        if in_a_row == 3 or injector.generator.random() < 0.7:
            try:
                injector.waits.append(wait_for_step(injector, steps, before, enough))
            except TimeoutError:
                raise RuntimeError(f"no new step after {name}, at step {before}: "
                                   f"{json.dumps(job())[:4000]}") from None
            in_a_row = 0
        note(f"{time.monotonic() - began:6.1f} s  {injector.total():4} faults and resizes, step "
             f"{steps()}, {name}")
        time.sleep(injector.generator.uniform(0, pause))


def elastic_job(arguments, folder):
    return {"command": ["/usr/bin/python3", fault_worker.__file__, "--folder", str(folder),
                        "--samples", str(SAMPLES), "--batch", str(BATCH), "--seed",
                        str(arguments.seed), "--step-time", str(arguments.step_time)],
            "resources": {"nodes": NODES, "minimum_nodes": 1, "maximum_nodes": NODES,
                          "processes_per_node": 1},
            "snapshot": {"interval_steps": 5}, "max_restarts": 1_000_000}


def job_is_over(cluster, name):
    job = cluster.ask("status", name)
    return job if job["state"] in OVER else None


def run_elastic(arguments, folder, seed):
    """One run under faults. The totals of the injector and of the independent checker."""
    cluster = local_cluster.LocalCluster(arguments.longhaul, folder, NODES, config=CONFIG)
    progress = fault_records.Progress(folder / "records")
    injector = Injector(cluster, random.Random(seed),
                        lambda: [pid for _, pid in progress.newest().values()], cluster.nodes, True)
    try:
        cluster.submit("elastic", elastic_job(arguments, folder))
        local_cluster.wait_for("the first steps", lambda: progress.step() >= 20)
        began = time.monotonic()
        inject(injector, progress.step, lambda: cluster.ask("status", "elastic"),
               lambda: injector.total() >= arguments.faults, arguments.pause)
        seconds = time.monotonic() - began
        injector.keep = cluster.nodes
        injector.bring_back()
        last = (progress.step() // EPOCH_STEPS + 2) * EPOCH_STEPS
        part = folder / "finish.part"
        part.write_text(str(last))
        part.rename(folder / "finish")
        job = local_cluster.wait_for("the end of the job", lambda: job_is_over(cluster, "elastic"),
                                     300, 0.2)
        if job["state"] != "succeeded":
            raise RuntimeError(f"the job {job['state']}: {job['reason']}")
    finally:
        cluster.close()
    records, ends = fault_records.read(folder / "records")
    history = fault_records.History(records)
    data = fault_worker.Data(SAMPLES, BATCH, arguments.seed)
    expected = (last, fault_worker.expected_weights(data, last).tobytes().hex())
    equal = len(ends) > 0 and all(end == expected for end in ends.values())
    sizes = history.sizes()
    return {"seed": seed, "faults": dict(injector.counts),
            "compositions": dict(injector.compositions), "waits": injector.waits,
            "seconds": seconds, "steps": last, "attempts": history.attempts,
            "steps_done_again": history.done_again, "size_changes": len(sizes) - 1,
            "sizes": sorted(set(sizes)), "bits_equal": equal,
            **fault_records.check(history, last, SAMPLES, BATCH)}


# ------------------------------------------------------------------------------------ the trainer

def trainer_job(folder, steps):
    return {"model": {"layers": 1, "hidden": 32, "heads": 2, "sequence": 32},
            "data": {"include": [f"{folder}/data/*.txt"], "held_out": 0.1},
            "train": {"steps": steps, "global_batch": 8, "warmup_steps": 5, "evaluate_every": 0,
                      "evaluate_sequences": 8},
            "snapshot": {"interval_steps": 5}, "max_restarts": 1_000_000,
            "resources": {"nodes": 4, "processes_per_node": 1}}


def trained_samples(folder):
    """The samples of each step that counts, by the files that the ranks of the trainer wrote."""
    last, by_step = {}, {}
    records = list(main_job_test.sample_records(folder))
    for attempt, step, _, _ in records:
        last[step] = max(attempt, last.get(step, attempt))
    for attempt, step, rank, samples in records:
        if attempt == last[step]:
            by_step.setdefault(step, {}).setdefault(rank, []).extend(samples)
    return by_step


def wait_for_trainer(cluster, name):
    job = local_cluster.wait_for(f"the end of {name}", lambda: job_is_over(cluster, name), 600, 0.2)
    if job["state"] != "succeeded":
        raise RuntimeError(f"{name} {job['state']}: {job['reason']}")
    return job


def run_trainer(arguments, folder):
    """The built-in trainer with and without faults, and whether the bits are equal."""
    (folder / "data").mkdir()
    for i in range(40):
        lines = (f"line {i * j} of a text that repeats itself\n" for j in range(4))
        (folder / f"data/{i}.txt").write_text("".join(lines))
    cluster = local_cluster.LocalCluster(arguments.longhaul, folder, 4, config=CONFIG)
    steps = arguments.trainer_steps

    def job():
        return cluster.ask("status", "faulty")

    def step():
        status = job()
        return steps if status["state"] in OVER else int(status["step"])
    injector = Injector(cluster, random.Random(arguments.seed), lambda: map(
        int, job().get("worker_pids", [])), cluster.nodes, False)
    try:
        cluster.submit("plain", trainer_job(folder, steps))
        wait_for_trainer(cluster, "plain")
        cluster.submit("faulty", trainer_job(folder, steps))
        local_cluster.wait_for("the first steps", lambda: step() >= 20)
        inject(injector, step, job, lambda: step() > steps * 0.95 or injector.total() >=
               arguments.trainer_faults, arguments.pause)
        injector.bring_back()  # the last faults may have put nodes on probation
        wait_for_trainer(cluster, "faulty")
        differing = subprocess.run(
            [arguments.longhaul, "checkpoint", "diff", "runs/plain", "runs/faulty", "--json"],
            cwd=folder, capture_output=True, text=True)
        if differing.returncode not in (0, 1) or not differing.stdout:
            raise RuntimeError(f"longhaul checkpoint diff: {differing.stderr}")
        difference = json.loads(differing.stdout)
    finally:
        cluster.close()
    plain, faulty = (trained_samples(folder / "runs" / name / "samples")
                     for name in ("plain", "faulty"))
    return {"faults": dict(injector.counts), "waits": injector.waits, "steps": steps,
            "difference": difference, "bits_equal": difference["equal"],
            "samples_equal": plain == faulty and sorted(plain) == list(range(1, steps + 1))}


# ------------------------------------------------------------------------------------- the report

def total_of(runs):
    total = collections.Counter()
    for run in runs:
        total.update(run["faults"])
    return dict(sorted(total.items()))


def failures_of(result):
    found = []
    for run in result["elastic"]:
        for what in ("lost", "repeated", "incomplete_steps"):
            if run[what]:
                found.append(f"seed {run['seed']}: {run[what]} {what.replace('_', ' ')}")
        if not run["bits_equal"]:
            found.append(f"seed {run['seed']}: the weights differ from the expected ones")
    if trainer := result["trainer"]:
        if not trainer["bits_equal"]:
            found.append("trainer: the last checkpoints differ")
        if not trainer["samples_equal"]:
            found.append("trainer: the samples differ")
    return found


def print_result(result):
    load = result["load_average_before"][0], result["load_average_after"][0]
    print(f"commit {result['commit']}, {result['cores']} cores, load average {load[0]:.1f} before, "
          f"{load[1]:.1f} after")
    runs = result["elastic"]
    if runs:
        total = total_of(runs)
        print(f"elastic, 1 to {NODES} workers, {len(runs)} runs: "
              f"{sum(total.values())} faults and resizes in "
              f"{sum(run['seconds'] for run in runs):.0f} s")
        print("  " + ", ".join(f"{kind} {count}" for kind, count in total.items()))
        print(f"  steps {sum(run['steps'] for run in runs)}, of which done again "
              f"{sum(run['steps_done_again'] for run in runs)}; attempts "
              f"{sum(run['attempts'] for run in runs)}; changes of size "
              f"{sum(run['size_changes'] for run in runs)}; sizes "
              f"{sorted({size for run in runs for size in run['sizes']})}")
        waits = [wait for run in runs for wait in run["waits"]]
        print("  to the next new step: p50 {:.2f}, p95 {:.2f}, max {:.2f} s".format(
            *(recovery.percentile(waits, share) for share in (0.5, 0.95, 1))))
        print(f"  samples {sum(run['samples'] for run in runs)}, lost "
              f"{sum(run['lost'] for run in runs)}, repeated "
              f"{sum(run['repeated'] for run in runs)}, "
              f"bits equal in {sum(run['bits_equal'] for run in runs)} of {len(runs)} runs")
    if trainer := result["trainer"]:
        print(f"trainer, 4 workers: {sum(trainer['faults'].values())} faults in "
              f"{trainer['steps']} steps ("
              + ", ".join(f"{kind} {count}" for kind, count in sorted(trainer["faults"].items()))
              + f"); samples equal: {trainer['samples_equal']}, "
              f"bits equal: {trainer['bits_equal']}")
    print("failures: " + ("; ".join(result["failures"]) or "none"))


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--runs", type=int, default=4, help="elastic runs (4)")
    parser.add_argument("--faults", type=int, default=250,
                        help="faults and resizes in each elastic run (250)")
    parser.add_argument("--pause", type=float, default=0.5,
                        help="longest pause between two compositions, seconds (0.5)")
    parser.add_argument("--step-time", type=float, default=0.01,
                        help="of a step of the elastic job, seconds (0.01)")
    parser.add_argument("--trainer-faults", type=int, default=100,
                        help="most faults of the built-in trainer; 0: leave it out (100)")
    parser.add_argument("--trainer-steps", type=int, default=5000,
                        help="steps of the built-in trainer (5000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    parser.add_argument("--json", action="store_true", help="all figures as JSON, no table")
    arguments = parser.parse_args()
    if arguments.runs < 0 or arguments.faults < 1 or arguments.trainer_steps < 100:
        parser.error("--runs must be at least 0, --faults at least 1, --trainer-steps at least 100")
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    return arguments


def in_folder(arguments, measure, *more):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="composed-faults-"))
    try:
        result = measure(arguments, folder, *more)
    except BaseException:
        note(f"the folder of the failed run is kept: {folder}")
        raise
    if arguments.keep:
        note(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the cluster ends with it
    result = {"commit": recovery.commit(), "seed": arguments.seed, "cores": os.cpu_count(),
              "load_average_before": os.getloadavg(), "command": sys.argv, "elastic": [],
              "trainer": None}
    for run in range(arguments.runs):
        result["elastic"].append(in_folder(arguments, run_elastic, arguments.seed + run))
        note(json.dumps(result["elastic"][-1]))
    if arguments.trainer_faults > 0:
        result["trainer"] = in_folder(arguments, run_trainer)
    result["load_average_after"] = os.getloadavg()
    result["failures"] = failures_of(result)
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print_result(result)
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
