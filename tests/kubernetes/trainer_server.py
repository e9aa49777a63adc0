"""Starts the controllers of Kubeflow Trainer, JobSet and Kubernetes beside an API server of a test.

They are the real ones, with the webhooks of their own manifests.
"""

import base64
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request

from free_ports import free_ports

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CORE = "/api/v1/namespaces/default"
PROGRAMS = ("kube-controller-manager", "jobset", "trainer")
# Of kube-controller-manager: what makes the pods of a Job, and what removes them with it.
CONTROLLERS = "job-controller,garbage-collector-controller"
SERVED = ("jobset.x-k8s.io/v1alpha2/jobsets", "trainer.kubeflow.org/v1alpha1/trainjobs",
          "trainer.kubeflow.org/v1alpha1/clustertrainingruntimes",
          "scheduling.x-k8s.io/v1alpha1/podgroups")
READY_SECONDS = 100


def wait_for(done, what, log_of=lambda: ""):
    deadline = time.monotonic() + READY_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {READY_SECONDS} s{log_of()}")
        time.sleep(0.1)


class TrainerControllers:
    """The three programs, as a context manager, with their definitions installed."""

    def __init__(self, binaries, server):
        self.binaries = binaries
        self.server = server
        self.processes = {}
        self.health = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def start(self):
        # The controllers look for the definitions of each other when they start.
        objects = {program: self.objects(program) for program in ("jobset", "trainer")}
        for each in objects["jobset"] + objects["trainer"]:
            if each["kind"] == "CustomResourceDefinition":
                self.server.call("POST", DEFINITIONS, each)
        for path in SERVED:
            wait_for(lambda path=path: self.server.is_served(f"/apis/{path}"), path)
        self.run("kube-controller-manager", f"--kubeconfig={self.server.kubeconfig}",
                 "--leader-elect=false", "--authentication-skip-lookup", "--secure-port=0",
                 f"--controllers={CONTROLLERS}")
        for program, found in objects.items():
            self.run_manager(program, [each for each in found if "webhooks" in each])
        for program in objects:
            wait_for(lambda program=program: self.is_ready(program), f"{program} is ready",
                     self.last_lines)

    def objects(self, program):
        """What the program's module has to be installed beside it."""
        import yaml
        return [each for path in sorted((self.binaries / f"{program}-definitions").glob("*.yaml"))
                for each in yaml.safe_load_all(path.read_text()) if each]

    def run(self, program, *words, **environment):
        with open(self.server.folder / f"{program}.log", "w") as log:
            self.processes[program] = subprocess.Popen(
                [self.binaries / program, *words], cwd=self.server.folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, env={**os.environ, **environment})

    def run_manager(self, program, configurations):
        """Trainer's or JobSet's controller, with the webhooks of these configurations."""
        folder = self.server.folder / program
        # Trainer reads its certificate from this folder of the temporary folder.
        certificates = folder / "k8s-webhook-server" / "serving-certs"
        certificates.mkdir(parents=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", certificates / "tls.key", "-out", certificates / "tls.crt"],
                       check=True, capture_output=True)
        self.health[program], webhook = free_ports(2)
        config = folder / "config.json"
        management = "certManagement" if program == "trainer" else "internalCertManagement"
        group = "config.trainer.kubeflow.org" if program == "trainer" else "config.jobset.x-k8s.io"
        config.write_text(json.dumps({
            "apiVersion": f"{group}/v1alpha1", "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health[program]}"},
            "metrics": {"bindAddress": "0"}, "webhook": {"host": "127.0.0.1", "port": webhook},
            "leaderElection": {"leaderElect": False}, management: {"enable": False}}))
        self.run(program, f"--config={config}", f"--kubeconfig={self.server.kubeconfig}",
                 TMPDIR=str(folder))
        authority = base64.b64encode((certificates / "tls.crt").read_bytes()).decode()
        for each in configurations:
            for hook in each["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{webhook}{path}",
                                        "caBundle": authority}
            each["metadata"] = {"name": f"{program}.test"}
            self.server.call("POST", f"{ADMISSION}/{each['kind'].lower()}s", each)

    def is_ready(self, program):
        try:
            url = f"http://127.0.0.1:{self.health[program]}/readyz"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def ended(self):
        """The programs that do not run any more."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def last_lines(self):
        return "".join(f"\n{name}:\n" + "\n".join(
            (self.server.folder / f"{name}.log").read_text().splitlines()[-15:])
            for name in self.processes)

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class HostNames(threading.Thread):
    """Writes the address and the uid of each pod with a host name to a file, in the place of DNS.

    A name is HOSTNAME.SUBDOMAIN, and it has an address where there is a Service of the name of the
    subdomain. EndpointSlices cannot be used, because they refuse the addresses of the stand-in. As
    in DNS, a name can have the address of an earlier pod for a moment.
    """

    def __init__(self, server, path):
        super().__init__(daemon=True, name="host names")
        self.server = server
        self.path = path
        self.is_stopping = threading.Event()

    def __enter__(self):
        self.write({})
        self.start()
        return self

    def __exit__(self, *unused):
        self.is_stopping.set()
        self.join()

    def write(self, names):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(names))
        os.replace(new, self.path)

    def run(self):
        while not self.is_stopping.wait(0.2):
            services = {each["metadata"]["name"] for each in self.server.items(f"{CORE}/services")}
            self.write({f"{spec['hostname']}.{spec['subdomain']}":
                        {"address": pod["status"]["podIP"], "pod": pod["metadata"]["uid"]}
                        for pod in self.server.items(f"{CORE}/pods") for spec in [pod["spec"]]
                        if spec.get("subdomain") in services and "podIP" in pod["status"]})
