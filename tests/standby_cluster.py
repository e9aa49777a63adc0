"""Controllers that share an event log in PostgreSQL, their agents and a job of the built-in trainer,
for tests and for bench/recovery/takeover.py."""
import json
import os
import subprocess

import free_ports
import local_run

STEPS = 1500  # enough that training outlasts the fault
JOB = """
name: standby
model: {{layers: 1, hidden: 32, heads: 2, sequence: 32}}
data: {{include: [data/*.txt], held_out: 0.1}}
train: {{steps: {steps}, global_batch: 8, warmup_steps: 5, evaluate_every: 0}}
snapshot: {{interval_steps: 50}}
resources: {{nodes: 2, processes_per_node: 1}}
"""


class Cluster:
    """A database, and controllers and agents that the test starts."""

    def __init__(self, programs, server, database, steps=STEPS):
        self.lab = local_run.Lab(programs)
        self.folder = self.lab.folder
        with open(f"{self.folder}/standby.yaml", "w") as file:
            file.write(JOB.format(steps=steps))
        self.secret("token", "5" * 64)
        self.server, self.database = server, database
        server.sql(f"CREATE DATABASE {database}", "postgres")
        self.ports = free_ports.free_ports(4)
        self.processes = []

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.lab.close()

    def secret(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(f"{text}\n")
        os.chmod(f"{self.folder}/{name}", 0o600)

    def sql(self, query):
        return self.server.sql(query, self.database)

    def term(self):
        return int(self.sql("SELECT term FROM longhaul.leader"))

    def address(self, proxy=None):
        return self.server.address(proxy, self.database)

    def start(self, name, *arguments):
        key, value = self.lab.marker.split("=")
        with open(f"{self.folder}/{name}.out", "a") as output:
            process = subprocess.Popen(["./longhaul", *arguments], cwd=self.folder, stdout=output,
                                       stderr=output, env={**os.environ, key: value})
        self.processes.append(process)
        return process

    def output(self, name):
        with open(f"{self.folder}/{name}.out") as file:
            return file.read()

    def controller(self, number, until, address=None, token="token"):
        """Starts a controller and waits until it prints `until`, one time more than before."""
        rest, agents = self.ports[2 * number:2 * number + 2]
        name = f"controller-{number}"
        with open(f"{self.folder}/{name}.out", "a"):
            before = self.output(name).count(until)
        process = self.start(name, "controller", "--state-dir", name, "--token-file", token,
                             "--rest", f"127.0.0.1:{rest}", "--agents", f"127.0.0.1:{agents}",
                             "--log", address or self.address())
        local_run.await_that(
            lambda: self.output(name).count(until) > before or process.poll() is not None,
            lambda: self.output(name))
        return process

    def leader(self, number, address=None):
        return self.controller(number, "controller ready", address)

    def standby(self, number):
        return self.controller(number, "controller stands by")

    def await_leader(self, number):
        """Waits until a controller that has stood by leads."""
        name = f"controller-{number}"
        local_run.await_that(
            lambda: self.output(name).rfind("controller ready")
            > self.output(name).rfind("controller stands by"), lambda: self.output(name))

    def client(self, *arguments):
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports[0::2])
        done = subprocess.run(["./longhaul", *arguments, "--controller", addresses, "--token-file",
                               "token"], cwd=self.folder, capture_output=True, text=True,
                              timeout=180)
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def step(self):
        """The newest step in the log."""
        query = ("SELECT count(*) FROM longhaul.notifications WHERE kind = 'step' AND "
                 "job_id <> ''")
        return int(self.sql(query))

    def await_more_steps(self, steps=20):
        wanted = self.step() + steps
        local_run.await_that(lambda: self.step() >= wanted, lambda: f"{self.step()} of {wanted}")

    def begin(self):
        """Two agents and the job, until it steps."""
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports[1::2])
        for number in (1, 2):
            self.start(f"agent-{number}", "agent", "--controller", addresses, "--token-file",
                       "token", "--node", f"node-{number}", "--state-dir", f"agent-{number}",
                       "--allow-root")
        local_run.await_that(lambda: self.client("nodes").count("ready") == 2, "both nodes")
        self.client("submit", "standby.yaml", "--run-directory", "run")
        self.await_more_steps()

    def history(self):
        """Waits for the job's end. Returns the notifications of the job, from whoever leads."""
        out = self.client("events", "standby", "--follow", "--json")
        return [json.loads(line)["data"] for line in out.splitlines()]


def steps_of(history):
    return [(each["step"]["step"], each["step"]["loss"]) for each in history if "step" in each]
