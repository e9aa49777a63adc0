#!/usr/bin/env python3
"""Measure how fast pod schedulers bind pods through the real kube-apiserver.

  bench/kubernetes/scheduling.py [--cases NAME,...] [--schedulers NAME,...] [--rounds N]
      [--longhaul PROGRAM] [--longhaul-arguments=TEXT] [--programs FOLDER] [--json] [--smoke]

Each case starts its own kube-apiserver and etcd, creates nodes, and warms the server with 4,000
creates, binds and deletes. Then the following are measured alternately:

  ceiling   binds that no scheduler decides, over 16 connections, with a watch of all pods open
  default   the stock kube-scheduler with its default flags (one run of each case, it is slow)
  tuned     the same with --kube-api-qps=5000 --kube-api-burst=5000
  longhaul  longhaul kube schedule

Cases:

  backlog   1,000 one-GPU pods for 500 nodes exist before the scheduler starts
  large     5,000 pods, 5,000 nodes
  gangs     125 gangs of 8 pods, 500 nodes; for Longhaul the label scheduling.x-k8s.io/pod-group
            and a PodGroup, for the stock scheduler its own gangs (feature gate GenericWorkload)
  arrivals  500 nodes; 200 pods are created each second for 10 s while the scheduler runs

The rate is of the time from the first bind to the last one, as one watch sees them. The CPU time of
the scheduler is that of the whole run, without the CPU time of a run with the same nodes and
without pods. "Of ceiling" and "x tuned" are ratios to the runs of the same round. The figures
depend on what else the machine does, so the load average is printed.

examples:
  tools/kubernetes_environment kube-apiserver etcd kube-scheduler   # once, about 15 CPU minutes
  cmake --preset release
  ninja -C build/release kubernetes_load kubernetes_bind_rate longhaul
  bench/kubernetes/scheduling.py                                   # all cases, about 20 minutes
  bench/kubernetes/scheduling.py --cases backlog --schedulers tuned,longhaul --rounds 5
  bench/kubernetes/scheduling.py --longhaul /usr/bin/longhaul --longhaul-arguments='--option value'
  bench/kubernetes/scheduling.py --json > result.json
  bench/kubernetes/scheduling.py --smoke                           # whether everything works

Exit codes: 0 success (also when a goal is not reached), 1 failure, 2 wrong usage.
"""

import argparse
import json
import os
import pathlib
import platform
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "kubernetes"))
import cases  # noqa: E402
from api_server import TOKEN, ApiServer, programs  # noqa: E402
from processes import (Failure, Load, RunningScheduler, check_binds, last_lines,  # noqa: E402
                       raw_binds, run_program)
from report import case_lines, judge, summarise  # noqa: E402

SCHEDULERS = ("default", "tuned", "longhaul")
LONGHAUL = ROOT / "build" / "release" / "src" / "bin" / "longhaul"
CRD = pathlib.Path(__file__).resolve().parent / "pod_group_crd.json"
# The least time for which a started scheduler is watched before it counts as at rest: it may need
# some time without CPU, for example to get a lease.
START_SECONDS = 2


class Interrupted(BaseException):
    """A signal has requested the end."""


def progress(text):
    print(f"scheduling: {text}", file=sys.stderr, flush=True)


