"""Objects of the Kubernetes API for tests."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GPU = "nvidia.com/gpu"
POD_GROUP_DEFINITION = json.loads((ROOT / "bench" / "kubernetes" /
                                   "pod_group_crd.json").read_text())


def gpu_node(name, leaf="leaf", gpus=8):
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {"metadata": {"name": name, "labels": {"network.topology.nvidia.com/leaf": leaf}},
            "status": {"capacity": amounts, "allocatable": amounts,
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def gpu_pod(name, gpus=1, group=None, scheduler="longhaul", priority=None):
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": "none",
                            "resources": {"limits": {GPU: str(gpus)}}}]}
    if priority:
        spec["priorityClassName"] = priority
    labels = {"scheduling.x-k8s.io/pod-group": group} if group else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pod_group(name, least):
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": {"minMember": least}}


def persistent_volume(name, zone):
    """A volume that can be used in one zone only."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    return {"metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
                     "hostPath": {"path": "/none"},
                     "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


def late_storage_class(name, provisioner, zones=()):
    """Volumes are made when a node has been chosen; with `zones`, in these only."""
    found = {"metadata": {"name": name}, "provisioner": provisioner,
             "volumeBindingMode": "WaitForFirstConsumer"}
    if zones:
        labels = [{"key": "zone", "values": list(zones)}]
        found["allowedTopologies"] = [{"matchLabelExpressions": labels}]
    return found


def persistent_volume_claim(name, volume="", storage_class=""):
    return {"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": storage_class,
                     "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}}
