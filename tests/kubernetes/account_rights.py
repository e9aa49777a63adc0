"""The rights of deploy/kubernetes, compared with the calls of their accounts.

A server under RBAC has the shipped objects. Its audit log has each call of the accounts, and the
binding that allowed it.
"""

import json
import pathlib
import tempfile

from api_server import ROOT, ApiServer

DEPLOYED = ROOT / "deploy" / "kubernetes"
NAMESPACE = "longhaul"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "FlowSchema": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}


def manifests(name):
    """The objects of a file in deploy/kubernetes."""
    import yaml
    return [each for each in yaml.safe_load_all((DEPLOYED / name).read_text()) if each]


def collection(each):
    return COLLECTIONS[each["kind"]].format(each["metadata"].get("namespace", ""))


def user(account):
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def rights(objects):
    """(verb, group, resource, namespace, name) of each right. No namespace: in all of them."""
    return {(verb, group, resource, each["metadata"].get("namespace", ""), name)
            for each in objects if each["kind"] in ("ClusterRole", "Role")
            for rule in each["rules"]
            for verb in rule["verbs"] for group in rule["apiGroups"]
            for resource in rule["resources"] for name in rule.get("resourceNames", [""])}


def covers(right, call):
    return right[:3] == call[:3] and right[3] in ("", call[3]) and right[4] in ("", call[4])


class RightsServer(ApiServer):
    """A server under RBAC with the objects of these files. What it cannot check is refused, so
    that a misspelt field of a file is found."""

    def __init__(self, binaries, folder, files, accounts, flags=(), **more):
        self.audit = pathlib.Path(folder) / "audit.log"
        policy = pathlib.Path(folder) / "policy.json"
        policy.write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [user(each) for each in accounts]},
                      {"level": "None"}]}))
        self.objects = [each for name in files for each in manifests(name)]
        super().__init__(binaries, folder, authorization="RBAC", flags=[
            f"--audit-log-path={self.audit}", f"--audit-policy-file={policy}", *flags], **more)

    def start(self):
        super().start()
        for each in self.objects:
            self.call("POST", collection(each) + "?fieldValidation=Strict", each)

    def token(self, account):
        """A token of the service account for the API server."""
        return self.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
                         {"spec": {"expirationSeconds": 3600}})["status"]["token"]

    def kubeconfig_of(self, account):
        path = self.folder / f"{account}.kubeconfig"
        self.write_kubeconfig(path, self.token(account), NAMESPACE)
        return path

    def events(self, account):
        for line in self.audit.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # else it is being written
                event = json.loads(line)
                if event["user"]["username"] == user(account):
                    yield event

    def calls(self, account):
        """(verb, group, resource, namespace, name) of each call."""
        return {call_of(event) for event in self.events(account) if "objectRef" in event}

    def paths(self, account):
        """Each path that is of no resource, with the reason why it was allowed."""
        return {event["requestURI"].split("?")[0]:
                event["annotations"].get("authorization.k8s.io/reason", "")
                for event in self.events(account) if "objectRef" not in event}

    def refused(self, account):
        return [(event["verb"], event["requestURI"], event["annotations"])
                for event in self.events(account)
                if event.get("responseStatus", {}).get("code") in (401, 403)]

    def may(self, account, verb, group, resource, namespace="default", name=""):
        """What the server itself decides."""
        resource, _, subresource = resource.partition("/")
        review = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
            "spec": {"user": user(account),
                     "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}",
                                "system:authenticated"],
                     "resourceAttributes": {
                         "verb": verb, "group": group, "resource": resource, "name": name,
                         "subresource": subresource, "namespace": namespace}}})
        return review["status"]["allowed"]


def call_of(event):
    of = event["objectRef"]
    resource = of["resource"] + ("/" + of["subresource"] if "subresource" in of else "")
    return (event["verb"], of.get("apiGroup", ""), resource, of.get("namespace", ""),
            of.get("name", ""))


def start_server(test, binaries, files, accounts, flags=(), **more):
    """A RightsServer until the end of the test, which also may be a class."""
    is_class = isinstance(test, type)
    folder = tempfile.TemporaryDirectory()
    (test.addClassCleanup if is_class else test.addCleanup)(folder.cleanup)
    server = RightsServer(binaries, folder.name, files, accounts, flags, **more)
    return (test.enterClassContext if is_class else test.enterContext)(server)


def unused(granted, calls):
    return {right for right in granted if not any(covers(right, call) for call in calls)}


def not_covered(granted, calls):
    return {call for call in calls if not any(covers(right, call) for right in granted)}
