"""The rights that deploy/kubernetes/operator.yaml grants are those that the operator uses.

  operator_rights_test.py LONGHAUL

A whole LonghaulJob runs under RBAC, with the shipped roles and the operator's own account; the API
server's audit log says what the operator called. The pods of the job have to be accepted by the
API server's Pod Security admission.
"""

import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import account_rights
import scripted_kueue
from account_rights import NAMESPACE
from api_server import programs_or_skip
from process_kubelet import ProcessKubelet, node

LONGHAUL = None
WAIT_SECONDS = 60
REFUSAL_SECONDS = 1
OPERATOR = "longhaul-operator"
SCHEDULER = "longhaul-scheduler"
KEYS = "/openid/v1/jwks"
API = "/apis/longhaul.dev/v1/namespaces/default/longhauljobs"
PODS = "/api/v1/namespaces/default/pods"
ENFORCE = "pod-security.kubernetes.io/enforce"
FINALIZERS = ("update", "longhaul.dev", "longhauljobs/finalizers", "", "")


def wait_for(done, what, seconds=WAIT_SECONDS):
    deadline = time.monotonic() + seconds
    while True:
        value = done()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


class Cluster:
    """A server under RBAC with the shipped objects, the scheduler and the operator as their
    accounts, and nodes that run pods. `test` is a test case or its class."""

    def __init__(self, test, binaries, level, *flags):
        self.server = account_rights.start_server(
            test, binaries, ["crd/longhauljob.yaml", "scheduler.yaml", "operator.yaml"],
            [OPERATOR, SCHEDULER], flags, disabled_plugins=("TaintNodesByCondition",))
        wait_for(lambda: self.server.is_served(API), "the definition of LonghaulJob")
        for each in scripted_kueue.definitions():
            self.server.call("POST", account_rights.collection(each), each)
        wait_for(lambda: all(self.server.is_served(f"{scripted_kueue.GROUP}/{plural}")
                             for plural, _ in scripted_kueue.KINDS.values()),
                 "the definitions of Kueue")
        self.server.call("PATCH", "/api/v1/namespaces/default",
                         {"metadata": {"labels": {ENFORCE: level}}})
        # No controller makes it here.
        self.server.call("POST", "/api/v1/namespaces/default/serviceaccounts",
                         {"metadata": {"name": "default"}})
        self.folder = self.server.folder
        program = self.folder / "program"
        (program / "bin").mkdir(parents=True)
        for name in ("longhaul", "longhaul-kube"):
            (program / "bin" / name).symlink_to(LONGHAUL.parent / name)
        enter = test.enterClassContext if isinstance(test, type) else test.enterContext
        self.kubelet = enter(ProcessKubelet(self.server, [node("n0"), node("n1")],
                                            programs={"/opt/longhaul": program}))
        self.logs = {}
        self.processes = {}
        (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(self.stop)
        self.start(SCHEDULER)
        self.start(OPERATOR)

    def start(self, name):
        """What a pod of this Deployment runs. A kubeconfig stands for the files of its account."""
        deployment, = [each for each in self.server.objects
                       if each["kind"] == "Deployment" and each["metadata"]["name"] == name]
        container, = deployment["spec"]["template"]["spec"]["containers"]
        words = container["command"][1:]
        for each in container.get("env", []):
            words = [word.replace(f"$({each['name']})", each["value"]) for word in words]
        self.logs[name] = self.folder / f"{name}.log"
        with open(self.logs[name], "w") as log:
            self.processes[name] = subprocess.Popen(
                [LONGHAUL, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "KUBECONFIG": str(self.server.kubeconfig_of(name))})

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.server.items(PODS)}

    def wait_for(self, done, what):
        """Ends at once when a call of an account is refused, because it would be in vain."""
        looked_at = time.monotonic()

        def done_or_refused():
            nonlocal looked_at
            value = done()
            if not value and time.monotonic() - looked_at > REFUSAL_SECONDS:
                looked_at = time.monotonic()
                self.assert_no_refusals()
            return value
        try:
            return wait_for(done_or_refused, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.report()}") from None

    def assert_no_refusals(self):
        for account in (OPERATOR, SCHEDULER):
            refused = self.server.refused(account)
            assert not refused, f"{account} was refused: {refused}"

    def status(self, name):
        return self.server.call("GET", f"{API}/{name}").get("status", {})

    def await_phase(self, name, phase):
        self.wait_for(lambda: self.status(name).get("phase") == phase, f"{name} is {phase}")

    def report(self):
        jobs = {job["metadata"]["name"]: job.get("status") for job in self.server.items(API)}
        pods = {key: pod["status"] for key, pod in self.pods().items()}
        return "\n".join([str(jobs), str(pods),
                          *(log.read_text()[-3000:] for log in self.logs.values())])

    def make(self, name, security=None, labels=None):
        """A job of two workers that ends when the test has made a file. Returns the file."""
        end = self.folder / f"{name}.end"
        template = {"spec": {"containers": [{"name": "worker", "image": "train:test"}]}}
        if security:
            template["spec"]["securityContext"] = security
        self.server.call("POST", API, {
            "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"workers": {"desired": 2},
                     "job": {"command": ["sh", "-c",
                                         f"until test -e {end}; do sleep 0.1; done"]},
                     "runDirectory": str(self.folder / "runs" / name), "template": template}})
        return end

    def trains(self, pod):
        """Whether the command of the job runs in this pod."""
        if pod not in self.pods() or "nodeName" not in self.pods()[pod]["spec"]:
            return False
        for pid in self.kubelet.processes(pod):
            try:
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sh\0-c\0until"):
                    return True
            except OSError:
                continue  # it has ended
        return False

    def suspend(self, name, value):
        self.server.call("PATCH", f"{API}/{name}", {"spec": {"suspend": value}})

    def run_a_job(self, name):
        """From its creation to its end, in a queue, with a worker that is lost and a suspension."""
        with scripted_kueue.ScriptedKueue(self.server, pods=3):
            self.run_admitted(name)
        self.assert_no_refusals()

    def run_admitted(self, name):
        end = self.make(name, labels={"kueue.x-k8s.io/queue-name": "team"})
        self.await_phase(name, "Running")
        self.server.call("DELETE", f"{PODS}/{name}-worker-1-0")
        self.wait_for(lambda: all(self.trains(f"{name}-worker-{rest}") for rest in ("0-0", "1-1")),
                      "training with the worker's next life")
        self.wait_for(lambda: self.status(name).get("restarts") == 1, "a restart")
        self.await_phase(name, "Running")
        self.suspend(name, True)
        self.await_phase(name, "Suspended")
        self.wait_for(lambda: not self.pods(), "the end of the pods")
        self.wait_for(lambda: not self.server.items(f"{scripted_kueue.GROUP}/workloads"),
                      "the end of the Workload")
        self.suspend(name, False)
        self.await_phase(name, "Running")
        end.touch()
        self.await_phase(name, "Succeeded")
        self.server.call("DELETE", f"{API}/{name}")
        self.wait_for(lambda: self.server.send("GET", f"{API}/{name}")[0] == 404,
                      "the end of the job")
        self.wait_for(lambda: not self.pods(), "the end of its pods")
        self.wait_for(lambda: any(call[:3] == ("patch", "coordination.k8s.io", "leases")
                                  for call in self.server.calls(OPERATOR)), "a renewed lease")


