"""A Slurm cluster of real daemons on this machine, for tests: munged, slurmctld and some slurmd.

Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge (`missing` says what is
not there). Everything lies in one folder, on free ports of 127.0.0.1; the nodes n1, n2, ... are
all this machine, two on each leaf switch. Those of a leaf switch have its feature: leaf0, leaf1, ...
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from free_ports import free_ports  # noqa: E402

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel"]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=1
SlurmdTimeout={slurmd_timeout}
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
"""


def missing():
    """What this machine lacks, as a text; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"{lacking[0]} (packages slurmctld slurmd slurm-client munge)"
    return ""


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 1


def is_step_manager(pid):
    try:
        return b"slurmstepd" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class SlurmCluster:
    """Daemons that run from `start` to `stop`. `folder` must be empty and private."""

    def __init__(self, folder, nodes=4, slurmd_timeout=3):
        self.folder = pathlib.Path(folder)
        self.slurmd_timeout = slurmd_timeout  # seconds until a silent node is DOWN
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemons = {}

    def start(self):
        for name in ["state", "spool"]:
            (self.folder / name).mkdir()
        host = socket.gethostname().split(".")[0]
        port, *ports = free_ports(1 + len(self.names))
        lines = [CONFIGURATION.format(host=host, port=port, folder=self.folder,
                                      slurmd_timeout=self.slurmd_timeout)]
        for number, (name, own) in enumerate(zip(self.names, ports)):
            lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} "
                         f"CPUs=8 RealMemory=100000 Feature=leaf{number // 2}\n")
        lines.append("PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE\n")
        (self.folder / "slurm.conf").write_text("".join(lines))
        leaves = [self.names[i:i + 2] for i in range(0, len(self.names), 2)]
        tree = [f"SwitchName=leaf{i} Nodes={','.join(leaf)}\n" for i, leaf in enumerate(leaves)]
        tree.append(f"SwitchName=spine Switches=leaf[0-{len(leaves) - 1}]\n")
        (self.folder / "topology.conf").write_text("".join(tree))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._daemon("munged", ["munged", "--foreground", "--force", f"--key-file={key}"] + [
            f"--{what}={self.folder}/munge.{what.split('-')[0]}"
            for what in ["socket", "pid-file", "log-file", "seed-file"]])
        self._await(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._daemon("slurmctld", ["slurmctld", "-D", "-i", "-f", str(self.folder / "slurm.conf")])
        for name in self.names:
            self.start_node(name)
        self._await(lambda: self.states() == ["idle"] * len(self.names), "the nodes")

    def start_node(self, name):
        self._daemon(name, ["slurmd", "-D", "-N", name, "-f", str(self.folder / "slurm.conf")])

    def stop(self):
        """Ends all jobs, the daemons, and what they have left behind."""
        try:
            for number in self.call("squeue", "-h", "-o", "%i").split():
                self.call("scancel", "--signal=KILL", "--full", number)
        except (RuntimeError, subprocess.TimeoutExpired):
            pass
        for name in reversed(list(self.daemons)):
            self.daemons[name].send_signal(signal.SIGTERM)
        for daemon in self.daemons.values():
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def processes(self):
        """The processes that jobs of this cluster have started, also those of dead daemons."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                 if entry.name.isdigit() and mark in environment_of(entry.name)]
        return [pid for pid in found if pid != os.getpid()]

    def kill(self, name):
        """kill -9 of a daemon; what it has started lives on."""
        self.daemons[name].kill()
        self.daemons[name].wait()

    def kill_machine(self, name):
        """kill -9 of a node's slurmd and of all that it has started, as if the machine were off."""
        self.kill(name)
        mark = f"SLURMD_NODENAME={name}".encode()
        tasks = [pid for pid in self.processes() if mark in environment_of(pid)]
        managers = {parent_of(pid) for pid in tasks} - {1, os.getpid()}
        for pid in [pid for pid in managers if is_step_manager(pid)] + tasks:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def call(self, *argv):
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr}{done.stdout}")
        return done.stdout

    def states(self):
        try:
            return sorted(self.call("sinfo", "-h", "-N", "-o", "%t").split())
        except RuntimeError:
            return []

    def job(self, number):
        """State and nodes of a job, such as ("RUNNING", "n[1-2]")."""
        line = self.call("squeue", "-h", "--states=all", f"--jobs={number}", "-o", "%T|%N")
        state, nodes = line.strip().split("|")
        return state, nodes

    def _daemon(self, name, argv):
        log = open(self.folder / f"{name}.out", "ab")
        # A session of its own, so that a test's Ctrl-C reaches it through `stop`.
        self.daemons[name] = subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL, start_new_session=True)
        log.close()

    def _await(self, ready, what):
        deadline = time.monotonic() + 60
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not start within 60 s: see {self.folder}")
            time.sleep(0.1)
