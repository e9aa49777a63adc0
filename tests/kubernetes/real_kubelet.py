"""A real node for tests: kubelet, containerd and runc, beside an API server of the test.

It needs root, the kubelet of tools/kubernetes_environment, and Debian's packages containerd, runc,
containernetworking-plugins and busybox-static. Nothing is pulled: images come from archives.
"""

import hashlib
import io
import ipaddress
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tarfile
import time

from free_ports import free_ports

PLUGINS = pathlib.Path("/usr/lib/cni")
BUSYBOX = pathlib.Path("/bin/busybox")
PAUSE = "longhaul.test/pause:1"
READY_SECONDS = 60
NAMESPACE = "k8s.io"  # of containerd, for the images and containers of a kubelet

CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "{run}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE, runc cannot lower the score of a container.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""


def reason_to_skip():
    """Why a real node cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    for name in ("containerd", "ctr", "runc"):
        if shutil.which(name) is None:
            return f"{name} is not installed: apt-get install containerd runc"
    if not (PLUGINS / "bridge").exists():
        return "apt-get install containernetworking-plugins"
    if not BUSYBOX.exists() or b"/ld-linux" in BUSYBOX.read_bytes():
        return "apt-get install busybox-static"
    return ""


def write_image(path, name, entrypoint):
    """An archive with an image that holds busybox alone, as `docker save` writes it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as file:
        for folder in ("bin", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            file.addfile(entry)
        file.add(BUSYBOX.resolve(), "bin/busybox")
        for command in ("sh", "cp", "cat", "sleep", "test", "ls"):
            entry = tarfile.TarInfo(f"bin/{command}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            file.addfile(entry)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer.getvalue())]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name],
                            "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as file:
        for member, content in (("config.json", config), ("layer.tar", layer.getvalue()),
                                ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class RealKubelet:
    """A node, as a context manager. archives: of images that its pods use, by name or not."""

    def __init__(self, binaries, server, name, archives=(), labels=None):
        self.binaries = binaries
        self.server = server
        self.name = name
        self.archives = list(archives)
        self.labels = labels or {}
        self.folder = server.folder / name
        # Paths of sockets are short.
        self.run_folder = pathlib.Path(f"/run/longhaul-test-{os.getpid()}-{name}")
        self.socket = self.run_folder / "c.sock"
        self.processes = []
        # Addresses of documentation and of tests: 198.18.0.0/15 (RFC 2544).
        third = random.randrange(256)
        self.network = ipaddress.ip_network(f"198.19.{third}.0/24")
        self.bridge = f"lh-test-{third}"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def spawn(self, name, *words):
        with open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
        self.processes.append((name, process))

    def wait_for(self, done, what):
        deadline = time.monotonic() + READY_SECONDS
        while not done():
            for name, process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended: {self.last_lines(name)}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {READY_SECONDS} s: "
                                     + self.last_lines(self.processes[-1][0]))
            time.sleep(0.1)

    def last_lines(self, name):
        return "\n".join((self.folder / f"{name}.log").read_text().splitlines()[-8:])

    def ctr(self, *words):
        done = subprocess.run(["ctr", "--address", self.socket, "--namespace", NAMESPACE, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def start(self):
        self.folder.mkdir()
        self.run_folder.mkdir(mode=0o700)
        self.write_network()
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder, run=self.run_folder, pause=PAUSE,
                                            socket=self.socket, plugins=PLUGINS))
        self.spawn("containerd", "containerd", "--config", config)
        self.wait_for(lambda: subprocess.run(["ctr", "--address", self.socket, "version"],
                                             capture_output=True).returncode == 0, "containerd")
        pause = self.folder / "pause.tar"
        write_image(pause, PAUSE, ["/bin/sleep", "2147483647"])
        for archive in (pause, *self.archives):
            self.ctr("images", "import", archive)
        self.start_kubelet()
        self.wait_for(self.is_ready, f"the node {self.name}")

    def write_network(self):
        folder = self.folder / "cni"
        folder.mkdir()
        bridge = {"type": "bridge", "bridge": self.bridge, "isGateway": True, "hairpinMode": True,
                  "ipam": {"type": "host-local", "dataDir": str(self.folder / "addresses"),
                           "ranges": [[{"subnet": str(self.network)}]],
                           "routes": [{"dst": "0.0.0.0/0"}]}}
        (folder / "10-test.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": "test", "plugins": [bridge]}))

    def start_kubelet(self):
        self.port, health = free_ports(2)
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps({
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "containerRuntimeEndpoint": f"unix://{self.socket}", "failCgroupV1": False,
            "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [],
            "failSwapOn": False, "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False, "evictionHard": {"memory.available": "1Mi"},
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "address": "127.0.0.1", "port": self.port,
            "healthzPort": health, "registerNode": True, "podLogsDir": str(self.folder / "logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # The files of a pod follow its annotations with this period.
            "syncFrequency": "10s"}))
        labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
        self.spawn("kubelet", self.binaries / "kubelet", f"--config={config}",
                   f"--kubeconfig={self.server.kubeconfig}", f"--hostname-override={self.name}",
                   f"--root-dir={self.folder / 'kubelet'}", f"--cert-dir={self.folder / 'pki'}",
                   f"--node-labels={labels}")

    def is_ready(self):
        status, node = self.server.send("GET", f"/api/v1/nodes/{self.name}")
        return status == 200 and any(each["type"] == "Ready" and each["status"] == "True"
                                     for each in node["status"].get("conditions", []))

    def containers(self, pod, container):
        """The ids of the running containers of this name in this pod."""
        query = (f'labels."io.kubernetes.pod.name"=={pod},'
                 f'labels."io.kubernetes.container.name"=={container}')
        return self.ctr("containers", "list", "--quiet", query).split()

    def processes_in(self, pod, container):
        """Process ids on this machine, with their command lines."""
        found = {}
        for each in self.containers(pod, container):
            lines = self.ctr("tasks", "ps", each).splitlines()[1:]
            for pid in (int(line.split()[0]) for line in lines):
                try:
                    found[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue  # it has ended
        return found

    def runs(self, name):
        return any(each == name and process.poll() is None for each, process in self.processes)

    def remove_pods(self):
        """Lets the kubelet remove all pods, with their networks."""
        pods = self.server.items(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")
        for pod in pods:
            meta = pod["metadata"]
            self.server.send("PATCH",
                             f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                             {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            self.server.send("DELETE",
                             f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                             {"gracePeriodSeconds": 0})
        deadline = time.monotonic() + READY_SECONDS
        while self.ctr("tasks", "list", "--quiet").split() and time.monotonic() < deadline:
            time.sleep(0.1)

    def stop(self):
        """Ends kubelet, containers and containerd, and removes what they have made."""
        if self.runs("kubelet") and self.runs("containerd"):
            self.remove_pods()
        self.end("kubelet")
        if self.runs("containerd"):
            for each in self.ctr("tasks", "list", "--quiet").split():
                subprocess.run(["ctr", "--address", self.socket, "--namespace", NAMESPACE, "tasks",
                                "kill", "--signal", "SIGKILL", "--all", each], capture_output=True)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                tasks = self.ctr("tasks", "list", "--quiet").split()
                if not tasks:
                    break
                for each in tasks:
                    subprocess.run(["ctr", "--address", self.socket, "--namespace", NAMESPACE,
                                    "tasks", "delete", "--force", each], capture_output=True)
        self.end("containerd")
        self.end_shims()
        for mount in self.mounts():
            subprocess.run(["umount", "--lazy", mount], capture_output=True)
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True)
        shutil.rmtree(self.run_folder, ignore_errors=True)
        for group in pathlib.Path("/sys/fs/cgroup").glob(f"*/{NAMESPACE}"):
            try:
                group.rmdir()
            except OSError:
                continue  # somebody else's containers are in it

    def end_shims(self):
        """Processes of containerd that outlive it."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if b"containerd-shim" in words and str(self.socket).encode() in words:
                os.kill(int(entry.name), signal.SIGKILL)

    def mounts(self):
        """Mounts below the folders of this node, the inner ones first."""
        lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
        points = [line.split()[1] for line in lines]
        return [point for point in reversed(points)
                if point.startswith((f"{self.folder}/", f"{self.run_folder}/"))]

    def end(self, name):
        for each, process in self.processes:
            if each == name and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
