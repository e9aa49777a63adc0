#!/usr/bin/python3
"""Runs a scenario of faults on hosts that are network namespaces, and compares it with the simulator.

    tests/lab/scenario.py --compare tests/lab/scenarios/worker-killed.yaml

docs/scenarios.md describes the files. `longhaul simulate --scenario FILE --json` reads them, so that
both sides understand them alike. A controller with TLS has one host and each agent another
(cluster.py, network.py; needs root). The job is bench/recovery/fault_worker.py, whose records show
whether a step or a sample was lost or repeated. The times are those of rank 0.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/recovery"))
import fault_records  # noqa: E402
import fault_worker  # noqa: E402

PYTHON = "/usr/bin/python3"
SEED = 1
LOOK_S = 0.002
LOOK_AGAIN_S = 0.01  # for a target, as often as the simulator
# Beyond the time of the steps and of the faults, for restarts.
LIMIT_S = 60
OVER = ("succeeded", "failed", "stopped")
DISK = "64m"


def simulate(longhaul, file, seed=1):
    """The simulator's report, which contains the file as it was understood."""
    done = subprocess.run([longhaul, "simulate", "--scenario", str(file), "--seed", str(seed),
                           "--json"], capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr.strip() or f"longhaul simulate: exit code {done.returncode}")
    return json.loads(done.stdout)


class Steps:
    """Follows FOLDER/times, and counts as the simulator does."""

    def __init__(self, path):
        self.path, self.place, self.rest = path, 0, b""
        self.highest = self.taken = 0
        self.first_at = None
        self.faults = []  # those that have happened

    def look(self):
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.place)
            data = self.rest + file.read()
            self.place = file.tell()
        *lines, self.rest = data.split(b"\n")
        for line in lines:
            at, _, step = line.split()
            self.take(float(at), int(step))

    def take(self, at, step):
        self.taken += 1
        self.first_at = self.first_at or at
        if step <= self.highest and self.faults:
            self.faults[-1]["steps_again"] += 1
        self.highest = max(self.highest, step)
        for fault in self.faults:
            if step > fault["step"] and fault["new_step_s"] is None:
                fault["new_step_s"] = at - fault["at"]


class Attempts:
    """The gangs of the job's attempts, by the controller's events. A client that ends with the
    controller is started again."""

    def __init__(self, lab, job):
        self.lab, self.job = lab, job
        self.gangs = {}
        self.over = False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def newest(self):
        return self.gangs[max(self.gangs)] if self.gangs else []

    def take(self, line):
        attempt = json.loads(line)["data"].get("attempt")
        if attempt:
            self.gangs[int(attempt["attempt"])] = attempt["gang"]

    def follow(self):
        while not self.over:
            self.child = self.lab.network["control"].start(
                [self.lab.longhaul, "events", self.job, "--follow", "--json"],
                env=self.lab.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True)
            for line in self.child.stdout:
                self.take(line)
            self.child.stdout.close()
            self.child.wait()
            time.sleep(0.05)

    def close(self):
        self.over = True
        self.child.kill()
        self.thread.join()


