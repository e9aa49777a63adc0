"""Starts the real Kueue for a test, without webhooks, beside an API server of the test."""

import json
import os
import subprocess
import time

from free_ports import free_ports

NAMESPACE = "kueue-system"
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY_SECONDS = 60


def wait_for(done, what, log_of=lambda: ""):
    deadline = time.monotonic() + READY_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {READY_SECONDS} s{log_of()}")
        time.sleep(0.1)


class Kueue:
    """Kueue's controller, as a context manager, with one queue, `team`, in the namespace default.

    quota: the amounts of the queue by resource. node_labels: of the nodes that they stand for.
    levels: labels of nodes by which Kueue chooses nodes; without them it does not.
    configuration: more members of Kueue's configuration.
    """

    def __init__(self, binaries, server, quota, node_labels=None, levels=(), configuration=None):
        self.binaries = binaries
        self.server = server
        self.quota = quota
        self.node_labels = node_labels or {}
        self.levels = levels
        self.configuration = configuration or {}
        self.process = None

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
        definitions = sorted((self.binaries / "kueue-definitions").glob("*.yaml"))
        for each in definitions:
            status, answer = self.server.send("POST", DEFINITIONS, each.read_text(),
                                              "application/yaml")
            assert status == 201, answer
        names = [each.stem.split("_")[1] for each in definitions]
        wait_for(lambda: all(self.server.is_served(f"{GROUP}/{name}") for name in names
                             if name in ("workloads", "clusterqueues", "localqueues",
                                         "resourceflavors", "topologies",
                                         "workloadpriorityclasses")),
                 "Kueue's definitions")
        self.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.run()
        flavor = {"nodeLabels": self.node_labels}
        if self.levels:
            self.add("Topology", "topologies", "nodes",
                     {"levels": [{"nodeLabel": label} for label in self.levels]})
            flavor["topologyName"] = "nodes"
        self.add("ResourceFlavor", "resourceflavors", "default", flavor)
        self.add("ClusterQueue", "clusterqueues", "all", {
            "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": sorted(self.quota), "flavors": [{
                "name": "default", "resources": [{"name": name, "nominalQuota": amount}
                                                 for name, amount in sorted(self.quota.items())]}]}]})
        self.server.call("POST", f"{GROUP}/namespaces/default/localqueues", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {"name": "team"}, "spec": {"clusterQueue": "all"}})

        def is_active():
            queue = self.server.call("GET", f"{GROUP}/clusterqueues/all")
            return any(each["type"] == "Active" and each["status"] == "True"
                       for each in queue.get("status", {}).get("conditions", []))
        wait_for(is_active, "an active ClusterQueue", self.last_lines)

    def run(self):
        folder = self.server.folder / "kueue"
        folder.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", folder / "tls.key", "-out",
                        folder / "tls.crt"], check=True, capture_output=True)
        health, metrics, webhook = free_ports(3)
        config = folder / "config.json"
        config.write_text(json.dumps({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
            "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(folder)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["batch/job"],
                             "externalFrameworks": ["LonghaulJob.v1.longhaul.dev"]},
            **self.configuration}))
        self.log = folder / "kueue.log"
        with open(self.log, "w") as log:
            # Kueue reads the certificate of its metrics from a fixed path in /etc, which it has to
            # itself here.
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--map-root-user", "sh", "-c",
                 "mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && "
                 'ln -s "$0" /etc/kueue/metrics/certs && exec "$@"', folder,
                 self.binaries / "kueue", f"--config={config}",
                 f"--kubeconfig={self.server.kubeconfig}",
                 "--feature-gates=VisibilityOnDemand=false"],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "POD_NAMESPACE": NAMESPACE})

    def add(self, kind, plural, name, spec):
        self.server.call("POST", f"{GROUP}/{plural}", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name},
            "spec": spec})

    def add_priority(self, name, value):
        self.server.call("POST", f"{GROUP}/workloadpriorityclasses", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
            "metadata": {"name": name}, "value": value})

    def last_lines(self):
        return "\n" + "\n".join(self.log.read_text().splitlines()[-15:])

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
