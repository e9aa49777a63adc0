"""Hosts on this machine: network namespaces on one switch, with a process namespace each.

A host has an address of its own and its own process numbers; all hosts share the disk, the clock
and the cores. A host can lose its power, and its link can be cut or made slow. Needs root, `ip`,
`tc`, `setpriv`, `unshare` and `nsenter`: `why_not` says what is missing.
"""
import os
import shutil
import signal
import subprocess
import time
import uuid

SUBNET = "10.77.0"
PROGRAMS = ["ip", "tc", "setpriv", "unshare", "nsenter"]
# The first process of a host: the parent of orphans, which it lets go by ignoring SIGCHLD.
FIRST_PROCESS = "echo {name} > /proc/sys/kernel/hostname; trap '' CHLD; exec sleep infinity"


def why_not():
    """Why no hosts can be made here; empty when they can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        Network(["probe"]).close()
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.strip()}"
    return ""


def command(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)


class Host:
    def __init__(self, network, name, address):
        self.network, self.name, self.address = network, name, address
        self.namespace = f"{network.id}-{name}"
        self.first = None
        self.launchers = []  # the nsenter of each process that was started
        command("ip", "netns", "add", self.namespace)
        command("ip", "link", "add", "eth0", "netns", self.namespace, "type", "veth", "peer",
                "name", name, "netns", network.switch)
        command("ip", "-n", network.switch, "link", "set", "dev", name, "master", "switch", "up")
        for words in (["addr", "add", f"{address}/24", "dev", "eth0"],
                      ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            command("ip", "-n", self.namespace, *words)
        self.power_on()

    def power_on(self):
        """Starts the host without processes of its own, and connects its link."""
        self.first = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL",  # all of it ends when this program is killed
             "nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--pid", "--uts",
             "--fork", "--mount-proc", "--kill-child", "sh", "-c",
             FIRST_PROCESS.format(name=self.name)],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        # The process below unshare is the first of the new namespace.
        until = time.monotonic() + 10
        while not self.children() and time.monotonic() < until:
            time.sleep(0.005)
        self.link("up")

    def children(self):
        path = f"/proc/{self.first.pid}/task/{self.first.pid}/children"
        with open(path) as file:
            return file.read().split()

    def start(self, words, **options):
        """A process of the host. Killing it from outside kills `nsenter`, not what it started."""
        pid = self.children()[0]
        self.launchers = [one for one in self.launchers if one.poll() is None]
        child = subprocess.Popen(
            ["nsenter", f"--target={pid}", "--pid", "--uts", "--net", "--mount", f"--wdns={os.getcwd()}",
             *map(str, words)], stdin=subprocess.DEVNULL, **options)
        self.launchers.append(child)
        return child

    def kill(self):
        """Kills all processes at once. The kernel lives and ends their connections."""
        os.kill(int(self.children()[0]), signal.SIGKILL)
        # The namespace ends when they have taken note of the ends of their children. One whose child
        # was stopped has stopped itself.
        for launcher in self.launchers:
            launcher.send_signal(signal.SIGCONT)
        self.first.wait()

    def power_off(self):
        """Cuts the link, then kills all processes: no connection to another host is closed."""
        self.link("down")
        self.kill()

    def processes(self):
        """The pids of the host's processes but the first one, in this machine's count."""
        namespace = os.readlink(f"/proc/{self.children()[0]}/ns/pid")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                    found.append(int(pid))
            except OSError:
                continue
        return [pid for pid in found if pid != int(self.children()[0])]

    def signal_all(self, number):
        """Sends a signal, such as SIGSTOP, to each process."""
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if number == signal.SIGCONT:
            for launcher in self.launchers:
                launcher.send_signal(number)

    def link(self, state):
        """`down` cuts the host off, `up` connects it."""
        command("ip", "-n", self.network.switch, "link", "set", "dev", self.name, state)

    def plug(self, inserted):
        """Without the plug the switch passes nothing from the host and nothing to it. The host's
        interface stays up, so that both take effect at once: the kernel handles interfaces that
        went down or up once a second only."""
        words = ["master", "switch"] if inserted else ["nomaster"]
        command("ip", "-n", self.network.switch, "link", "set", "dev", self.name, *words)

    def limit(self, rate):
        """Lets at most this much a second arrive at the host, such as `2mbit`."""
        command("tc", "-n", self.network.switch, "qdisc", "replace", "dev", self.name, "root",
                "tbf", "rate", rate, "burst", "32kb", "latency", "200ms")

    def delay(self, seconds, rate=None):
        """Delays what arrives at the host, and lets at most `rate` a second arrive. Needs the
        kernel's netem."""
        words = ["rate", rate] if rate else []
        try:
            command("tc", "-n", self.network.switch, "qdisc", "replace", "dev", self.name, "root",
                    "netem", "delay", f"{round(seconds * 1e6)}us", *words)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"no delay of the link of {self.name}: {error.stderr.strip()}: use "
                               "a kernel with CONFIG_NET_SCH_NETEM") from None

    def unlimited(self):
        """Ends limit() and delay()."""
        command("tc", "-n", self.network.switch, "qdisc", "del", "dev", self.name, "root")

    def close(self):
        if self.first.poll() is None:
            self.kill()


class Network:
    """Hosts by name, with the addresses 10.77.0.1 and following."""

    def __init__(self, names):
        self.id = f"lab-{uuid.uuid4().hex[:6]}"
        self.switch = f"{self.id}-switch"
        self.hosts = {}
        try:
            command("ip", "netns", "add", self.switch)
            command("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            command("ip", "-n", self.switch, "link", "set", "switch", "up")
            for number, name in enumerate(names, 1):
                self.hosts[name] = Host(self, name, f"{SUBNET}.{number}")
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name):
        return self.hosts[name]

    def close(self):
        for host in self.hosts.values():
            host.close()
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            if line.startswith(self.id):
                subprocess.run(["ip", "netns", "del", line.split()[0]], capture_output=True)