class Cluster:
    """The API server of one case, with its nodes, and the runs on it."""

    def __init__(self, given, case, server, schedulers):
        self.given = given
        self.case = case
        self.server = server
        self.schedulers = schedulers
        self.runs = 0

    def prepare(self):
        case = self.case
        progress(f"{case.name}: creates {case.nodes:,} nodes and warms the API server")
        if case.gang_size:
            self.prepare_gangs()
        run_program([self.given.load, "nodes", self.server.kubeconfig, str(case.nodes)])
        raw_binds(self.given.bind_rate, self.server.kubeconfig, case.nodes, case.warming_binds)

    def prepare_gangs(self):
        if any(each.gangs == "kubernetes" for each in self.schedulers):
            self.require(cases.GANG_API, "this release of Kubernetes has no gangs of this version: "
                         "measure with `--schedulers longhaul`")
        if any(each.gangs == "coscheduling" for each in self.schedulers):
            try:
                self.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                             CRD.read_bytes())
            except urllib.error.HTTPError as error:
                raise Failure(f"the API server refuses {CRD}: {error.read().decode()}") from error
            self.require(cases.COSCHEDULING_API, f"it does not serve {CRD}")

    def request(self, method, path, body=None):
        """The JSON that the API server answers."""
        context = ssl._create_unverified_context()  # its certificate is its own, on this machine
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.server.port}{path}", method=method, data=body,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=context, timeout=30) as response:
            return json.load(response)

    def require(self, api, remedy):
        """Waits until the API server serves PodGroups of this API."""
        deadline = time.monotonic() + 10
        while True:
            try:
                names = [each["name"] for each in self.request("GET", f"/apis/{api}")["resources"]]
                if "podgroups" in names:
                    return
            except urllib.error.HTTPError:
                pass  # a new API is served a moment after its definition was created
            if time.monotonic() > deadline:
                raise Failure(f"the API server has no PodGroup of {api}: {remedy}")
            time.sleep(0.1)

    def new_load(self, scheduler):
        self.runs += 1
        return Load(self.given.load, self.server.kubeconfig, self.case, scheduler,
                    f"run{self.runs}")

    def server_cpu_seconds(self):
        return sum(self.server.cpu_seconds(name) for name in ("kube-apiserver", "etcd"))

    def ceiling(self):
        """The median of some runs, because each of them is short."""
        runs = [raw_binds(self.given.bind_rate, self.server.kubeconfig, self.case.nodes,
                          self.case.pods) for _ in range(self.case.ceiling_runs)]
        return sorted(runs, key=lambda run: run["pods_per_s"])[len(runs) // 2]

    def start_up(self, scheduler):
        """The CPU time of a scheduler, and of the server for it, that finds nodes and no pods."""
        server_before = self.server_cpu_seconds()
        with RunningScheduler(scheduler, self.server.folder) as running:
            used = running.rest(START_SECONDS)
            running.stop()
        return used, self.server_cpu_seconds() - server_before

    def backlog(self, scheduler):
        """One run with pods that exist before the scheduler starts."""
        start_cpu, start_server_cpu = self.start_up(scheduler)
        with self.new_load(scheduler) as load:
            load.event("created")
            server_before = self.server_cpu_seconds()
            with RunningScheduler(scheduler, self.server.folder) as running:
                report = load.event("bound", running)
                check_binds(report, self.case, running)
                cpu = running.rest(START_SECONDS)
                running.stop()
            server_cpu = self.server_cpu_seconds() - server_before
            load.delete()
        seconds = report["last_bind_at_s"] - report["first_bind_at_s"]
        pods = self.case.pods
        return {"scheduler": scheduler.name, "seconds": seconds, "pods_per_s": pods / seconds,
                "cpu_ms_per_pod": (cpu - start_cpu) / pods * 1e3, "start_cpu_s": start_cpu,
                "server_cpu_ms_per_pod": (server_cpu - start_server_cpu) / pods * 1e3,
                "first_bind_s": report["first_bind_at_s"] - running.started_at}

    def arrivals(self, scheduler):
        """One run with pods that arrive while the scheduler runs."""
        pods = self.case.pods
        with RunningScheduler(scheduler, self.server.folder) as running:
            start_cpu = running.rest(START_SECONDS)
            server_before = self.server_cpu_seconds()
            with self.new_load(scheduler) as load:
                created = load.event("created", running)
                report = load.event("bound", running)
                check_binds(report, self.case, running)
                cpu = running.rest(0)
                server_cpu = self.server_cpu_seconds() - server_before
                running.stop()
                load.delete()
        reached = (pods - 1) / created["appeared_within_s"]
        if reached < 0.95 * self.case.arrivals_per_s:
            progress(f"arrivals: only {reached:.0f} pods a second could be created, expected "
                     f"{self.case.arrivals_per_s}: this machine is too busy")
        return {"scheduler": scheduler.name, "arrivals_per_s": reached,
                "latency_ms_p50": report["latency_ms_p50"],
                "latency_ms_p99": report["latency_ms_p99"],
                "latency_ms_max": report["latency_ms_max"],
                "cpu_ms_per_pod": (cpu - start_cpu) / pods * 1e3, "start_cpu_s": start_cpu,
                # The creation of the pods is part of it.
                "server_cpu_ms_per_pod": server_cpu / pods * 1e3}

    def measure(self, scheduler):
        return (self.arrivals if self.case.arrivals_per_s else self.backlog)(scheduler)


def describe(sample):
    """A sample for a line of progress."""
    parts = []
    if "pods_per_s" in sample:
        parts.append(f"{sample['pods_per_s']:,.0f} pods/s")
    if "latency_ms_p50" in sample:
        parts.append(f"created to bound p50 {sample['latency_ms_p50']:.1f} ms, "
                     f"p99 {sample['latency_ms_p99']:.1f} ms")
    return ", ".join([*parts, f"CPU {sample['cpu_ms_per_pod']:.3f} ms a pod"])


def measure_rounds(given, cluster):
    """All samples of a case, in the order in which they were measured."""
    samples = []

    def add(number, sample):
        samples.append({"round": number, **sample})
        progress(f"{cluster.case.name}, round {min(number + 1, given.rounds)} of {given.rounds}: "
                 f"{sample['scheduler']} {describe(sample)}; load {os.getloadavg()[0]:.1f}")

    for scheduler in cluster.schedulers:
        if scheduler.once:
            progress(f"{cluster.case.name}: {scheduler.title} runs once, which may take minutes")
            add(0, cluster.measure(scheduler))
    for number in range(given.rounds):
        add(number, cluster.ceiling())
        for scheduler in cluster.schedulers:
            if not scheduler.once:
                add(number, cluster.measure(scheduler))
    add(given.rounds, cluster.ceiling())
    return samples


def schedulers_of(given, case, binaries, kubeconfig):
    chosen = [cases.stock(binaries, kubeconfig, case, tuned=name == "tuned")
              for name in given.schedulers if name != "longhaul"]
    if "longhaul" in given.schedulers:
        chosen.append(cases.longhaul(given.longhaul, given.longhaul_arguments, kubeconfig))
    return chosen


def measure_case(given, case, binaries, titles):
    """Runs a case on a server of its own."""
    flags = []
    if case.gang_size:
        flags = [cases.GANG_GATE, f"--runtime-config={cases.GANG_API}=true"]
    load_before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="scheduling-") as folder:
        server = ApiServer(binaries, folder, flags=flags)
        chosen = schedulers_of(given, case, binaries, server.kubeconfig)
        titles.update({each.name: each.title for each in chosen})
        with server:
            cluster = Cluster(given, case, server, chosen)
            try:
                cluster.prepare()
                samples = measure_rounds(given, cluster)
            except (Failure, urllib.error.URLError) as error:
                for name, process in server.processes:
                    if process.poll() is not None:
                        raise Failure(f"{name} has ended:\n"
                                      f"{last_lines(server.folder / f'{name}.log')}") from error
                raise
    summary = summarise(samples)
    return {"title": case.title(), "load_average_before": load_before,
            "load_average_after": os.getloadavg(), "samples": samples, "summary": summary,
            "goals": judge(case.goals, summary)}


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    models = [line.split(":", 1)[1].strip() for line in text.splitlines()
              if line.startswith("model name")]
    return {"processor": models[0] if models else "unknown", "cores": os.cpu_count(),
            "kernel": platform.release()}


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def has_kube_command(program):
    """Whether this Longhaul can schedule pods of Kubernetes."""
    try:
        done = subprocess.run([program, "kube", "schedule", "--help"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=30)
    except OSError as error:
        raise Failure(f"cannot start {program}: {error.strerror}") from error
    return done.returncode == 0


def leave_out_missing(given):
    """Longhaul is left out where its program cannot schedule."""
    if "longhaul" not in given.schedulers:
        return
    reason = ""
    given.longhaul = given.longhaul or LONGHAUL
    if not given.longhaul.exists():
        reason = f"there is no {given.longhaul}: build it with `ninja -C build/release longhaul`"
    elif not has_kube_command(given.longhaul):
        reason = f"{given.longhaul} has no command `kube schedule`: build a version that has it"
    if not reason:
        return
    progress(f"longhaul is left out, because {reason}")
    given.schedulers = [name for name in given.schedulers if name != "longhaul"]
    if not given.schedulers:
        raise Failure("there is no scheduler to measure")


def choice(parser, option, text, known):
    """The names in a list that is separated by commas, in the order of `known`."""
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{option}: {name!r} is unknown, expected some of {','.join(known)}")
    return [name for name in known if name in names]


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/kubernetes/scheduling.py", usage="%(prog)s [options]",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", metavar="NAME,...", default=",".join(cases.CASES),
                        help="Measure these cases (default: all)")
    parser.add_argument("--schedulers", metavar="NAME,...", default=",".join(SCHEDULERS),
                        help="Measure these schedulers (default: all)")
    parser.add_argument("--rounds", metavar="N", type=int, default=3,
                        help="Measure each case N times, alternately (default: 3)")
    parser.add_argument("--longhaul", metavar="PROGRAM", type=pathlib.Path,
                        help="Measure this built program, not the script ./longhaul, which builds "
                             "first (default: build/release/src/bin/longhaul)")
    parser.add_argument("--longhaul-arguments", metavar="TEXT", type=shlex.split, default=[],
                        help="Add these options to `longhaul kube schedule`; the = is needed where "
                             "they begin with -")
    parser.add_argument("--programs", metavar="FOLDER", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "src" / "engines" / "kubernetes",
                        help="Use kubernetes_load and kubernetes_bind_rate of this folder")
    parser.add_argument("--json", action="store_true",
                        help="Print every sample as JSON instead of the table")
    parser.add_argument("--smoke", action="store_true",
                        help="Use 20 nodes, 40 pods and one round: whether everything works")
    given = parser.parse_args()
    given.cases = [cases.CASES[name] for name in
                   choice(parser, "--cases", given.cases, list(cases.CASES))]
    given.schedulers = choice(parser, "--schedulers", given.schedulers, SCHEDULERS)
    if not 1 <= given.rounds <= 100:
        parser.error(f"--rounds is {given.rounds}, expected 1 to 100")
    if given.smoke:
        given.cases, given.rounds = [each.smaller() for each in given.cases], 1
    if given.longhaul:
        given.longhaul = given.longhaul.absolute()
        if not given.longhaul.is_file():
            parser.error(f"--longhaul: there is no program {given.longhaul}")
    return given


