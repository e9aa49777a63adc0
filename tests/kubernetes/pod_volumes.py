"""The volumes of one pod as folders of this machine."""

import base64
import calendar
import os
import shutil
import tempfile
import time

from kubernetes_client import Refused
from pod_fields import field_value, resource_value

DEFAULT_MODE = 0o644


def write_atomically(folder, files):
    """Replaces all files of a volume at once, as the kubelet does.

    The files lie in a folder of their own, which the link ..data names. Renaming a new link over it
    replaces them together. Each file that a user sees is a link into ..data.
    `files` has the content and the mode of each path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    old = os.readlink(data) if data.is_symlink() else None
    new = tempfile.mkdtemp(prefix=time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime()), dir=folder)
    os.chmod(new, 0o755)
    for path, (content, mode) in files.items():
        file = folder / new / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    os.symlink(os.path.basename(new), folder / "..data_tmp")
    os.rename(folder / "..data_tmp", data)
    tops = {path.split("/")[0] for path in files}
    for top in tops:
        if not (folder / top).is_symlink():
            os.symlink(f"..data/{top}", folder / top)
    for entry in os.listdir(folder):
        if not entry.startswith("..") and entry not in tops:
            os.unlink(folder / entry)
    if old is not None:
        shutil.rmtree(folder / old, ignore_errors=True)


def seconds_since_epoch(text):
    """A time of the API, such as 2026-01-31T08:00:00Z."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class Volumes:
    """Makes, updates and removes the volumes of one pod. One thread uses it."""

    def __init__(self, folder, client, node, token_renewal):
        self.folder = folder
        self.client = client
        self.node = node
        self.token_renewal = token_renewal  # the part of a token's life after which it is renewed
        self.written = {}  # the files of each volume that is written atomically
        self.tokens = {}  # the token and the time of its renewal
        self.config_maps = {}

    def path(self, name):
        return self.folder / name

    def update(self, pod):
        """Makes each volume that is missing, and replaces files whose content has changed. Raises
        Unavailable or Refused when an object or a token cannot be had."""
        for volume in pod["spec"].get("volumes", []):
            name = volume["name"]
            if "emptyDir" in volume:
                if not self.path(name).exists():
                    self.path(name).mkdir(parents=True)
                    self.path(name).chmod(0o777)
                continue
            files = self.files(pod, volume)
            if files != self.written.get(name):
                write_atomically(self.path(name), files)
                self.written[name] = files

    def changes(self, pod):
        """Whether the content of a volume may change with the time."""
        return any("emptyDir" not in volume for volume in pod["spec"].get("volumes", []))

    def clear_memory(self, pod):
        """Empties what lies in memory, as a restart of the node does."""
        for volume in pod["spec"].get("volumes", []):
            if volume.get("emptyDir", {}).get("medium") == "Memory":
                shutil.rmtree(self.path(volume["name"]), ignore_errors=True)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def files(self, pod, volume):
        if "projected" in volume:
            kind = volume["projected"]
            sources = kind.get("sources", [])
        else:
            kind = volume.get("downwardAPI", volume.get("configMap"))
            sources = [volume]
        default_mode = kind.get("defaultMode", DEFAULT_MODE)
        files = {}
        for i, source in enumerate(sources):
            if "downwardAPI" in source:
                files |= self.downward_files(pod, source["downwardAPI"], default_mode)
            if "configMap" in source:
                files |= self.config_map_files(pod, source["configMap"], default_mode)
            if "serviceAccountToken" in source:
                token = self.token(pod, (volume["name"], i), source["serviceAccountToken"])
                files[source["serviceAccountToken"]["path"]] = token.encode(), default_mode
        return files

    def downward_files(self, pod, source, default_mode):
        containers = {each["name"]: each for each in pod["spec"]["containers"] +
                      pod["spec"].get("initContainers", [])}
        files = {}
        for item in source.get("items", []):
            if "fieldRef" in item:
                text = field_value(pod, {}, item["fieldRef"]["fieldPath"])
            else:
                reference = item["resourceFieldRef"]
                text = resource_value(containers[reference["containerName"]],
                                      self.node.allocatable, reference)
            files[item["path"]] = text.encode(), item.get("mode", default_mode)
        return files

    def config_map_files(self, pod, source, default_mode):
        """A ConfigMap is read once: later changes of it are not followed."""
        name = source["name"]
        if name not in self.config_maps:
            try:
                self.config_maps[name] = self.client.call(
                    "GET", f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{name}")
            except Refused as refusal:
                if refusal.status != 404 or not source.get("optional"):
                    raise
                self.config_maps[name] = {}
        found = self.config_maps[name]
        contents = {key: text.encode() for key, text in found.get("data", {}).items()}
        contents |= {key: base64.b64decode(text)
                     for key, text in found.get("binaryData", {}).items()}
        if "items" not in source:
            return {key: (content, default_mode) for key, content in contents.items()}
        missing = [item["key"] for item in source["items"] if item["key"] not in contents]
        if missing and not source.get("optional"):
            raise Refused(404, f"configmap {name} has no key {missing[0]}")
        return {item["path"]: (contents[item["key"]], item.get("mode", default_mode))
                for item in source["items"] if item["key"] in contents}

    def token(self, pod, place, source):
        """A token of the pod's service account, requested again before its life ends."""
        token, renewal = self.tokens.get(place, (None, 0))
        if token is not None and time.time() < renewal:
            return token
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        audience = source.get("audience")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": [audience] if audience else [],
            "expirationSeconds": source.get("expirationSeconds", 3600),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"],
                               "uid": metadata["uid"]}}}
        status = self.client.call("POST", f"/api/v1/namespaces/{metadata['namespace']}"
                                  f"/serviceaccounts/{account}/token", request)["status"]
        now = time.time()
        life = seconds_since_epoch(status["expirationTimestamp"]) - now
        self.tokens[place] = status["token"], now + self.token_renewal * life
        return status["token"]
