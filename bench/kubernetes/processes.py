"""The processes of the benchmark: schedulers, the load on them, and the raw binds."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

from cases import GPUS_ON_A_NODE

STOP_SECONDS = 15
LIMIT_SECONDS = 900  # for the binds of one run
# A scheduler is at rest when it uses less than 2 % of a core in two windows one after the other.
WINDOW_SECONDS = 0.25
QUIET_SHARE = 0.02
REST_LIMIT_SECONDS = 30


class Failure(Exception):
    """The measurement cannot be made; the text names the cause."""


def last_lines(path, count=5):
    lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-count:]) or "  (its log is empty)"


def process_cpu_seconds(pid):
    """The CPU time of all threads of a process, as /proc/PID/stat has it, but in nanoseconds."""
    # The id of another process's CPU clock, as clock_getcpuclockid(3) computes it.
    return time.clock_gettime(~pid << 3 | 2)


def start_process(words, **streams):
    """Starts a process. An interruption meanwhile ends it, instead of leaving it behind."""
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    process = None
    try:
        process = subprocess.Popen(words, **streams, preexec_fn=lambda: signal.pthread_sigmask(
            signal.SIG_SETMASK, before))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # where a handler raises
        return process
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if process is not None:
            process.kill()
            process.wait()
        raise


class RunningScheduler:
    """A scheduler from its start to its end, as a context manager."""

    def __init__(self, scheduler, folder):
        self.scheduler = scheduler
        self.log = pathlib.Path(folder) / f"{scheduler.name}.log"

    def __enter__(self):
        with open(self.log, "w") as log:
            self.started_at = time.monotonic()
            try:
                self.process = start_process(self.scheduler.words, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log)
            except OSError as error:
                raise Failure(f"cannot start {self.scheduler.words[0]}: "
                              f"{error.strerror}") from error
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()

    def check(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.scheduler.title} has ended with exit code "
                          f"{self.process.returncode}, command: {' '.join(self.scheduler.words)}\n"
                          f"{last_lines(self.log)}")

    def cpu_seconds(self):
        self.check()
        return process_cpu_seconds(self.process.pid)

    def rest(self, at_least_s):
        """Waits until the scheduler does nothing any more; returns its CPU time."""
        start = time.monotonic()
        before, quiet = self.cpu_seconds(), 0
        while quiet < 2 or time.monotonic() - start < at_least_s:
            time.sleep(WINDOW_SECONDS)
            now = self.cpu_seconds()
            quiet = quiet + 1 if now - before < QUIET_SHARE * WINDOW_SECONDS else 0
            before = now
            if time.monotonic() - start > REST_LIMIT_SECONDS:
                break
        return before

    def stop(self):
        """Ends it as an administrator would."""
        self.check()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.scheduler.title} has not ended {STOP_SECONDS} s after SIGTERM:\n"
                          f"{last_lines(self.log)}") from None


class Load:
    """Pods that are created for a scheduler, and what one watch sees of them (kubernetes_load)."""

    def __init__(self, program, kubeconfig, case, scheduler, prefix, limit_s=LIMIT_SECONDS):
        self.words = [program, "pods", kubeconfig, str(case.pods), "--prefix", prefix,
                      "--scheduler", scheduler.scheduler_name, "--limit-s", str(limit_s)]
        if case.gang_size:
            self.words += ["--gangs", scheduler.gangs, "--gang-size", str(case.gang_size)]
        if case.arrivals_per_s:
            self.words += ["--arrivals-per-s", str(case.arrivals_per_s)]

    def __enter__(self):
        # Without a buffer: one would hide from select that a second report has come with the first.
        self.process = start_process(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     bufsize=0)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def event(self, name, running=None):
        """The next report, which must have this name. Fails when the scheduler ends before it."""
        while not select.select([self.process.stdout], [], [], 0.5)[0]:
            if running:
                running.check()
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"kubernetes_load has ended with exit code {self.process.wait()} before "
                          f"it reported '{name}'; its error is above")
        report = json.loads(line)
        assert report["event"] == name, report
        return report

    def delete(self):
        """Deletes the pods and waits for the end of the program."""
        self.process.stdin.close()
        if self.process.wait(LIMIT_SECONDS) != 0:
            raise Failure("kubernetes_load could not delete its pods; its error is above")


def check_binds(report, case, running):
    """Fails when the scheduler has not done its work, because its rate would mean nothing."""
    title = running.scheduler.title
    if report["bound"] < report["pods"]:
        raise Failure(f"{title} has bound {report['bound']} of {report['pods']} pods of the case "
                      f"{case.name} within the limit:\n{last_lines(running.log)}")
    if report["most_pods_on_a_node"] > GPUS_ON_A_NODE:
        raise Failure(f"{title} has bound {report['most_pods_on_a_node']} pods of one GPU to a "
                      f"node with {GPUS_ON_A_NODE} GPUs")
    if report["partly_bound_gangs"]:
        raise Failure(f"{title} has bound only a part of {report['partly_bound_gangs']} gangs")


def run_program(words):
    """Runs a program of ours to its end and returns what it prints."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except OSError as error:
        raise Failure(f"cannot start {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{words[0]} has not ended within {LIMIT_SECONDS} s") from error
    if done.returncode != 0:
        raise Failure(f"{os.path.basename(words[0])} has ended with exit code {done.returncode}: "
                      f"{done.stderr.strip()}")
    return done.stdout


def raw_binds(program, kubeconfig, nodes, pods):
    """The ceiling: binds that no scheduler decides, with a watch of pods open."""
    text = run_program([program, kubeconfig, str(nodes), str(pods)])
    found = re.match(r"\d+ binds in ([\d.]+) s: .* client CPU ([\d.]+) ms a bind, (\d+) refused",
                     text)
    if not found:
        raise Failure(f"kubernetes_bind_rate has printed {text!r}, which has no rate")
    if int(found[3]):
        raise Failure(f"the API server has refused {found[3]} calls of kubernetes_bind_rate")
    seconds = float(found[1])
    return {"scheduler": "ceiling", "seconds": seconds, "pods_per_s": pods / seconds,
            "cpu_ms_per_pod": float(found[2])}