def find_programs(given):
    """The folder of Kubernetes' programs. Fails where something must be built first."""
    for name in ("load", "bind_rate"):
        program = given.programs.absolute() / f"kubernetes_{name}"
        if not program.exists():
            raise Failure(f"there is no {program}: build it with `ninja -C build/release "
                          f"{program.name}`, or name its folder with --programs")
        setattr(given, name, program)
    stock = [] if given.schedulers == ["longhaul"] else ["kube-scheduler"]
    binaries, reason = programs("kube-apiserver", "etcd", *stock)
    if binaries is None:
        raise Failure(reason.removeprefix("kubernetes_environment: "))
    return binaries


def measure(given):
    """Prints the result of all cases."""
    binaries = find_programs(given)
    leave_out_missing(given)
    version = run_program([binaries / "kube-apiserver", "--version"]).split()[-1]
    result = {"command": shlex.join(sys.argv), "commit": commit(), "machine": machine(),
              "kubernetes": version, "rounds": given.rounds, "cases": {}}
    if not given.json:
        print(f"{result['command']}\ncommit {result['commit']}, Kubernetes {version}, "
              f"{result['machine']['cores']} cores of {result['machine']['processor']}", flush=True)
    titles = {"ceiling": "ceiling (raw binds)"}
    for case in given.cases:
        measured = result["cases"][case.name] = measure_case(given, case, binaries, titles)
        if not given.json:
            print("\n" + "\n".join(case_lines(case, titles, measured)) +
                  f"\n  load average {measured['load_average_before'][0]:.1f} before, "
                  f"{measured['load_average_after'][0]:.1f} after, of which the measurement itself "
                  "is a part", flush=True)
    if given.json:
        print(json.dumps(result, indent=1))


def interrupt(number, unused_frame):
    # A second signal must not interrupt the end of the processes.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def main():
    given = arguments()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)
    try:
        measure(given)
    except Interrupted as request:
        progress("interrupted: its processes and data were removed")
        return 128 + request.args[0]
    except (Failure, OSError, RuntimeError, subprocess.SubprocessError) as error:
        progress(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
