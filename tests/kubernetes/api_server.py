"""Starts the real kube-apiserver with its etcd for a test, in a folder of the test's own."""

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from free_ports import free_ports  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOKEN = "test-token"
READY_SECONDS = 60


def programs(*names):
    """The folder with these programs, or the reason why there is none."""
    done = subprocess.run([sys.executable, "-B", ROOT / "tools" / "kubernetes_environment",
                           *names, "--if-made"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return pathlib.Path(done.stdout.strip()), ""


def programs_or_skip(*names):
    """The folder with these programs; without one the test, or the class, is skipped."""
    binaries, reason = programs(*names)
    if binaries is None:
        print(reason)  # the runner does not print why a class is skipped
        raise unittest.SkipTest(reason)
    return binaries


def folder_for(cls):
    """A folder that is removed after the tests of a class."""
    folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


class ApiServer:
    """etcd and kube-apiserver, as a context manager; `kubeconfig` is the path for clients.

    disabled_plugins: of admission. The two of the default require controllers that do not run here.
    """

    def __init__(self, binaries, folder, authorization="AlwaysAllow", flags=(),
                 disabled_plugins=("ServiceAccount", "TaintNodesByCondition")):
        self.binaries = binaries
        self.folder = pathlib.Path(folder)
        self.authorization = authorization
        self.flags = list(flags)
        self.disabled_plugins = disabled_plugins
        self.kubeconfig = self.folder / "kubeconfig"
        self.processes = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def run(self, name, *words):
        """Starts a program with its output in a file."""
        with open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen([self.binaries / name, *words], cwd=self.folder,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append((name, process))

    def start(self):
        client, peer, self.port = free_ports(3)
        # Data in memory where that is possible: the test is not about disks.
        data = self.folder / "etcd"
        if os.access("/dev/shm", os.W_OK):
            data = pathlib.Path(f"/dev/shm/longhaul-etcd-{os.getpid()}-{client}")
        self.data = data
        self.run("etcd", "--unsafe-no-fsync", f"--data-dir={data}", "--log-level=warn",
                 f"--listen-client-urls=http://127.0.0.1:{client}",
                 f"--advertise-client-urls=http://127.0.0.1:{client}",
                 f"--listen-peer-urls=http://127.0.0.1:{peer}",
                 f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                 f"--initial-cluster=default=http://127.0.0.1:{peer}")
        key = self.folder / "service-account.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},test,1,"system:masters"\n')
        self.server_words = [f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certificates'}", f"--token-auth-file={tokens}",
            f"--authorization-mode={self.authorization}",
            "--service-account-issuer=https://longhaul.test",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={','.join(self.disabled_plugins)}",
            "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
            *self.flags]
        self.run("kube-apiserver", *self.server_words)
        self.wait_until_ready()
        self.authority = self.folder / "certificates" / "apiserver.crt"
        self.write_kubeconfig(self.kubeconfig, TOKEN)

    def write_kubeconfig(self, path, token, namespace="default"):
        """A kubeconfig for who has this token and works in this namespace."""
        path.write_text(f"""apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test, namespace: {namespace}}}}}]
clusters:
- name: test
  cluster: {{server: "https://127.0.0.1:{self.port}", certificate-authority: {self.authority}}}
users: [{{name: test, user: {{token: {token}}}}}]
""")

    def get(self, path):
        """The status and the body of a GET. A refusal is an exception."""
        with self.open("GET", path) as response:
            return response.status, response.read()

    def send(self, method, path, body=None, content_type="application/json", accept="*/*",
             token=TOKEN):
        """The status and the object of any request, refused or not. A body is text or an object."""
        try:
            with self.open(method, path, body, content_type, accept, token) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.loads(refusal.read())

    def open(self, method, path, body=None, content_type="application/json", accept="*/*",
             token=TOKEN):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method,
                                         headers=headers, data=body)
        return urllib.request.urlopen(request, context=context, timeout=10)

    def call(self, method, path, body=None, allowed=(200, 201, 202)):
        """The object that a call answers with; other answers are an error."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, answer = self.send(method, path, body, kind)
        if status not in allowed:
            raise AssertionError(f"{method} {path} answers {status}: {answer}")
        return answer

    def items(self, path):
        return self.call("GET", path)["items"]

    def is_served(self, path):
        try:
            return self.get(path)[0] == 200
        except urllib.error.HTTPError:
            return False

    def wait_until_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            for name, process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended: {self.last_lines(name)}")
            try:
                self.get("/readyz")
                # The namespace is created by the server itself, a moment later.
                self.get("/api/v1/namespaces/default")
                return
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"kube-apiserver is not ready after {READY_SECONDS} s "
                                       f"({error}): {self.last_lines('kube-apiserver')}") from error
            time.sleep(0.05)

    def cpu_seconds(self, name):
        """The CPU time that a program has used."""
        pid = next(process.pid for each, process in self.processes if each == name)
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def restart_server(self):
        """Kills the API server and starts it again: every watch breaks."""
        index = next(i for i, (name, _) in enumerate(self.processes) if name == "kube-apiserver")
        _, process = self.processes.pop(index)
        process.kill()
        process.wait()
        self.run("kube-apiserver", *self.server_words)
        self.wait_until_ready()

    def last_lines(self, name):
        return "\n".join((self.folder / f"{name}.log").read_text().splitlines()[-5:])

    def stop(self):
        for _, process in reversed(self.processes):
            process.kill()
            process.wait()
        if hasattr(self, "data"):
            shutil.rmtree(self.data, ignore_errors=True)