class OperatorRights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.objects = account_rights.manifests("operator.yaml")
        except ImportError:
            print("PyYAML is not installed")
            raise unittest.SkipTest("PyYAML is not installed") from None
        cls.binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.granted = account_rights.rights(cls.objects)
        cls.cluster = Cluster(cls, cls.binaries, "baseline",
                              "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
        cls.server = cls.cluster.server

    def test_each_call_is_allowed_and_each_right_is_used(self):
        # The second server refuses streaming lists, as older ones do.
        second = Cluster(self, self.binaries, "baseline", "--feature-gates=WatchList=false")
        used = set()
        for cluster in (self.cluster, second):
            cluster.run_a_job("whole")
            used |= cluster.server.calls(OPERATOR)
        self.assertEqual(account_rights.not_covered(self.granted, used), set(),
                         "calls without a right")
        # Admission alone uses it, as another test here shows.
        self.assertEqual(account_rights.unused(self.granted, used), {FINALIZERS},
                         "rights that nothing uses")

    def test_keys_are_readable_by_every_service_account(self):
        wait_for(lambda: KEYS in self.server.paths(OPERATOR), "the keys are read")
        self.assertIn('ClusterRole "system:service-account-issuer-discovery" to Group '
                      '"system:serviceaccounts"', self.server.paths(OPERATOR)[KEYS])

    def test_neither_account_can_do_what_the_other_one_does_or_read_secrets(self):
        for account, file in ((OPERATOR, "operator.yaml"), (SCHEDULER, "scheduler.yaml")):
            for right in account_rights.rights(account_rights.manifests(file)):
                self.assertNotIn("*", "".join(right), right)
                self.assertNotIn("secrets", right)
        both = [(verb, group, resource, namespace) for namespace in ("default", NAMESPACE)
                for verb, group, resource in [
                    ("get", "", "secrets"), ("list", "", "secrets"), ("watch", "", "secrets"),
                    ("create", "", "pods/exec"), ("create", "", "pods/ephemeralcontainers"),
                    ("get", "", "pods/log"), ("list", "", "configmaps"), ("patch", "", "nodes"),
                    ("create", "rbac.authorization.k8s.io", "roles"),
                    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
                    ("impersonate", "", "serviceaccounts"), ("create", "apps", "deployments")]]
        default = [(verb, group, resource, "default") for verb, group, resource in [
            ("create", "", "serviceaccounts/token"), ("get", "coordination.k8s.io", "leases"),
            ("create", "coordination.k8s.io", "leases")]]
        others = {
            OPERATOR: [("create", "", "pods/binding"), ("create", "", "pods/eviction"),
                       ("patch", "", "pods/status"), ("list", "", "nodes"),
                       ("delete", "longhaul.dev", "longhauljobs"),
                       ("create", "longhaul.dev", "longhauljobs")],
            SCHEDULER: [("create", "", "pods"), ("patch", "", "pods"),
                        ("create", "", "serviceaccounts/token"),
                        ("list", "longhaul.dev", "longhauljobs")]}
        for account, calls in others.items():
            for call in [*both, *default, *((*each, "default") for each in calls)]:
                with self.subTest(account=account, call=call):
                    self.assertFalse(self.server.may(account, *call))
            for name in ("default", OPERATOR, SCHEDULER):
                with self.subTest(account=account, name=name):
                    # Of its own objects alone, and a token for the operator alone.
                    self.assertEqual(self.server.may(account, "patch", "coordination.k8s.io",
                                                     "leases", NAMESPACE, name), name == account)
                    self.assertEqual(
                        self.server.may(account, "create", "", "serviceaccounts/token", NAMESPACE,
                                        name), name == account == OPERATOR)

    def test_pods_of_a_job_have_no_access_to_the_api(self):
        end = self.cluster.make("tokens")
        self.cluster.await_phase("tokens", "Running")
        pods = self.cluster.pods()
        worker, controller = pods["tokens-worker-0-0"], pods["tokens-controller-0"]
        sources = [(volume["name"], source["serviceAccountToken"]["audience"])
                   for pod in (worker, controller) for volume in pod["spec"]["volumes"]
                   for source in volume.get("projected", {}).get("sources", [])
                   if "serviceAccountToken" in source]
        uid = worker["metadata"]["ownerReferences"][0]["uid"]
        # The ServiceAccount plugin, which is on here, has added none.
        self.assertEqual(sources, [("longhaul-token", f"longhaul.dev/job/{uid}")])
        token = (self.cluster.kubelet.volume(worker, "longhaul-token") / "token").read_text()
        for path in (PODS, "/api", KEYS):
            status, answer = self.server.send("GET", path, token=token)
            self.assertEqual(status, 401, answer)
        # It is a good token for those whom it is for.
        for audience, is_good in ((f"longhaul.dev/job/{uid}", True), ("other", False)):
            review = self.server.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
                "spec": {"token": token, "audiences": [audience]}})
            self.assertIs(review["status"].get("authenticated", False), is_good, review)
        # The account of the pods has no rights either.
        token = self.server.call("POST", "/api/v1/namespaces/default/serviceaccounts/default/token",
                                 {"spec": {}})["status"]["token"]
        for path in (PODS, API):
            self.assertEqual(self.server.send("GET", path, token=token)[0], 403)
        end.touch()
        self.cluster.await_phase("tokens", "Succeeded")

    def admission(self, level, spec, kind="jobs"):
        """Why a namespace of this level of Pod Security refuses a pod; None: it does not."""
        namespace = f"{level}-{kind}"
        self.server.call("POST", "/api/v1/namespaces", {"metadata": {
            "name": namespace, "labels": {ENFORCE: level}}}, allowed=(201, 409))
        self.server.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {
            "metadata": {"name": spec["serviceAccountName"]}}, allowed=(201, 409))
        bare = {key: value for key, value in spec.items() if key not in ("nodeName",)}
        status, answer = self.server.send(
            "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All",
            {"metadata": {"name": "copy"}, "spec": bare})
        self.assertIn(status, (201, 403), answer)
        return None if status == 201 else answer["message"]

    def test_pods_of_a_job_pass_pod_security(self):
        # The namespace of the jobs enforces the level baseline: there they were made.
        ends = [self.cluster.make("usual"),
                self.cluster.make("careful", {"runAsNonRoot": True, "runAsUser": 1000})]
        for name in ("usual", "careful"):
            self.cluster.await_phase(name, "Running")
        pods = {name: pod["spec"] for name, pod in self.cluster.pods().items()}
        self.assertIsNone(self.admission("restricted", pods["usual-controller-0"]))
        self.assertIsNone(self.admission("restricted", pods["careful-worker-0-0"]))
        # An image may use root, so runAsNonRoot is the user's decision. Nothing else is missing.
        refusal = self.admission("restricted", pods["usual-worker-0-0"])
        self.assertIn("runAsNonRoot != true", refusal)
        self.assertNotIn("), ", refusal)
        # The check does see what it is for.
        wrong = {**pods["usual-worker-0-0"], "hostNetwork": True}
        self.assertIn("host namespaces", self.admission("baseline", wrong))
        for end in ends:
            end.touch()

    def test_deployed_pods_are_restricted(self):
        namespace = self.server.call("GET", f"/api/v1/namespaces/{NAMESPACE}")
        self.assertEqual(namespace["metadata"]["labels"][ENFORCE], "restricted")
        images = set()
        for account in (OPERATOR, SCHEDULER):
            deployment = self.server.call(
                "GET", account_rights.COLLECTIONS["Deployment"].format(NAMESPACE) + f"/{account}")
            self.assertEqual(deployment["spec"]["replicas"], 2)
            spec = deployment["spec"]["template"]["spec"]
            self.assertEqual(spec["serviceAccountName"], account)
            self.assertIsNone(self.admission("restricted", spec, "deployed"))
            container, = spec["containers"]
            self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
            images |= {container["image"], *(each["value"] for each in container.get("env", []))}
            self.assertIsNone(self.cluster.processes[account].poll(), "its command runs")
        self.assertEqual(len(images), 1, images)

    def level_of(self, account):
        """The name of the FlowSchema that the server applied to a request of this account."""
        with self.server.open("GET", API, token=self.server.token(account)) as answer:
            uid = answer.headers["X-Kubernetes-PF-FlowSchema-UID"]
        schemas = self.server.items(account_rights.COLLECTIONS["FlowSchema"])
        name, = [each["metadata"]["name"] for each in schemas if each["metadata"]["uid"] == uid]
        return name

    def test_flow_schema_applies_to_the_two_accounts_alone(self):
        self.token_for("bystander", [{"apiGroups": ["longhaul.dev"], "verbs": ["list"],
                                      "resources": ["longhauljobs"]}])
        self.assertEqual(self.level_of(OPERATOR), "service-accounts")
        schema, = account_rights.manifests("flow-schema.yaml")
        self.server.call("POST", account_rights.collection(schema) + "?fieldValidation=Strict",
                         schema)
        wait_for(lambda: self.level_of(OPERATOR) == "longhaul", "the operator's FlowSchema")
        self.assertEqual(self.level_of("bystander"), "service-accounts")

    def test_kustomization_lists_what_is_installed(self):
        kustomization, = account_rights.manifests("kustomization.yaml")
        self.assertEqual(kustomization["resources"],
                         ["crd/longhauljob.yaml", "scheduler.yaml", "operator.yaml"])
        image, = kustomization["images"]
        self.assertEqual({f"{image['name']}:{image['newTag']}"},
                         {container["image"] for each in self.server.objects
                          if each["kind"] == "Deployment"
                          for container in each["spec"]["template"]["spec"]["containers"]})

    def test_example_of_network_policies_selects_the_pods_of_a_job(self):
        policies = {each["metadata"]["name"]: each
                    for each in account_rights.manifests("job-network-policy.yaml")}
        self.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
        for policy in policies.values():
            self.server.call("POST", account_rights.collection(policy) + "?fieldValidation=Strict",
                             policy)
        end = self.cluster.make("tune")
        self.cluster.await_phase("tune", "Running")
        for role, names in (("worker", ["tune-worker-0-0", "tune-worker-1-0"]),
                            ("controller", ["tune-controller-0"])):
            labels = policies[f"tune-{role}s" if role == "worker" else "tune-controller"][
                "spec"]["podSelector"]["matchLabels"]
            selector = "%2C".join(f"{key.replace('/', '%2F')}%3D{value}"
                                  for key, value in labels.items())
            found = self.server.items(f"{PODS}?labelSelector={selector}")
            self.assertEqual(sorted(pod["metadata"]["name"] for pod in found), names)
        end.touch()

    def token_for(self, name, rules):
        """A token of a new account with these rules in all namespaces."""
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        for each in ({"kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
                     {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
                     {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": role,
                      "subjects": [account]}):
            self.server.call("POST", account_rights.collection(each), each)
        return self.server.token(name)

    def test_finalizers_is_required_where_owners_are_enforced(self):
        rules, = [each["rules"] for each in self.objects if each["kind"] == "ClusterRole"]
        owner = self.server.call("POST", API, {
            "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "metadata": {"name": "owner"},
            "spec": {"workers": {"desired": 1}, "job": {"command": ["true"]},
                     "managedBy": "somebody/else"}})
        pod = {"metadata": {"name": "owned", "ownerReferences": [{
                   "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "name": "owner",
                   "uid": owner["metadata"]["uid"], "controller": True,
                   "blockOwnerDeletion": True}]},
               "spec": {"containers": [{"name": "a", "image": "a"}]}}
        for name, those, want in (
                ("as-shipped", rules, "Success"),
                ("without-finalizers",
                 [each for each in rules if each["resources"] != ["longhauljobs/finalizers"]],
                 "cannot set blockOwnerDeletion")):
            token = self.token_for(name, those)

            def answer(token=token):
                status, done = self.server.send("POST", f"{PODS}?dryRun=All", pod, token=token)
                return "Success" if status == 201 else done["message"]
            # The server follows roles with a delay.
            wait_for(lambda answer=answer, want=want: want in answer(), f"{name}: {want}")


if __name__ == "__main__":
    LONGHAUL = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