class Run:
    """One run of a scenario in the laboratory."""

    def __init__(self, longhaul, library, scenario, folder):
        self.scenario, self.folder = scenario, pathlib.Path(folder)
        self.processes = scenario["processes_per_node"]
        self.workers = scenario["nodes"] * self.processes
        self.batch = 2 * self.workers
        self.run_directory = self.folder / "runs/scenario"
        self.run_directory.mkdir(parents=True)
        self.disk = None
        if any(fault["fault"] == "full_disk" for fault in scenario["faults"]):
            network_command("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs",
                            self.run_directory)
            self.disk = self.run_directory
        self.steps = Steps(self.folder / "work/times")
        (self.folder / "work").mkdir()
        self.ends, self.newest = [], {}  # (time, what ends a fault), by time
        self.cluster = self.attempts = None
        try:
            self.cluster = cluster.Cluster(
                longhaul, self.folder, scenario["nodes"] + scenario["spares"],
                slots=self.processes, LONGHAUL_LIBRARY=library)
            self.cluster.submit("scenario", self.job())
            self.attempts = Attempts(self.cluster, "scenario")
        except BaseException:
            self.close()
            raise

    def job(self):
        scenario = self.scenario
        return {"command": [PYTHON, fault_worker.__file__, "--folder", str(self.folder / "work"),
                            "--samples", str(self.batch * scenario["steps"]), "--batch",
                            str(self.batch), "--seed", str(SEED), "--steps",
                            str(scenario["steps"]), "--step-time", str(scenario["step_s"]),
                            "--times"],
                "resources": {"nodes": scenario["nodes"], "processes_per_node": self.processes},
                "snapshot": {"interval_steps": scenario["snapshot_every"]},
                "max_restarts": 1_000}

    def close(self):
        if self.attempts:
            self.attempts.close()
        if self.cluster:
            self.cluster.close()
        if self.disk:
            subprocess.run(["umount", self.disk], capture_output=True)

    def status(self):
        return self.cluster.ask("status", "scenario")

    def limit(self):
        faults = self.scenario["faults"]
        return (LIMIT_S + 4 * self.scenario["steps"] * (self.scenario["step_s"] + 0.02) +
                sum(10 + fault["for_s"] + fault.get("after_s", 0) for fault in faults))

    def run(self):
        """Brings about all faults and waits for the end of the job."""
        until = time.monotonic() + self.limit()
        for faults in at_the_same_moment(self.scenario["faults"]):
            self.await_time(faults[0], until)
            while not self.strike(faults):
                self.watch(LOOK_AGAIN_S, until)
        while self.ends or self.steps.highest < self.scenario["steps"]:
            self.watch(LOOK_S, until)
        cluster.wait_for("the end of the job", lambda: self.status()["state"] in OVER)

    def await_time(self, fault, until):
        if "at_step" in fault:
            while self.steps.highest < fault["at_step"]:
                self.watch(LOOK_S, until)
        else:
            due = self.steps.faults[-1]["at"] + fault["after_s"]
            while time.time() < due:
                self.watch(min(LOOK_S, max(0, due - time.time())), until)

    def watch(self, seconds, until):
        """Ends the faults that are to end by now, and follows the steps."""
        while self.ends and self.ends[0][0] <= time.time():
            for action, *words in self.ends.pop(0)[1]:
                action(*words)
        self.steps.look()
        if time.monotonic() > until:
            raise TimeoutError(f"the scenario does not end; step {self.steps.highest}: "
                               f"{json.dumps(self.status())[:4000]}")
        time.sleep(seconds)

    def later(self, seconds, *actions):
        """Plans what ends a fault. It is done by this thread: a host that another thread starts
        would end with it (setpriv --pdeathsig)."""
        self.ends.append((time.time() + seconds, actions))
        self.ends.sort(key=lambda end: end[0])

    def unless_newer(self, key, action):
        """The action, unless the same is done once more before it happens."""
        number = self.newest[key] = self.newest.get(key, 0) + 1

        def act(*words):
            if self.newest[key] == number:
                action(*words)
        return act

    def node_at(self, place):
        """The node at a place of the gang, from 0, if it runs."""
        gang = self.attempts.newest()
        if place >= len(gang) or not self.cluster.processes_of(gang[place], "agent"):
            return None
        return gang[place]

    def worker(self, rank, node):
        """The pid of a worker of the newest attempt in this machine's count, or None."""
        attempt = max(self.attempts.gangs)
        member = self.folder / f"work/members/{attempt}.{rank}"
        if not member.exists():
            return None
        inner, host = member.read_text().split()
        for pid in self.cluster.network[node].processes() if host == node else []:
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if fields["NSpid"].split()[-1] == inner and fields["State"][0] != "Z":
                return pid
        return None

    def strike(self, faults):
        """Brings faults about, unless a target is not there. Returns whether it has."""
        targets = [self.target(fault) for fault in faults]
        if None in targets:
            return False
        self.steps.look()
        for fault, (node, pid) in zip(faults, targets):
            record = {"fault": fault["fault"], "target": fault["target"], "node": node or "",
                      "at": time.time(), "step": self.steps.highest, "new_step_s": None,
                      "steps_again": 0}
            self.act(fault["fault"], fault, fault["for_s"], node, pid)
            self.steps.faults.append(record)
        return True

    def target(self, fault):
        """The node and the pid that a fault is for, which may be None; None if it is away."""
        of_worker = fault["fault"] in ("kill_worker", "stop_worker")
        if of_worker or fault["node"] > 0:
            place = fault["rank"] // self.processes if of_worker else fault["node"] - 1
            node = self.node_at(place)
            pid = self.worker(fault["rank"], node) if of_worker and node else None
            return None if node is None or of_worker and pid is None else (node, pid)
        if (fault["fault"] == "kill_controller" and
                not self.cluster.processes_of("control", "controller")):
            return None
        return None, None

    def act(self, kind, fault, lasts, node, pid):
        lab = self.cluster
        host = lab.network[node] if node else None
        if kind == "kill_worker":
            os.kill(pid, signal.SIGKILL)
        elif kind == "stop_worker":
            os.kill(pid, signal.SIGSTOP)
            self.later(lasts, (continue_process, pid))
        elif kind == "kill_agent":
            lab.kill_agent(node)
            self.later(lasts, (lab.start_agent, node))
        elif kind == "power_off":
            host.power_off()
            self.later(lasts, (host.power_on,), (lab.start_agent, node))
        elif kind == "cut_link":
            host.plug(False)
            self.later(lasts, (self.unless_newer((node, "plug"), host.plug), True))
        elif kind == "slow_link":
            rate = fault["rate_bits_per_s"] and f"{fault['rate_bits_per_s']}bit"
            if fault["delay_s"] > 0:
                host.delay(fault["delay_s"], rate)
            else:
                host.limit(rate)
            self.later(lasts, (self.unless_newer((node, "speed"), host.unlimited),))
        elif kind == "kill_controller":
            lab.kill_controller()
            self.later(lasts, (lab.start_controller, False))
        elif kind == "full_disk":
            fill(self.run_directory / "filler")
            self.later(lasts, (self.unless_newer("disk", os.unlink),
                               self.run_directory / "filler"))

    def report(self):
        """The result, in the form of the simulator's report."""
        status = self.status()
        self.steps.look()
        for line in self.cluster.call("events", "scenario", "--json").splitlines():
            self.attempts.take(line)
        gangs = self.attempts.gangs
        recorded = status.get("faults", [])
        faults = self.steps.faults
        causes = causes_of(self.scenario["faults"], faults, recorded)
        return {"side": "measured", "state": status["state"], "reason": status.get("reason", ""),
                "restarts": status["restarts"], "last_step": status["highest_step"],
                "steps_taken": self.steps.taken,
                "gangs": [gangs[attempt] for attempt in sorted(gangs)],
                "faults": [{"fault": fault["fault"], "target": fault["target"],
                            "node": fault["node"], "time_s": fault["at"] - self.steps.first_at,
                            "step": fault["step"], "new_step_s": fault["new_step_s"],
                            "steps_again": fault["steps_again"], "causes": names}
                           for fault, names in zip(faults, causes)],
                "recorded": recorded, "violations": self.violations()}

    def violations(self):
        """What the workers' own records show: each step and sample counts once, and the weights
        are those of a run without faults."""
        steps = self.scenario["steps"]
        records, ends = fault_records.read(self.folder / "work/records")
        history = fault_records.History(records)
        found = fault_records.check(history, steps, steps * self.batch, self.batch)
        violations = [f"{found[what]} {what.replace('_', ' ')}"
                      for what in ("lost", "repeated", "incomplete_steps") if found[what]]
        data = fault_worker.Data(steps * self.batch, self.batch, SEED)
        expected = (steps, fault_worker.expected_weights(data, steps).tobytes().hex())
        if len(ends) != self.workers or any(end != expected for end in ends.values()):
            violations.append("the weights differ from those of a run without faults")
        return violations


