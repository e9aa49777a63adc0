"""What the tests of whole runs share: a folder with the programs, small data and a tiny job."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

JOB = """
name: tiny
model: {layers: 1, hidden: 32, heads: 2, sequence: 32}
data: {include: [data/*.txt], held_out: 0.1}
train: {steps: 30, global_batch: 8, warmup_steps: 5, evaluate_every: 10, evaluate_sequences: 8}
snapshot: {interval_steps: 10}
resources: {nodes: 2, processes_per_node: 2}
"""
MARKER = "LONGHAUL_TEST_MARKER"


class Lab:
    """A folder that runs continue in. Each process that they start carries a marker."""

    def __init__(self, programs):
        self.folder = tempfile.mkdtemp(prefix="local-run-")
        self.marker = f"{MARKER}={uuid.uuid4()}"
        # The agent looks for the trainer beside its own program.
        for program in programs:
            shutil.copy(program, self.folder)
        os.mkdir(f"{self.folder}/data")
        for i in range(40):
            # 30 steps use this text several times over.
            with open(f"{self.folder}/data/{i}.txt", "w") as file:
                file.writelines(f"line {i * j} of a text that repeats itself\n" for j in range(2))
        with open(f"{self.folder}/tiny.yaml", "w") as file:
            file.write(JOB)

    def close(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def start(self, name, *options, output=subprocess.PIPE):
        """`longhaul run` of the tiny job in runs/NAME, in the background.

        A pipe that nobody reads holds 64 KiB, and the run waits once it is full.
        """
        key, value = self.marker.split("=")
        return subprocess.Popen(
            ["./longhaul", "run", "tiny.yaml", "--run-dir", f"runs/{name}", *options],
            cwd=self.folder, env={**os.environ, key: value}, stdout=output,
            stderr=subprocess.STDOUT, text=True)

    def run(self, name, *options, timeout=90):
        """Runs it to its end. Returns the report; raises AssertionError when it goes wrong."""
        run = self.start(name, *options)
        output, _ = run.communicate(timeout=timeout)
        if run.returncode != 0:
            raise AssertionError(f"exit code {run.returncode}\n{output}")
        return self.report(name)

    def report(self, name):
        with open(f"{self.folder}/runs/{name}/report.json") as file:
            return json.load(file)

    def notifications(self, name):
        """The notifications so far: whole lines of events.jsonl."""
        try:
            with open(f"{self.folder}/runs/{name}/events.jsonl") as file:
                lines = file.read().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def last_step(self, name):
        steps = [notification["step"]["step"] for notification in self.notifications(name)
                 if notification["type"] == "step"]
        return max(steps, default=0)

    def processes(self):
        """The pids of what runs with this folder's marker."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.marker.encode() in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found


def await_that(condition, what, seconds=60):
    """Polls until condition() holds and returns what it gave. `what`: a text, or a function that
    is asked when time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"waited {seconds} s in vain: {what() if callable(what) else what}")
