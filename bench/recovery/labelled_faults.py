#!/usr/bin/env python3
"""Labelled faults: is the right worker or node named, how soon, and is anything blamed in error?

    bench/recovery/labelled_faults.py --longhaul build/release/src/bin/longhaul

`longhaul run` trains fault_worker.py with 4 workers on 2 nodes; a third node is idle. The workers
bring about faults of known kind, rank and step (the label). The verdict of the product is read from
report.json, events.jsonl and `longhaul explain --json` and compared with the label:

  hang    a worker sleeps in its own code; the others wait for it in a collective
  stop    a worker is stopped (SIGSTOP)
  kill    a worker is ended by SIGKILL
  error   a worker ends with an exception of its program
  nan     a worker reports a loss that is NaN (named if a warning has the step and the rank)
  slow    a worker takes 5 times as long for 100 steps (named if a warning has the rank)
  flap    the workers of one node fail again and again (a run of its own; the node must be left)
  pairs   two of the above in two workers at the same step; a pair counts as named if one of them
          is, because the restart after that one may end the other before it is seen

Recall is the share of labels that were named with the right class and rank (or node). The time is
that of the first warning or fault which names the label; "report" counts those that are faults. An
eviction is a node that the gang leaves; it is wrong if no flap is its label. An alarm is false if a
fault or a warning about a hang belongs to no label. With --quiet-for, jobs without faults run
beside load.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import fault_worker
import recovery

KINDS = ["hang", "stop", "kill", "error", "nan", "slow"]
PAIRS = [("kill", "error"), ("hang", "error"), ("stop", "kill"), ("kill", "kill"),
         ("hang", "stop"), ("error", "hang")]
CLASSES = {"hang": "hang", "stop": "hang", "kill": "process", "error": "error", "flap": "error"}
RANKS, GAP_STEPS = 4, 120
SLOW = {"factor": 5.0, "steps": 100}
SUSPICION = re.compile(r"no step for .* and no activity of any worker")
DIFFERS = re.compile(r"workers? ([\d, ]+) differs? from the others")
STOPPED = re.compile(r"worker (\d+) on .* was stopped \(state T\) when")
SLOWS = re.compile(r"workers? ([\d, ]+) on .* slows? the job down")


def note(text):
    print(text, file=sys.stderr, flush=True)


def mixed_labels(generator, kinds, each, pairs):
    """The labels of a run, in the order of their steps."""
    order = [(kind,) for kind in kinds for _ in range(each)]
    order += [PAIRS[i % len(PAIRS)] for i in range(pairs)]
    generator.shuffle(order)
    labels = []
    for number, group in enumerate(order):
        ranks = generator.sample(range(RANKS), len(group))
        for kind, rank in zip(group, ranks):
            labels.append({"id": f"{number}-{kind}-{rank}", "kind": kind, "rank": rank,
                           "step": GAP_STEPS * (number + 1), "pair": len(group) > 1,
                           **(SLOW if kind == "slow" else {})})
    return labels


class Run:
    """One `longhaul run` to its end, and what it left."""

    def __init__(self, arguments, folder, labels, steps, step_time):
        self.arguments, self.folder, self.labels = arguments, folder, labels
        (folder / "injected").mkdir()
        (folder / "faults.json").write_text(json.dumps(labels))
        self.child = recovery.Child(
            [arguments.longhaul, "run", "--name", "labelled", "--nodes", "2", "--procs", "2",
             "--cluster-nodes", "3", "--cluster-slots", "2", "--set", "max_restarts=100000",
             "--set", "snapshot.interval_steps=5", "--no-step-limit", arguments.no_step_limit,
             "--stopped-limit", arguments.stopped_limit, "--quiet", "--",
             "/usr/bin/python3", fault_worker.__file__, "--folder", str(folder), "--steps",
             str(steps), "--step-time", str(step_time)], str(folder))

    def wait(self):
        """Prints each label as it is injected. The run must succeed."""
        shown, began = set(), time.monotonic()
        while self.child.process.poll() is None:
            for path in sorted((self.folder / "injected").iterdir()):
                if path.name not in shown:
                    shown.add(path.name)
                    note(f"{time.monotonic() - began:6.1f} s  {len(shown)} of {len(self.labels)}: "
                         f"{path.name}")
            time.sleep(0.1)
        if self.child.process.returncode != 0:
            lines = list(self.child.lines.queue)
            raise RuntimeError(f"longhaul run: exit code {self.child.process.returncode}: {lines}")

    def read(self):
        run = self.folder / "runs/labelled"
        self.report = json.loads((run / "report.json").read_text())
        self.events = [json.loads(line)
                       for line in (run / "events.jsonl").read_text().split("\n")[:-1]]
        done = subprocess.run([self.arguments.longhaul, "explain", str(run), "--json"], text=True,
                              capture_output=True, check=True)
        self.story = json.loads(done.stdout)

    def injected_at(self, label):
        path = self.folder / "injected" / label["id"]
        return float(path.read_text()) if path.exists() else None

    def gangs(self):
        return [event["attempt"]["gang"] for event in self.events if event["type"] == "attempt"]


def seconds_of(at_ns):
    return int(at_ns) * 1e-9


def faults_of(run):
    """Each fault with all that names it: its class and rank, and those of its evidence."""
    explained = {fault["number"]: fault for fault in run.story["faults"]}
    for fault in run.report["faults"]:
        story = explained.get(fault["number"], {})
        texts = [fault["what"]] + [str(one) for one in story.get("observations", [])]
        yield fault, texts


def names(label, fault, texts):
    """Whether a fault names the label: class and rank, or in a pair another observation of it."""
    if fault["class_name"] == CLASSES.get(label["kind"]):
        if label["kind"] == "flap":
            return fault["node"] == label["node"]
        if fault["rank"] == label["rank"]:
            return True
    if not label["pair"]:
        return False
    word = {"kill": "SIGKILL", "error": "exited with code 1"}.get(label["kind"])
    return word is not None and any(
        word in text and re.search(rf"[Ww]orker {label['rank']}\b", text) for text in texts)


def warned_at(run, label, begin, end):
    """When a warning named the label; None: never."""
    for event in run.events:
        if event["type"] != "message":
            continue
        text, at = event["message"]["text"], seconds_of(event["at_ns"])
        if not begin - 1 <= at < end:
            continue
        if label["kind"] == "nan" and re.search(
                rf"the loss of step {label['step']} is not finite .*worker {label['rank']};", text):
            return at
        if label["kind"] == "stop" and (found := STOPPED.search(text)) and \
                found[1] == str(label["rank"]):
            return at
        found = (SLOWS if label["kind"] == "slow" else DIFFERS).search(text)
        if label["kind"] in ("hang", "stop", "slow") and found and \
                str(label["rank"]) in (ranks := found[1].replace(" ", "").split(",")) and \
                (label["pair"] or len(ranks) == 1):
            return at
    return None


def judge(run):
    """The verdict for each label, and what belongs to none."""
    verdicts, used = [], set()
    times = [run.injected_at(label) for label in run.labels]
    for label, at in zip(run.labels, times):
        if at is None:
            continue  # another fault of a pair came first, and then the run ended
        later = [other for other in times if other is not None and other > at + 1]
        end = min(later, default=float("inf"))
        named = warned_at(run, label, at, end)
        faulted = None
        for fault, texts in faults_of(run):
            detected = seconds_of(fault["detected_at_ns"])
            if at - 0.1 <= detected < end:
                used.add(fault["number"])
                if faulted is None and names(label, fault, texts):
                    faulted = detected
        first = min((one for one in (named, faulted) if one is not None), default=None)
        verdicts.append({"kind": label["kind"], "pair": label["pair"], "label": label["id"],
                         "seconds": None if first is None else first - at,
                         "in_report": faulted is not None})
    windows = [at for at in times if at is not None]
    strays = [fault["what"] for fault, _ in faults_of(run) if fault["number"] not in used]
    for event in run.events:
        text = event["message"]["text"] if event["type"] == "message" else ""
        at = seconds_of(event["at_ns"]) if text else 0
        before = [label for label, when in zip(run.labels, times) if when and when < at]
        if SUSPICION.search(text) and \
                (not before or before[-1]["kind"] not in ("hang", "stop", "kill", "error")):
            strays.append(text)
        if (found := SLOWS.search(text)) and \
                (not before or before[-1]["kind"] != "slow" or found[1] != str(before[-1]["rank"])):
            strays.append(text)
    gangs = run.gangs()
    left = [node for before, after in zip(gangs, gangs[1:]) for node in before if node not in after]
    wrong = [node for node in left if node not in {label.get("node") for label in run.labels}]
    return {"verdicts": verdicts, "labels": len(windows), "false_alarms": strays,
            "evictions": left, "wrong_evictions": wrong}


def measure(arguments, labels, steps, step_time=None):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="labelled-faults-"))
    run = None
    try:
        run = Run(arguments, folder, labels, steps, step_time or arguments.step_time)
        run.wait()
        run.read()
        judged = judge(run)
    except BaseException:
        note(f"the folder of the failed run is kept: {folder}")
        raise
    finally:
        if run is not None:
            run.child.end()
    if arguments.keep:
        note(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return judged


def start_load():
    """Two processes that compute, and one that writes and syncs files: more than two cores."""
    busy = "while True: sum(range(10**6))"
    writer = ("import os, tempfile, time\nwith tempfile.TemporaryFile() as file:\n  while True:\n"
              "    file.seek(0); file.write(bytes(1 << 22)); file.flush()\n"
              "    os.fsync(file.fileno()); time.sleep(0.2)\n")
    return [subprocess.Popen([sys.executable, "-c", code]) for code in (busy, busy, writer)]


def measure_quiet(arguments):
    """A job without faults beside load: each fault and each warning of a hang is a false alarm."""
    load = start_load()
    try:
        begin = time.monotonic()
        judged = {"seconds": 0, "steps": 0, "runs": 0, "false_alarms": [], "evictions": []}
        while (left := arguments.quiet_for - (time.monotonic() - begin)) > 0:
            steps = max(200, int(min(left, 300) / max(arguments.step_time * 2, 0.03)))
            one = measure(arguments, [], steps)
            judged["steps"] += steps
            judged["runs"] += 1
            judged["false_alarms"] += one["false_alarms"]
            judged["evictions"] += one["evictions"]
            judged["seconds"] = time.monotonic() - begin
            note(f"{judged['seconds']:6.0f} s without faults, load average "
                 f"{os.getloadavg()[0]:.1f}, false alarms {len(judged['false_alarms'])}")
        return judged
    finally:
        for child in load:
            child.kill()
            child.wait()


# ------------------------------------------------------------------------------------- the report

def row_of(verdicts):
    named = [one["seconds"] for one in verdicts if one["seconds"] is not None]
    row = {"labels": len(verdicts), "named": len(named),
           "in_report": sum(one["in_report"] for one in verdicts)}
    if named:
        row.update({name: recovery.percentile(named, share)
                    for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1))})
    return row


def rows_of(result):
    verdicts = [one for judged in result["runs"] for one in judged["verdicts"]]
    rows = {}
    for kind in [*KINDS, "flap"]:
        alone = [one for one in verdicts if one["kind"] == kind and not one["pair"]]
        if alone:
            rows[kind] = row_of(alone)
    first = {}  # of each pair the label that was named first
    both = 0
    for run, judged in enumerate(result["runs"]):
        for one in judged["verdicts"]:
            if not one["pair"]:
                continue
            place = run, one["label"].split("-")[0]
            before = first.get(place)
            both += before is not None and None not in (before["seconds"], one["seconds"])
            if before is None or before["seconds"] is None or \
                    one["seconds"] is not None and one["seconds"] < before["seconds"]:
                first[place] = one
    if first:
        rows["pairs"] = {**row_of(list(first.values())), "both": both}
    return rows


def print_result(result):
    load = result["load_average_before"][0], result["load_average_after"][0]
    print(f"commit {result['commit']}, seed {result['seed']}, {result['cores']} cores, load "
          f"average {load[0]:.1f} before, {load[1]:.1f} after")
    print(f"{'label':8}{'labels':>8}{'named':>8}{'report':>8}{'p50 s':>9}{'p95 s':>9}{'max s':>9}")
    for kind, row in result["rows"].items():
        times = "".join(f"{row[name]:9.2f}" if name in row else f"{'-':>9}"
                        for name in ("p50", "p95", "max"))
        both = f"  both named: {row['both']}" if "both" in row else ""
        print(f"{kind:8}{row['labels']:8}{row['named']:8}{row['in_report']:8}{times}{both}")
    for name in ("evictions", "wrong_evictions", "false_alarms"):
        found = [one for judged in result["runs"] for one in judged[name]]
        print(f"{name.replace('_', ' ')}: {len(found)}")
        for text in found if name == "false_alarms" else []:
            print(f"  {text}")
    if quiet := result["quiet"]:
        print(f"without faults: {quiet['seconds']:.0f} s, {quiet['steps']} steps, "
              f"{len(quiet['false_alarms'])} false alarms, {len(quiet['evictions'])} evictions")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{recovery.ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--runs", type=int, default=4, help="runs with mixed labels (4)")
    parser.add_argument("--each", type=int, default=5, help="labels of each kind in a run (5)")
    parser.add_argument("--pairs", type=int, default=6, help="pairs in a run (6)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these kinds (all)")
    parser.add_argument("--flaps", type=int, default=5, help="runs with a failing node (5)")
    parser.add_argument("--quiet-for", type=float, default=0,
                        help="seconds of a job without faults beside load (0)")
    parser.add_argument("--step-time", type=float, default=0.02, help="of a step, seconds (0.02)")
    parser.add_argument("--no-step-limit", default="20s",
                        help="of longhaul run: a hang is named before, and ended then (20s)")
    parser.add_argument("--stopped-limit", default="15s", help="of longhaul run (15s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    parser.add_argument("--json", action="store_true", help="all figures as JSON, no table")
    arguments = parser.parse_args()
    if min(arguments.runs, arguments.flaps, arguments.pairs, arguments.quiet_for) < 0 or \
            arguments.each < 1:
        parser.error("--runs, --flaps, --pairs and --quiet-for must be at least 0, "
                     "--each at least 1")
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    return arguments


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the run ends with it
    result = {"commit": recovery.commit(), "seed": arguments.seed, "cores": os.cpu_count(),
              "load_average_before": os.getloadavg(), "command": sys.argv, "runs": [],
              "quiet": None}
    generator = random.Random(arguments.seed)
    for _ in range(arguments.runs):
        labels = mixed_labels(generator, arguments.kind or KINDS, arguments.each, arguments.pairs)
        result["runs"].append(measure(arguments, labels, labels[-1]["step"] + GAP_STEPS))
    for number in range(arguments.flaps):
        label = {"id": f"flap-{number}", "kind": "flap", "node": f"node-{1 + number % 2}",
                 "step": 30, "pair": False}
        result["runs"].append(measure(arguments, [label], 120))
    if arguments.quiet_for > 0:
        result["quiet"] = measure_quiet(arguments)
    result["rows"] = rows_of(result)
    result["load_average_after"] = os.getloadavg()
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print_result(result)


if __name__ == "__main__":
    main()