def at_the_same_moment(faults):
    """Lists of faults, of which each but the first happens no time after the one before it."""
    together = []
    for fault in faults:
        if fault.get("after_s") == 0:
            together[-1].append(fault)
        else:
            together.append([fault])
    return together


def causes_of(planned, faults, recorded):
    """For each fault that happened the causes that the controller recorded for it, by the rule of
    the simulator (CausesOf in scenario_run.h)."""
    causes = [[] for _ in faults]
    for one in recorded:
        happened = [i for i, fault in enumerate(faults)
                    if fault["at"] <= int(one["detected_at_ns"]) * 1e-9]
        same = [i for i in happened if faults[i]["node"] and
                (planned[i]["rank"] == one["rank"] if planned[i]["node"] == 0 and one["rank"] >= 0
                 else faults[i]["node"] == one["node"])]
        if happened:
            causes[(same or happened)[-1]].append(f"{one['class_name']}: {one['what']}")
    return causes


def continue_process(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it was ended meanwhile


def network_command(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)


def fill(path):
    """Writes until the disk is full."""
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            pass


def measure(longhaul, library, scenario):
    """The report of a run in the laboratory."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="scenario-"))
    run = None
    try:
        run = Run(longhaul, library, scenario, folder)
        run.run()
        return run.report()
    finally:
        if run:
            run.close()
        shutil.rmtree(folder, ignore_errors=True)


def what_must_agree(report):
    """What does not depend on times. Nodes are numbered in the order in which the job used them,
    because the controller may choose any of those that are alike."""
    numbers = {}
    gangs = [[numbers.setdefault(node, len(numbers) + 1) for node in gang]
             for gang in report["gangs"]]
    return {"state": report["state"].lower(), "restarts": report["restarts"],
            "last step": int(report["last_step"]), "nodes of the attempts": gangs,
            "kinds of causes": sorted(one["class_name"] for one in report["recorded"]),
            "violations": report["violations"]}


def differences(simulated, measured):
    one, other = what_must_agree(simulated), what_must_agree(measured)
    return [f"{key}: simulated {one[key]}, measured {other[key]}" for key in one
            if one[key] != other[key]]


def seconds(value):
    return "-" if value is None else f"{value:.3f} s"


def print_report(report):
    print(f"{report['side']}: {report['state'].lower()}, {report['restarts']} restarts, last step "
          f"{report['last_step']}, {report['steps_taken']} steps taken"
          + "".join(f"; VIOLATED: {text}" for text in report["violations"]))
    print(f"{'time':>10}  {'step':>5}  {'fault':28}  {'new step':>10}  {'again':>5}  causes")
    for fault in report["faults"]:
        name = f"{fault['fault']} {fault['target']}".strip()
        print(f"{seconds(fault['time_s']):>10}  {fault['step']:5}  {name:28}  "
              f"{seconds(fault['new_step_s']):>10}  {fault['steps_again']:5}  "
              f"{'; '.join(fault['causes']) or 'none'}")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--longhaul", default=f"{ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--library", help="liblonghaul.so (default: beside --longhaul's build)")
    parser.add_argument("--compare", action="store_true",
                        help="print the simulator's report too; exit with 1 if they disagree")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each file")
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    build = pathlib.Path(arguments.longhaul).parents[1]
    arguments.library = os.path.abspath(arguments.library or build / "worker_api/liblonghaul.so")
    for file in [arguments.longhaul, arguments.library, *arguments.files]:
        if not os.path.exists(file):
            parser.error(f"{file} does not exist")
    return arguments


def main():
    arguments = parse_arguments()
    if missing := cluster.network.why_not():
        sys.exit(f"scenario.py: SKIPPED: {missing}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the hosts end with it
    failed = False
    for file in arguments.files:
        simulated = simulate(arguments.longhaul, file)
        load = os.getloadavg()[0]
        measured = measure(arguments.longhaul, arguments.library, simulated["scenario"])
        found = differences(simulated, measured) if arguments.compare else []
        failed = failed or bool(found or measured["violations"])
        measured.update(load_average_before=load, load_average_after=os.getloadavg()[0],
                        cores=os.cpu_count())
        if arguments.json:
            result = {"scenario": simulated["scenario"], "measured": measured}
            if arguments.compare:
                result.update(simulated=simulated, differences=found)
            print(json.dumps(result), flush=True)
            continue
        print(f"{file}: {os.cpu_count()} cores, load average {load:.1f} before, "
              f"{measured['load_average_after']:.1f} after")
        for report in [simulated, measured] if arguments.compare else [measured]:
            print_report(report)
        for difference in found:
            print(f"DIFFERENT {difference}")
        print(flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
